"""`loopmt plan`: will loops help, and which? Decoding only; with a pilot, also a short training.

RUN/plan.json     measurements of every loop, verdicts, the advice, and stages to paste
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from loopmt.config import Experiment, MixEntry, Stage, available_hops, expansions, supervised_shares, taught_hops
from loopmt.distributed import Processes, device_of_this_process
from loopmt.errors import DataError, RunError
from loopmt.evaluation.choice import first_metric
from loopmt.path import Hop, LanguagePath, ways
from loopmt.planning.advice import TriedLoops, group_verdicts, longer_stage, not_tried, rising
from loopmt.planning.analysis import share_of
from loopmt.planning.candidates import CandidateGain, as_json, loop_candidates, untaught_candidates
from loopmt.planning.data_kinds import kinds_of_pairs, recommendations
from loopmt.planning.forecast import (
    WORTH,
    Pilot,
    forecast_directions,
    route_quality,
    score_pilot,
    too_weak,
    training_path,
)
from loopmt.planning.round_trips import (
    CorrectnessRule,
    ExactRule,
    HeldOutText,
    RoundTrip,
    ThresholdRule,
    Verdicts,
    held_out_text,
    loops_of,
)
from loopmt.planning.suggest import LOOPS, as_toml, free_name, suggest_weights
from loopmt.planning.zero_resource import ZeroResource, missing, zero_resource
from loopmt.progress import Progress
from loopmt.run import Json, Run, write_json
from loopmt.text.store import Store
from loopmt.theory.cases import jsonable
from loopmt.translate.networks import all_hops
from loopmt.workflow.analyze import GRID
from loopmt.workflow.cached_translator import CachedTranslator
from loopmt.workflow.chosen_code import training_code
from loopmt.workflow.observers import Display
from loopmt.workflow.permission import require_permission
from loopmt.workflow.plan_amounts import known_amounts
from loopmt.workflow.signals import StopSignal
from loopmt.workflow.stage_choice import choose_stage, known_scorecard
from loopmt.workflow.stages import TrainingContext, exact_agreement, train_stage

_VERSION = 1
_UPDATES = 10_000  # of the suggested stage, where the start had no fixed budget


@dataclass(frozen=True)
class PlanOptions:
    """What the user asked for."""

    stage: str | None = None
    set: str = "valid"
    sentences: int = 2000
    beam: int = 4
    threshold: float | None = None  # default: the one that finds most nearly half of the translations right
    worth: float = WORTH
    pilot: int | None = None  # updates

    def __post_init__(self) -> None:
        if self.threshold is not None:
            ThresholdRule(self.threshold)  # a bad one is refused before anything is decoded


def plan(folder: Path, options: PlanOptions, progress: Progress) -> Json:
    """Decode, judge, decide; the plan is written and returned."""
    inputs = PlanInputs.open(folder, options)
    inputs.run.check_writable()
    progress.say(f"loopmt: stage {inputs.stage.name}")
    if options.pilot:
        require_permission(inputs.run, training_code(inputs.experiment))
    translator = CachedTranslator.of(inputs.run, inputs.stage.name, options.beam)
    walked = translator.round_trips(inputs.starts, inputs.paths, progress, f"translating loops, {inputs.stage.name}")
    round_trips = [round_trip for round_trip in walked if round_trip.loop.closed]
    rule = _rule(inputs, round_trips)
    measured = [rule.judge(round_trip) for round_trip in round_trips]
    # Where a walk ends elsewhere, `home` says that what arrives there is right.
    arrived = {
        round_trip.loop: share_of(rule.judge(round_trip).home) for round_trip in walked if not round_trip.loop.closed
    }
    untrained = [zero_resource(hop, inputs.available, arrived, options.worth) for hop in inputs.missing]
    pilots = train_pilots(inputs, rule, measured, options.pilot, progress) if options.pilot else PilotResults({}, {})
    made: Json = jsonable(_plan(inputs, rule, round_trips, measured, pilots, untrained))
    write_json(inputs.run.folder / "plan.json", made)
    return made


@dataclass(frozen=True)
class PlanInputs:
    """The translators that loops would train, the sentences to try them on, the loops there are."""

    run: Run
    experiment: Experiment
    options: PlanOptions
    stage: Stage
    taught: tuple[Hop, ...]
    available: tuple[Hop, ...]
    """The taught ones, and what a shared network says untaught."""
    starts: list[HeldOutText]
    loops: list[LanguagePath]

    @classmethod
    def open(cls, folder: Path, options: PlanOptions) -> PlanInputs:
        run = Run.open(folder)
        experiment = run.experiment()
        stage = _first_stage(run, experiment, options.stage)
        taught, available = (
            all_hops(experiment.languages, hops(experiment, stage.name)) for hops in (taught_hops, available_hops)
        )
        store = Store.open(run.folder / "store")
        starts = held_out_text(store, options.set, available, options.sentences, experiment.data.lowercase)
        loops = [loop for loop in loops_of(taught) if loop.hops[0] in {start.hop for start in starts}]
        if not loops:
            raise DataError(
                f'set "{options.set}" has no loop to try: stage "{stage.name}" trains '
                f"{', '.join(map(str, taught))}, and a loop needs a way back. Train both directions of a pair."
            )
        return cls(run, experiment, options, stage, taught, available, starts, loops)

    def fed(self, path: LanguagePath) -> bool:
        """Whether the data has the path's ends, and the stage every translator that it generates with."""
        has_ends = self.experiment.data.supply().lack(path) is None
        return has_ends and all(hop in self.available for hop in path.generating)

    @property
    def missing(self) -> list[Hop]:
        """Directions that neither the stage nor one before it teaches."""
        return missing(self.experiment.languages, self.taught, self.available)

    @property
    def paths(self) -> list[LanguagePath]:
        """All there is to walk: the loops, and for directions not taught yet the ways between their languages."""
        known = {start.hop: start.references for start in self.starts}
        pairs = dict.fromkeys(direction for hop in self.missing for direction in (hop, hop.reverse))
        walks = [way for direction in pairs for way in ways(direction, self.available)]
        return [*self.loops, *(way for way in walks if way.languages[-1] in known.get(way.hops[0], {}))]


