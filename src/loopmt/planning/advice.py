"""A plan's recommendations: whether to train longer first, and whether each group of loops will help.

They use only measurements: the stage's validations, its round trips, pilots, and the comparisons that the run has
evaluated. If these do not decide, the verdict is "unclear", with the reason and how to find out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopmt.config import Experiment, Stage
from loopmt.path import LanguagePath
from loopmt.planning.forecast import WORTH
from loopmt.planning.suggest import free_name

Json = Mapping[str, Any]

HELPS, USELESS, UNCLEAR = "will help", "will not help", "unclear"
SIGNAL = 0.5
"""M of a loop with a clear signal: a wrong translation returns half as often as a right one."""
RISING = 0.5
"""BLEU that the last quarter of a stage's updates must add for the stage to count as still rising."""


# -- one loop --------------------------------------------------------------------------------------------------


def committed(loop: Json, worth: float = WORTH) -> str:
    """The printed form of a plan's verdict on one loop.

    A loop without a signal will not help. If the interval of M reaches from below SIGNAL to 1 or more, there are too
    few sentences to tell, and the verdict is unclear.
    """
    if loop["verdict"] in ("helps", "may help"):
        return HELPS if loop["verdict"] == "helps" else UNCLEAR
    low, high = map(_number, loop["values"]["M"][1:])
    open_ = low < SIGNAL and high >= 1 and loop["values"]["c22"][0] >= worth
    return UNCLEAR if open_ and loop["verdict"] == "no signal" else USELESS


def _number(value: float | str) -> float:
    """Parse a number; JSON has no infinity, so it is stored as a string."""
    return float(value)


# -- is the stage trained long enough? -------------------------------------------------------------------------


@dataclass(frozen=True)
class Rising:
    """A stage whose validation BLEU was still rising when it ended."""

    stage: str
    update: int
    bleu: float
    earlier_update: int
    earlier_bleu: float

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def rising(stage: str, validations: Sequence[Json]) -> Rising | None:
    """Compare the best validation in the last quarter of the updates with the best one before it."""
    last = max((one["update"] for one in validations), default=0)
    early = [one for one in validations if one["update"] <= 0.75 * last]
    late = [one for one in validations if one["update"] > 0.75 * last]
    if not early or not late:
        return None
    before, best = (max(some, key=lambda one: float(one["mean_bleu"])) for some in (early, late))
    if best["mean_bleu"] - before["mean_bleu"] < RISING:
        return None
    return Rising(stage, best["update"], best["mean_bleu"], before["update"], before["mean_bleu"])


def longer_stage(experiment: Experiment, stage: Stage, updates: int) -> str:
    """A stage to paste that continues the training of `stage`."""
    name = free_name("longer", [one.name for one in experiment.all_stages])
    paths = ['"X>Y"'] if isinstance(stage.mix, str) else [f'"{entry.path}"' for entry in stage.mix]
    lines = ["[[stage]]", f'name = "{name}"', f'from = "{stage.name}"', f"updates = {updates}"]
    return "\n".join([*lines, f"mix = [{', '.join(paths)}]"]) + "\n"


# -- what the run has tried ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TriedLoops:
    """Loops that a finished stage from the same start was trained with, and their gain over its control."""

    stage: str
    control: str
    paths: frozenset[LanguagePath]
    gain: int
    """1: a gain beyond chance, -1: a loss, 0: neither."""
    measured: str
    """The difference and its interval, with the metric."""

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "paths": sorted(map(str, self.paths))}

    @property
    def sentence(self) -> str:
        what = {1: "gained", -1: "lost", 0: "did not change the score beyond chance"}[self.gain]
        return f"stage {self.stage} {what} against {self.control}: {self.measured}"


def not_tried(weights: Mapping[LanguagePath, float], tried: Iterable[TriedLoops]) -> dict[LanguagePath, float]:
    """The suggested paths that no stage has tried yet."""
    known = frozenset[LanguagePath]().union(*(one.paths for one in tried))
    return {path: weight for path, weight in weights.items() if path not in known}


