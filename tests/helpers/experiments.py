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


WORLD = """
languages = ["en", "fr"]

[data.world]
pairs = { "en-fr" = 60 }
mono = { en = 60, fr = 60 }
valid = 10
test = 10

[vocab]
size = 400

[model]
preset = "tiny"
layers = 1
width = 16
feed_forward = 16
heads = 2

[train]
tokens = 256
round = 2
validate_every = 2
validate_sentences = 4

[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 2

[[stage]]
name = "dual"
from = "vanilla"
mix = ["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]
updates = 2
"""