def _first_stage(run: Run, experiment: Experiment, name: str | None) -> Stage:
    """The stage asked for, or the first finished one that starts fresh, as far as bitext alone trained it on."""
    if name is None:
        fresh = [stage.name for stage in experiment.all_stages if stage.from_ is None and stage.name in run.finished()]
        name = _trained_on(run, experiment, fresh[0]) if fresh else None
    return choose_stage(run, experiment, name)


def _trained_on(run: Run, experiment: Experiment, name: str) -> str:
    """The last of the finished stages that train on from this one, on bitext alone and not as a control."""
    controls = {one.against for one in experiment.compare}
    for stage in experiment.stages:
        plain = stage.from_ == name and set(supervised_shares(experiment, stage).values()) == {1.0}
        if plain and stage.name in run.finished() and stage.name not in controls and stage.mix != "auto":
            name = stage.name
    return name


def _rule(inputs: PlanInputs, round_trips: Sequence[RoundTrip]) -> CorrectnessRule:
    """The exact judge where there is one; else a threshold, chosen on all taught directions together."""
    agree = exact_agreement(inputs.experiment)
    if agree:
        return ExactRule(agree)
    if inputs.options.threshold is not None:
        return ThresholdRule(inputs.options.threshold)
    rules = [ThresholdRule(threshold) for threshold in GRID]
    return min(
        rules, key=lambda rule: abs(fmean(rule.judge(round_trip).right.mean() for round_trip in round_trips) - 0.5)
    )


def _plan(
    inputs: PlanInputs,
    rule: CorrectnessRule,
    round_trips: Sequence[RoundTrip],
    measured: Sequence[Verdicts],
    pilots: PilotResults,
    untrained: Sequence[ZeroResource],
) -> Json:
    options, experiment = inputs.options, inputs.experiment
    found = forecast_directions(measured, pilots.over_none, pilots.over_dual, options.worth)
    quality = route_quality(measured)
    tried = list(tried_loops(inputs))
    updates = inputs.stage.updates or _UPDATES
    known = known_amounts(inputs.run, experiment, inputs.stage, round_trips, updates)
    candidates = loop_candidates(known, quality, inputs.fed) | untaught_candidates(known, untrained, inputs.fed)
    piloted = {training_path(one.loop) for outlook in found.values() for one in outlook.helped}

    def wanted(path: LanguagePath) -> bool:
        against = path in candidates and candidates[path].discouraged and path not in piloted
        return inputs.fed(path) and not against

    weights = not_tried(suggest_weights(found, quality, wanted, untrained), tried)
    kinds = kinds_of_pairs(experiment.languages, known.pairs, known.mono)
    made: Json = {
        "version": _VERSION,
        "experiment": experiment.name,
        "seed": experiment.seed,
        "stage": inputs.stage.name,
        "result": inputs.run.stage(inputs.stage.name).result_digest(),
        "set": options.set,
        "sentences": {str(start.hop): len(start.sources) for start in inputs.starts},
        "beam": options.beam,
        "rule": rule.name,
        "threshold": rule.threshold if isinstance(rule, ThresholdRule) else None,
        "worth": options.worth,
        "pilot_updates": options.pilot,
        "pilot_settings": pilots.settings,
        "directions": {str(direction): outlook.as_json() for direction, outlook in found.items()},
        "zero_resource": {str(one.direction): one.as_json() for one in untrained},
        "grid": _grid(round_trips, options.worth),
        "routes": {str(hop): {str(path): rate for path, rate in paths.items()} for hop, paths in quality.items()},
        "mix": as_toml(weights, inputs.stage.name, updates, experiment),
    }
    advice = _advice(inputs, made, updates, tried)
    predicted = _predicted(candidates, tried, bool(advice["longer"]))
    return made | {"predicted": predicted, "recommended": recommendations(kinds), "advice": advice}


