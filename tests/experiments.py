"""Texts of experiment files, to put together what a test reads."""

from __future__ import annotations

BASE = """
languages = ["en", "fr", "es"]
[data]
bitext = { "en-fr" = "b", "en-es" = "b", "fr-es" = "b" }
mono = { en = "m", fr = "m", es = "m" }
valid = "v"
"""


def stage(name: str, mix: str = '["X>Y"]', more: str = "updates = 10") -> str:
    return f'\n[[stage]]\nname = "{name}"\nmix = {mix}\n{more}\n'


ONE = BASE + stage("vanilla")
TREE = (
    ONE
    + stage("longer", more='from = "vanilla"\nupdates = 10')
    + stage("dual", '["X>Y", "X>Y>X"]', 'from = "vanilla"\nupdates = 10')
    + stage("multi", '["X>Y", { path = "X>Y>Z>X", weight = 1 }]', 'from = "vanilla"\nupdates = 10')
)


def compare(of: str, against: str) -> str:
    return f'[[compare]]\nof = "{of}"\nagainst = "{against}"\n'
