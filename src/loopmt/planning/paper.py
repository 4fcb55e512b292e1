"""The paper's two tables for a run, in the paper's layout, with the paper's values beside them.

They show the accuracy at thresholds 10 and 20 before and after training, and eta, alpha, beta, gamma of the dual loops
of both directions. Sentence BLEU is unsmoothed, as in multi-bleu.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from loopmt.path import Hop, LanguagePath
from loopmt.planning.analysis import Estimate, Values
from loopmt.planning.round_trips import ThresholdRule

THRESHOLDS = (10, 20)
RULES = tuple(ThresholdRule(threshold, smooth=False) for threshold in THRESHOLDS)
PARAMETERS = ("eta", "alpha", "beta", "gamma")
Measured = Mapping[tuple[LanguagePath, str], Values]
"""Values by loop and rule."""


@cache
def printed() -> dict[str, Any]:
    """The values of the paper's tables."""
    file = resources.files("loopmt.planning") / "paper_tables.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def accuracy_table(measured: Measured, languages: Sequence[str]) -> list[dict[str, Any]]:
    """Rows p12, p21, pd12, pd21 of every pair; pairs of the paper that the run does not have come last."""
    ours = [
        _accuracy_row(f"{one}-{other}", name, [measured[loop, rule.name][value] for rule in RULES])
        for one, other in _pairs(measured, languages)
        for name, value, loop in (
            ("p12", "p", dual(one, other)),
            ("p21", "p", dual(other, one)),
            ("pd12", "p_d", dual(one, other)),
            ("pd21", "p_d", dual(other, one)),
        )
    ]
    seen = {row["pair"] for row in ours}
    table = printed()["accuracy_at_threshold"]
    theirs = [pair for pair in table if pair != "thresholds" and not {pair, _reverse(pair)} & seen]
    return ours + [_accuracy_row(pair, name, None) for pair in theirs for name in table[pair]]


def _accuracy_row(pair: str, name: str, ours: list[Estimate] | None) -> dict[str, Any]:
    table = printed()["accuracy_at_threshold"]
    swapped = {"p12": "p21", "p21": "p12", "pd12": "pd21", "pd21": "pd12"}
    paper = table.get(pair, {}).get(name) or table.get(_reverse(pair), {}).get(swapped[name])
    return {"pair": pair, "quantity": name, "ours": ours, "paper": paper}


def parameter_table(measured: Measured, languages: Sequence[str]) -> list[dict[str, Any]]:
    """Rows eta, alpha, beta, gamma of every pair; for each threshold the two directions side by side."""
    return [
        {
            "pair": f"{one}-{other}",
            "quantity": name,
            "ours": [
                [measured[loop, rule.name][name] for loop in (dual(one, other), dual(other, one))] for rule in RULES
            ],
            "paper": printed()["estimated_parameters_en-de"][name],
            "paper_pair": "en-de",
        }
        for one, other in _pairs(measured, languages)
        for name in PARAMETERS
    ]


def dual(one: str, other: str) -> LanguagePath:
    return LanguagePath((one, other, one))


def _reverse(pair: str) -> str:
    one, _, other = pair.partition("-")
    return f"{other}-{one}"


def _pairs(measured: Measured, languages: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs whose two dual loops are measured, in the order of the languages."""
    known = {loop.hops[0] for loop, _ in measured if len(loop.hops) == 2}
    pairs = [(one, other) for number, one in enumerate(languages) for other in languages[number + 1 :]]
    return [(one, other) for one, other in pairs if {Hop(one, other), Hop(other, one)} <= known]