def _predicted(candidates: Mapping[LanguagePath, CandidateGain], tried: Sequence[TriedLoops], early: bool) -> Json:
    """By direction and path; `early` if the stage should be trained longer first."""
    found: Json = {}
    for path, one in candidates.items():
        found.setdefault(str(path.taught), {})[str(path)] = as_json(one, tried, early)
    return found


def _advice(inputs: PlanInputs, made: Json, updates: int, tried: Sequence[TriedLoops]) -> Json:
    """Whether to train longer first, what was tried, and a verdict on each group of loops."""
    records = inputs.run.stage(inputs.stage.name).records()
    still = rising(inputs.stage.name, [record for record in records if record["kind"] == "valid"])
    weak = too_weak(made["grid"])
    groups = group_verdicts(made, weak is not None, tried, direct_is_best(known_scorecard(inputs.run)))
    return {
        "rising": still.as_json() if still else None,
        "weak": weak,
        "longer": longer_stage(inputs.experiment, inputs.stage, updates) if still or weak else None,
        "tried": [one.as_json() | {"sentence": one.sentence} for one in tried],
        "groups": [one.as_json() for one in groups],
    }


def direct_is_best(card: Json) -> dict[str, bool]:
    """For directions that some evaluated stage translates directly: whether the direct route scores best.

    Directions whose routes all score the same are left out: before anything is learnt, all score 0.
    """
    first = first_metric(card)
    sign, scores = 1 if first.higher_is_better else -1, dict[str, dict[str, float]]()
    for stage in card.get("stages", {}).values():
        for hop, found in stage.get("routes", {}).items():
            for path, score in found["scores"].items():
                best = scores.setdefault(hop, {})
                best[path] = max(sign * score, best.get(path, sign * score))
    known = {hop: found for hop, found in scores.items() if hop in found and len(set(found.values())) > 1}
    return {hop: found[hop] == max(found.values()) for hop, found in known.items()}


def tried_loops(inputs: PlanInputs) -> Iterator[TriedLoops]:
    """Stages that learnt from loops that their control lacks, and descend from the planned stage, by `evaluate`."""
    card, experiment = known_scorecard(inputs.run), inputs.experiment
    first = first_metric(card)
    for one in card["comparisons"]:
        paths = _loops(experiment, one["of"]) - _loops(experiment, one["against"])
        if paths and _descends(experiment, one["of"], inputs.stage.name):
            joint = one["joint"][first.name]
            yield TriedLoops(one["of"], one["against"], paths, first.gain(joint), first.difference(joint))


def _loops(experiment: Experiment, stage: str) -> frozenset[LanguagePath]:
    expanded = expansions(experiment, experiment.stage(stage))
    return frozenset(path for _, expansion in expanded for path in expansion.paths if path.loop)


def _descends(experiment: Experiment, stage: str, ancestor: str) -> bool:
    parent = experiment.stage(stage).from_
    return parent is not None and (parent == ancestor or _descends(experiment, parent, ancestor))


def _grid(round_trips: Sequence[RoundTrip], worth: float) -> Json:
    """The verdict without a pilot at every threshold: a plan that turns with the threshold is no plan."""
    found: Json = {}
    for rule in map(ThresholdRule, GRID):
        for outlook in forecast_directions(
            [rule.judge(round_trip) for round_trip in round_trips], worth=worth
        ).values():
            for one in outlook.prospects:
                values = {name: one.values[name] for name in ("p", "M", "c22", "breakeven")}
                found.setdefault(str(one.loop), []).append({"rule": rule.name, "verdict": one.verdict, **values})
    return found


# -- pilots ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PilotResults:
    """What pilots say of loops: set against training without any, and of longer ones against dual loops alone."""

    over_none: dict[LanguagePath, Pilot]
    over_dual: dict[LanguagePath, Pilot]
    settings: Json | None = None
    """What all pilots and their control share."""