# -- groups of loops -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupVerdict:
    """Whether a group of loops will help, and why."""

    group: str
    verdict: str
    why: str

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def group_verdicts(
    plan: Json, weak: bool, tried: Sequence[TriedLoops], direct: Mapping[str, bool] | None = None
) -> list[GroupVerdict]:
    """Verdicts on loops of two languages, on longer loops, and on directions without bitext.

    `direct` tells, for directions without bitext that a stage translates directly, whether that scores best.
    """
    loops = [loop for outlook in plan["directions"].values() for loop in outlook["loops"]]
    beside = {pivot["loop"]: pivot for outlook in plan["directions"].values() for pivot in outlook["pivots"]}
    short = [loop for loop in loops if loop["loop"].count(">") == 2]
    longer = [_beside_dual(loop, beside.get(loop["loop"])) for loop in loops if loop not in short]
    groups = {"loops of two languages": short, "loops of three and more languages": longer}
    found = [_verdict(name, rows, weak, tried) for name, rows in groups.items() if rows]
    return found + _without_bitext(plan["zero_resource"], direct or {})


def _beside_dual(loop: Json, pivot: Json | None) -> Json:
    """The longer loop, judged by what it adds to the loop of two languages if the direction has one."""
    if pivot is None:
        return loop
    values = {**loop["values"], "M": pivot["new_information"]}
    return {**loop, "verdict": pivot["verdict"], "why": pivot["why"], "values": values, "pilot": pivot["pilot"]}


def _verdict(group: str, rows: Sequence[Json], weak: bool, tried: Sequence[TriedLoops]) -> GroupVerdict:
    paths = {LanguagePath.parse(row["trained_as"]) for row in rows}
    if known := [one for one in tried if one.paths & paths]:
        return _measured(group, known[-1])
    words = Counter(map(committed, rows))
    of = f"of {len(rows)} loop{'s' * (len(rows) != 1)}"
    if words[HELPS]:
        others = f"; {words[UNCLEAR]} unclear, {words[USELESS]} will not help" if len(rows) > words[HELPS] else ""
        return GroupVerdict(group, HELPS, f"the pilot gained over its control for {words[HELPS]} {of}{others}")
    if words[USELESS] == len(rows):
        return GroupVerdict(group, USELESS, _useless(rows))
    if weak:
        return GroupVerdict(
            group, UNCLEAR, "these translators are rarely right, so loops would train them mostly on errors"
        )
    telling = sum(row["verdict"] == "may help" for row in rows)
    but = "the pilot is inconclusive" if any(row["pilot"] for row in rows) else "no training with loops was measured"
    why = f"{telling} {of} can tell right translations from wrong ones, but {but}"
    return GroupVerdict(group, UNCLEAR, why if telling else f"too few sentences to tell for {words[UNCLEAR]} {of}")


def _useless(rows: Sequence[Json]) -> str:
    reasons = Counter(row["why"].partition(":")[0].partition(" (")[0] for row in rows)
    reason, count = reasons.most_common(1)[0]
    return f"{reason} ({count} of {len(rows)} loops)"


def _measured(group: str, tried: TriedLoops) -> GroupVerdict:
    return GroupVerdict(group, HELPS if tried.gain > 0 else USELESS, tried.sentence)


def _without_bitext(directions: Mapping[str, Json], direct: Mapping[str, bool]) -> list[GroupVerdict]:
    group = "directions without bitext"
    if not directions:
        return []
    known = {direction: direct[direction] for direction in directions if direction in direct}
    if known and len(set(known.values())) == 1:
        beats, hops = next(iter(known.values())), ", ".join(known)
        better = "the direct translator" if beats else "translating through another language"
        return [GroupVerdict(group, HELPS if beats else USELESS, f"for {hops} {better} scores best so far")]
    if not any(one["verdict"] in ("helps", "may help") for one in directions.values()):
        return [GroupVerdict(group, USELESS, "too little of the text generated to train them is right")]
    why = "only training shows whether a direct translator beats translating through another language"
    return [GroupVerdict(group, UNCLEAR, f"{why}; `loopmt evaluate` then compares both")]
