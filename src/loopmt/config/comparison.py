"""Fair comparisons: which directions a stage and its control are compared on, and in what they must agree.

Directions that both stages train are compared, if both train them with the same settings, budget and validation, and
with the same share of bitext. A control may also have bitext alone. Of the other directions some are left out:

* only one of the two stages translates it;
* the comparison has `directions`, and this is none of them;
* each direction has a network of its own, and this one is trained by neither stage, or by both on bitext alone while
  loops train others: a difference between the two would be chance.

A direction that both translate and only one trains makes a comparison unfair. `check_comparisons` refuses it when an
experiment file is read. A run that an older version accepted stays usable: there such a direction is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopmt.config.check import available_hops, expansions
from loopmt.config.experiment import Experiment
from loopmt.config.pretrained import PRETRAINED
from loopmt.config.schema import Compare, MixEntry, Stage
from loopmt.errors import ConfigError, listed
from loopmt.path import Hop, LanguagePath

_SAME_SHARE = 0.005  # a third may be written as 0.333
_NEVER_TUNED = (
    "tokens",
    "max_updates",
    "patience",
    "validate_every",
    "validate_sentences",
    "validate_beam",
    "select_by",
)
"""Keys of [train] that set the budget or the validation: a stage must not have more of either than its control."""
_RATES = ("learning_rate", "warmup")  # full training and LoRA each have their own
_NOT_LISTED = "it is not in the comparison's `directions`"
_FIX_SETTINGS = (
    "Give both the same settings, or name keys of [train] that were tuned for each in the comparison's `tuned` "
    f'(budget and validation cannot be tuned: {", ".join(_NEVER_TUNED)}). budget = "seconds" compares stages of '
    "different updates and equal time."
)


@dataclass(frozen=True)
class ComparedDirections:
    """The directions of a comparison, and the excluded ones with the reason."""

    compared: tuple[Hop, ...]
    excluded: Mapping[Hop, str]
    one_sided: Mapping[Hop, str]
    """Those of the excluded that make the comparison unfair, each with the one stage that trains it."""

    def left_out(self) -> list[str]:
        """The excluded directions by reason."""
        return by_reason({str(hop): reason for hop, reason in self.excluded.items()})


def by_reason(excluded: Mapping[str, str]) -> list[str]:
    """Directions with the reason why they are left out, as sentences."""
    found: dict[str, list[str]] = {}
    for hop, reason in excluded.items():
        found.setdefault(reason, []).append(hop)
    return [f"{listed(hops)} ({reason})" for reason, hops in found.items()]


def compared_directions(experiment: Experiment, compare: Compare) -> ComparedDirections:
    pair = _StagePair.of(experiment, compare)
    reasons = {hop: pair.why_not(hop, compare.directions) for hop in pair.directions(experiment.languages)}
    return ComparedDirections(
        tuple(hop for hop, reason in reasons.items() if reason is None),
        {hop: reason for hop, reason in reasons.items() if reason is not None},
        {hop: name for hop, reason in reasons.items() if reason != _NOT_LISTED and (name := pair.only_one_trains(hop))},
    )


@dataclass(frozen=True)
class _StagePair:
    """What a stage and its control translate and train."""

    names: tuple[str, str]
    available: tuple[frozenset[Hop], frozenset[Hop]]
    shares: tuple[dict[Hop, float], dict[Hop, float]]
    """The share of bitext by direction that is trained."""
    separate: bool
    """Each direction has a network of its own."""
    generates: bool
    unmodified: bool
    """One of them is the checkpoint that the other starts from."""

    @classmethod
    def of(cls, experiment: Experiment, compare: Compare) -> _StagePair:
        one, other = experiment.stage(compare.of), experiment.stage(compare.against)
        return cls(
            (one.name, other.name),
            (available_hops(experiment, one.name), available_hops(experiment, other.name)),
            (supervised_shares(experiment, one), supervised_shares(experiment, other)),
            not experiment.shared,
            one.generates or other.generates,
            experiment.model.pretrained is not None and PRETRAINED in (one.name, other.name),
        )

    def directions(self, languages: Sequence[str]) -> Iterator[Hop]:
        """Those that either stage translates, in the order of the languages."""
        available = self.available[0] | self.available[1]
        yield from (hop for one in languages for other in languages if (hop := Hop(one, other)) in available)

    def why_not(self, hop: Hop, listed: Sequence[str]) -> str | None:
        """Why a direction is not compared; None if it is."""
        for name, available in zip(self.names, self.available, strict=True):
            if hop not in available:
                return f"{name} does not translate it"
        if listed and str(hop) not in listed:
            return _NOT_LISTED
        if self.unmodified:  # whatever training did, it is measured against none
            return None
        if only := self.only_one_trains(hop):
            return f"only {only} trains it"
        return self._left_to_chance(hop) if self.separate else None

    def only_one_trains(self, hop: Hop) -> str | None:
        """The one stage that trains a direction that both translate."""
        if self.unmodified:
            return None
        trains = [name for name, shares in zip(self.names, self.shares, strict=True) if hop in shares]
        return trains[0] if len(trains) == 1 and all(hop in available for available in self.available) else None

    def _left_to_chance(self, hop: Hop) -> str | None:
        """Why only chance can make a network of one direction differ between the two stages."""
        shares = [shares.get(hop) for shares in self.shares]
        if shares == [None, None]:
            return "neither stage trains it"
        return "both stages train it on bitext alone" if shares == [1.0, 1.0] and self.generates else None


# -- what is refused when an experiment file is read ------------------------------------------------------------


def check_comparisons(experiment: Experiment) -> None:
    for compare in experiment.compare:
        directions = compared_directions(experiment, compare)
        _check_listed(compare, directions)
        problems = [*_unlike_directions(directions)]
        if unlike := setting_differences(experiment, compare):
            problems.append(f"they differ in {'; '.join(unlike)}. {_FIX_SETTINGS}")
        if problems:
            raise ConfigError(f'compare "{compare.of}" against "{compare.against}" is not fair: {" ".join(problems)}')


def is_fair(experiment: Experiment, of: str, against: str) -> bool:
    """Whether the experiment file may compare the two stages."""
    compare = Compare(of=of, against=against)
    directions = compared_directions(experiment, compare)
    unfair = directions.one_sided or not directions.compared
    return not unfair and not setting_differences(experiment, compare)


def _check_listed(compare: Compare, found: ComparedDirections) -> None:
    reasons = {str(hop): reason for hop, reason in found.excluded.items()}
    compared = {str(hop) for hop in found.compared}
    for direction in compare.directions:
        if direction not in compared:
            why = reasons.get(direction, "neither stage translates it")
            raise ConfigError(
                f'compare "{compare.of}" against "{compare.against}": directions has {direction}, but {why}. '
                f"Remove it; {_known(found.compared)}."
            )


def _known(compared: Sequence[Hop]) -> str:
    if not compared:
        return "there is no direction that both stages train"
    return f"both stages train {', '.join(map(str, compared))}"


def _unlike_directions(found: ComparedDirections) -> Iterator[str]:
    by_stage: dict[str, list[str]] = {}
    for hop, name in found.one_sided.items():
        by_stage.setdefault(name, []).append(str(hop))
    clauses = [f"only {name} trains {', '.join(hops)}" for name, hops in by_stage.items()]
    if found.compared and clauses:
        listed = ", ".join(f'"{hop}"' for hop in found.compared)
        fix = f"Let both train the same directions, or restrict the comparison: directions = [{listed}]."
        yield f"{'; '.join(clauses)}. {fix}"
    elif not found.compared:
        yield f"{'; '.join(clauses or [_nothing(found)])}. Let both stages train the same directions."


def _nothing(found: ComparedDirections) -> str:
    reasons = "; ".join(f"{hop}: {reason}" for hop, reason in found.excluded.items())
    return f"there is no direction to compare ({reasons})"


# -- settings --------------------------------------------------------------------------------------------------


def setting_differences(experiment: Experiment, compare: Compare) -> list[str]:
    """Settings that differ between the two stages, besides the route of the synthetic text and the keys in `tuned`."""
    of, against = experiment.stage(compare.of), experiment.stage(compare.against)
    if PRETRAINED in (of.name, against.name) and experiment.model.pretrained is not None:
        return []
    unlike = [] if of.from_ == against.from_ else [f"from ({of.from_} and {against.from_})"]
    if compare.budget == "updates" and (of.updates, of.until) != (against.updates, against.until):
        unlike.append(f"budget ({of.updates or of.until} and {against.updates or against.until})")
    if experiment.lora(of) != experiment.lora(against) and "adapt" not in compare.tuned:
        unlike.append('adapt or lora (if that is the question, set tuned = ["adapt"])')
    one, other = experiment.training(of).model_dump(), experiment.training(against).model_dump()
    may_differ = set(tuned(experiment, compare)) - set(_NEVER_TUNED)
    differing = [key for key in one if one[key] != other[key] and key not in may_differ]
    unlike += [f"train.{key} ({one[key]} and {other[key]})" for key in differing]
    return unlike + _unlike_shares(experiment, of, against, compared_directions(experiment, compare).compared)


def tuned(experiment: Experiment, compare: Compare) -> list[str]:
    """Keys in which the two may differ: those that the comparison names, and those with a default for each stage."""
    stages = experiment.stage(compare.of), experiment.stage(compare.against)
    usual = [experiment.usual_dropout(stage) for stage in stages]
    unwritten = [experiment.training(stage).dropout for stage in stages] == usual and usual[0] != usual[1]
    free = [*(["dropout"] if unwritten else []), *(_RATES if "adapt" in compare.tuned else [])]
    return list(dict.fromkeys([*compare.tuned, *free]))


def _unlike_shares(experiment: Experiment, of: Stage, against: Stage, hops: Sequence[Hop]) -> list[str]:
    """More training on bitext alone is a fair control. Unequal shares of bitext are not."""
    final = [supervised_shares(experiment, stage) for stage in (of, against)]
    bitext_alone = any(all(shares.get(hop, 1.0) == 1.0 for hop in hops) for shares in final)
    joined = {entry.from_update for stage in (of, against) for entry in stage.entries()}
    moments = sorted({update for update in joined if update <= _last_update(of)} | {0})
    for update in moments:
        when = f" at update {update}" if len(moments) > 1 else ""
        one, other = (supervised_shares(experiment, stage, update) for stage in (of, against))
        for hop in hops:
            if (hop in one) != (hop in other):
                return [f"training of {hop}{when} (only {of.name if hop in one else against.name} trains it)"]
            if hop in one and not bitext_alone and abs(one[hop] - other[hop]) > _SAME_SHARE:
                return [f"supervised share of {hop}{when} ({one[hop]:.2f} and {other[hop]:.2f})"]
    return []


def _last_update(stage: Stage) -> float:
    """The last update at which an entry joins. A stage without a budget in updates has no last update."""
    return math.inf if stage.updates is None else stage.updates - 1


def supervised_shares(experiment: Experiment, stage: Stage, update: int | None = None) -> dict[Hop, float]:
    """Share of real pairs in each direction, once all entries have joined or at an update.

    With `mix = "auto"` this is the configured share. While no loop of a direction is good enough, it trains on real
    pairs alone, which the file cannot know.
    """
    total: dict[Hop, float] = {}
    supervised: dict[Hop, float] = {}
    for entry, expansion in expansions(experiment, stage):
        if entry.from_update > (_last_update(stage) if update is None else update):
            continue
        for hop, count in Counter(hop for path in expansion.paths for hop in _taught(entry, path)).items():
            weight = entry.weight * min(count, entry.per_round or count)
            total[hop] = total.get(hop, 0.0) + weight
            if not expansion.paths[0].generating:
                supervised[hop] = supervised.get(hop, 0.0) + weight
    shares = {hop: supervised.get(hop, 0.0) / weight for hop, weight in total.items()}
    if stage.mix == "auto":  # which shares out only where there are both pairs and loops
        return {hop: share if share in (0.0, 1.0) else stage.auto.supervised for hop, share in shares.items()}
    return shares


def _taught(entry: MixEntry, path: LanguagePath) -> list[Hop]:
    """The last hop, and those that learn from the reward."""
    return [path.taught, *(path.generating[number] for number in entry.rewarded_hops(len(path.generating)))]