def train_pilots(
    inputs: PlanInputs, rule: CorrectnessRule, measured: Sequence[Verdicts], updates: int, progress: Progress
) -> PilotResults:
    """Train briefly with dual loops, with longer ones too, and with none, all from the same start; judge each loop."""
    stages = pilot_stages(inputs, updates)
    if len(stages) < 2:
        raise RunError(f"{inputs.run.folder}: no pilot can be trained: the data has no monolingual text for loops.")
    with tempfile.TemporaryDirectory(prefix=".pilot-", dir=inputs.run.folder) as folder:
        run = _shadow(inputs, list(stages.values()), Path(folder))
        context = TrainingContext.open(run, device_of_this_process(), Processes())
        after = {length: _train_pilot(inputs, rule, context, stage, progress) for length, stage in stages.items()}

    def against(control: int) -> dict[LanguagePath, Pilot]:
        return {
            before.loop: score_pilot(before, after[length][before.loop], after[control][before.loop])
            for before in measured
            if (length := len(before.loop.hops)) in after
            and length > control in after
            and inputs.fed(training_path(before.loop))
        }

    settings = {"updates": updates, "dropout": pilot_dropout(inputs.experiment, stages[0])}
    return PilotResults(against(0), against(2), settings)


def pilot_stages(inputs: PlanInputs, updates: int) -> dict[int, Stage]:
    """By the length of the loops that each decides on; 0 is the control. Shares are those of a suggested mix."""
    paths = [path for path in map(training_path, inputs.loops) if inputs.fed(path)]
    short = [path for path in paths if len(path.hops) == 2]
    longer = [path for path in paths if len(path.hops) > 2]
    mixes = {
        0: ("pilot-control", []),
        2: ("pilot-dual", _entries([short])),
        3: ("pilot-longer", _entries([short, longer]) if longer else []),
    }
    taken = [stage.name for stage in inputs.experiment.all_stages]
    stages = {
        length: Stage(
            name=free_name(name, taken),
            from_=inputs.stage.name,
            mix=[MixEntry(path="X>Y"), *loops],
            updates=updates,
            train={**inputs.stage.train, "validate_every": updates, "average": 1},
        )
        for length, (name, loops) in mixes.items()
        if loops or not length
    }
    return _with_same_dropout(inputs.experiment, stages)


def _with_same_dropout(experiment: Experiment, stages: Mapping[int, Stage]) -> dict[int, Stage]:
    """Every pilot and the control have the dropout of the stage that is planned, which has loops."""
    dropout = pilot_dropout(experiment, stages[max(stages)])
    return {
        length: stage.model_copy(update={"train": {**stage.train, "dropout": dropout}})
        for length, stage in stages.items()
    }


def pilot_dropout(experiment: Experiment, stage: Stage) -> float:
    dropout = experiment.training(stage).dropout
    return experiment.model.dropout if dropout is None else dropout


def _entries(kinds: Sequence[Sequence[LanguagePath]]) -> list[MixEntry]:
    """The paths to a direction weigh LOOPS together; kinds of loops share it alike, and so do the paths of a kind."""
    by_hop = [Counter(path.taught for path in paths) for paths in kinds]

    def weight(path: LanguagePath, count: Counter[Hop]) -> float:
        present = sum(path.taught in one for one in by_hop)
        return LOOPS / present / count[path.taught]

    return [
        MixEntry(path=str(path), weight=weight(path, count))
        for paths, count in zip(kinds, by_hop, strict=True)
        for path in paths
    ]


def _shadow(inputs: PlanInputs, stages: Sequence[Stage], folder: Path) -> Run:
    """A run beside the real one: the same text and start, only the pilots are its own."""
    run = inputs.run.shadow(folder, [inputs.stage.name])
    known = [*inputs.experiment.stages, *stages]
    run.set_up(inputs.experiment.model_copy(update={"stages": known, "compare": []}))
    return run


def _train_pilot(
    inputs: PlanInputs, rule: CorrectnessRule, context: TrainingContext, stage: Stage, progress: Progress
) -> dict[LanguagePath, Verdicts]:
    display = Display(stage, context.experiment.training(stage), progress)
    with display.shown():
        train_stage(context, stage, StopSignal(), display.show)
    translator = CachedTranslator.of(context.run, stage.name, inputs.options.beam, keep=False)
    round_trips = translator.round_trips(inputs.starts, inputs.loops, progress, f"translating loops, {stage.name}")
    return {round_trip.loop: rule.judge(round_trip) for round_trip in round_trips}
