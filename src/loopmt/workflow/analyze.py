"""`loopmt analyze`: the theory's parameters measured on a run, before and after training, compared with a control.

RUN/analysis.json     every pair of stages, loop, test set and rule of what is correct
RUN/predicted.json    the plan's predictions beside the measured gains (`--against-plan`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from loopmt.config import Compare, Experiment, available_hops, compared_directions, is_fair, supervised_shares
from loopmt.errors import DataError, RunError
from loopmt.files.documents import content_of
from loopmt.files.regular import has_file
from loopmt.path import LanguagePath
from loopmt.planning.analysis import beyond_placebo, identified, latent, observed, threshold_errors
from loopmt.planning.paper import RULES as PAPER_RULES
from loopmt.planning.paper import accuracy_table, parameter_table
from loopmt.planning.predicted import hit_rate, predicted_rows
from loopmt.planning.round_trips import CorrectnessRule, ExactRule, ThresholdRule, Verdicts, held_out_text, loops_of
from loopmt.progress import Progress
from loopmt.run import Json, Run, read_json, write_json
from loopmt.text.store import Store
from loopmt.theory.cases import jsonable
from loopmt.translate.networks import all_hops
from loopmt.workflow.cached_translator import CachedTranslator
from loopmt.workflow.stage_choice import choose_stage
from loopmt.workflow.stages import exact_agreement

_VERSION = 1
GRID = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0)
Judged = dict[tuple[str, str, LanguagePath, str], Verdicts]
"""By stage, test set, loop and rule."""


@dataclass(frozen=True)
class AnalyzeOptions:
    """What the user asked for."""

    stages: Sequence[str] = ()
    thresholds: Sequence[float] = GRID
    beam: int = 4
    sentences: int | None = None
    longest: int = 3
    against_plan: bool = False
    single: bool = True  # measure stages also if no two of them can be compared


@dataclass(frozen=True)
class RunAnalysis:
    """A run, and the options of an analysis."""

    run: Run
    experiment: Experiment
    store: Store
    options: AnalyzeOptions
    rules: list[CorrectnessRule] = field(default_factory=list)

    @classmethod
    def open(cls, folder: Path, options: AnalyzeOptions) -> RunAnalysis:
        run = Run.open(folder)
        experiment = run.experiment()
        for name in options.stages or (None,):
            choose_stage(run, experiment, name)
        store = Store.open(run.folder / "store")
        if not store.tests:
            raise DataError(f"{folder} has no test set. Add data.test to the experiment and train a new run.")
        rules: list[CorrectnessRule] = [*map(ThresholdRule, options.thresholds), *PAPER_RULES]
        agree = exact_agreement(experiment)
        return cls(run, experiment, store, options, [ExactRule(agree), *rules] if agree else rules)

    @property
    def stages(self) -> list[str]:
        """The requested stages with those they are compared to; by default all finished ones."""
        finished = self.run.finished()
        if not self.options.stages:
            return finished
        wanted = {name for stage in self.options.stages for name in (stage, *self.experiment.ancestors(stage))}
        wanted |= {control for stage in self.options.stages if (control := control_of(self.experiment, stage))}
        return [name for name in finished if name in wanted]

    def judged(self, progress: Progress) -> Judged:
        """The verdicts of every stage on every loop and test set, by every rule."""
        found: Judged = {}
        for stage in self.stages:
            translator = CachedTranslator.of(self.run, stage, self.options.beam)
            for name in self.store.tests:
                for verdicts, rule in self._round(stage, name, translator, progress):
                    found[stage, name, verdicts.loop, rule] = verdicts
        return found

    def _round(
        self, stage: str, name: str, translator: CachedTranslator, progress: Progress
    ) -> Iterator[tuple[Verdicts, str]]:
        hops = all_hops(self.experiment.languages, available_hops(self.experiment, stage))
        starts = held_out_text(self.store, name, hops, self.options.sentences, self.experiment.data.lowercase)
        loops = loops_of(hops, self.options.longest)
        round_trips = translator.round_trips(starts, loops, progress, f"translating loops, {stage} on {name}")
        with progress.track(f"judging {stage} on {name}", len(round_trips)) as advance:
            for round_trip in round_trips:
                yield from ((rule.judge(round_trip), rule.name) for rule in self.rules)
                advance(1)


def analyze(folder: Path, options: AnalyzeOptions, progress: Progress) -> Json:
    """Decode what is not cached, judge, estimate; write and return the analysis."""
    wanted = RunAnalysis.open(folder, options)
    wanted.run.check_writable()
    if not options.single and not stage_pairs(wanted.experiment, wanted.stages):
        raise RunError(_nothing_to_compare(wanted.stages))
    plan = _plan_of(wanted) if options.against_plan else None
    for rule in _planned_rule(wanted) if plan or options.thresholds == GRID else ():
        if rule.name not in {known.name for known in wanted.rules}:
            wanted.rules.append(rule)
    judged = wanted.judged(progress)
    right = _printed_rule(wanted, judged)
    analysis: Json = jsonable(_analysis(wanted, judged) | {"right": right})
    write_json(wanted.run.folder / "analysis.json", analysis)
    if plan:
        with content_of(wanted.run.folder / "plan.json"):
            rows = predicted_rows(wanted.experiment, plan, analysis)
        analysis = {**analysis, "predicted": {"rate": hit_rate(rows), "rows": rows}}
        write_json(wanted.run.folder / "predicted.json", analysis["predicted"])
    return analysis


def _planned_rule(wanted: RunAnalysis) -> Iterator[ThresholdRule]:
    """The threshold of the run's plan, if it has one."""
    file = wanted.run.folder / "plan.json"
    if has_file(file):
        with content_of(file):
            threshold = read_json(file)["threshold"]
            if threshold is not None:
                yield ThresholdRule(threshold)


def _printed_rule(wanted: RunAnalysis, judged: Judged) -> str:
    """The rule of the printed tables: the one that the user requested, else that of `plan`."""
    if wanted.rules[0].name == "exact" or wanted.options.thresholds != GRID:
        return wanted.rules[0].name
    planned = [rule.name for rule in _planned_rule(wanted)]
    return planned[0] if planned else _nearest_half(wanted, judged)


def _nearest_half(wanted: RunAnalysis, judged: Judged) -> str:
    """The threshold that about half of the translations of the first stage pass."""
    rights: dict[str, list[float]] = {rule.name: [] for rule in map(ThresholdRule, GRID)}
    for (stage, _, _, rule), verdicts in judged.items():
        if stage == wanted.stages[0] and rule in rights:
            rights[rule].append(float(verdicts.right.mean()))
    return min(rights, key=lambda rule: abs(fmean(rights[rule]) - 0.5))


def _nothing_to_compare(stages: Sequence[str]) -> str:
    return (
        "analyze needs two finished stages, of which one started from the other. Finished here: "
        f'{", ".join(stages)}. Train a stage with from = "{stages[0]}", or give --all or --json to measure '
        "each stage by itself."
    )


def _plan_of(wanted: RunAnalysis) -> Json:
    file = wanted.run.folder / "plan.json"
    if not has_file(file):
        raise RunError(f"{file} is missing: there is no plan to compare with. Make one: `loopmt plan {file.parent}`.")
    return read_json(file)


def _analysis(wanted: RunAnalysis, judged: Judged) -> Json:
    experiment = wanted.experiment
    pairs = stage_pairs(experiment, wanted.stages)
    return {
        "version": _VERSION,
        "experiment": experiment.name,
        "languages": experiment.languages,
        "seed": experiment.seed,
        "beam": wanted.options.beam,
        "sets": wanted.store.tests,
        "rules": [rule.name for rule in wanted.rules],
        "stages": {name: wanted.run.stage(name).result_digest() for name in wanted.stages},
        "pairs": [_pair_row(judged, key, before) for key, before in _keys(judged, pairs)],
        "placebos": {
            after: {"control": found.control, "why": found.why}
            for after in dict.fromkeys(after for _, after in pairs if experiment.stage(after).generates)
            for found in [placebo_of(experiment, after)]
        },
        "beyond_placebo": list(_placebo_rows(experiment, judged, pairs)),
        "latent": list(_latent_rows(judged)),
        "identified": list(_identified_rows(judged)),
        "thresholds": list(_threshold_rows(judged)),
        "tables": list(_tables(experiment, judged, pairs, wanted.store.tests)),
    }


# -- which stages belong together ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placebo:
    """A stage that shows the effect of training without the loops of another stage, or why there is none."""

    compare: Compare | None
    why: str

    @property
    def control(self) -> str | None:
        return self.compare.against if self.compare else None


def placebo_of(experiment: Experiment, name: str) -> Placebo:
    """The control of a stage in the experiment; else a fair sibling that trained on bitext alone."""
    for compare in experiment.compare:
        if compare.of == name:
            return Placebo(compare, f"the experiment compares {name} with it")
    parent = experiment.stage(name).from_
    siblings = [stage for stage in experiment.stages if parent and stage.from_ == parent and stage.name != name]
    plain = [stage.name for stage in siblings if set(supervised_shares(experiment, stage).values()) == {1.0}]
    fair = [sibling for sibling in plain if is_fair(experiment, name, sibling)]
    if fair:
        return Placebo(Compare(of=name, against=fair[0]), "it started from the same stage and trained on bitext alone")
    unfair = f" ({', '.join(plain)} would be unfair)" if plain else ""
    return Placebo(None, f"no other stage from {parent} differs from it only in the loops{unfair}")


def control_of(experiment: Experiment, name: str) -> str | None:
    return placebo_of(experiment, name).control


def stage_pairs(experiment: Experiment, stages: Sequence[str]) -> list[tuple[str, str]]:
    """Before and after: each stage with its ancestors, nearest first."""
    return [(before, after) for after in stages for before in experiment.ancestors(after) if before in stages]


# -- rows ------------------------------------------------------------------------------------------------------


def _keys(judged: Judged, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[tuple[str, str, LanguagePath, str], str]]:
    """Every judgement of a later stage with an earlier one of the same sentences."""
    for before, after in pairs:
        for key in judged:
            if key[0] == after and (before, *key[1:]) in judged:
                yield key, before


def _pair_row(judged: Judged, key: tuple[str, str, LanguagePath, str], before: str) -> Json:
    after, name, loop, rule = key
    values = observed(judged[before, name, loop, rule], judged[key])
    head = {"set": name, "before": before, "after": after, "loop": str(loop), "rule": rule}
    return {**head, "sentences": len(judged[key].right), "values": values}


def _placebo_rows(experiment: Experiment, judged: Judged, pairs: Sequence[tuple[str, str]]) -> Iterator[Json]:
    fair = {after: _fair_loops(experiment, after) for _, after in pairs}
    for key, before in _keys(judged, pairs):
        after, name, loop, rule = key
        control, is_comparable = fair[after]
        if control and is_comparable(loop) and (before, control) in pairs and (control, *key[1:]) in judged:
            values = beyond_placebo(judged[before, name, loop, rule], judged[key], judged[control, name, loop, rule])
            head = {"set": name, "before": before, "after": after, "control": control, "loop": str(loop)}
            yield {**head, "rule": rule, "values": values}


def _fair_loops(experiment: Experiment, name: str) -> tuple[str | None, Callable[[LanguagePath], bool]]:
    """The placebo of a stage, and which loops it can be set against on.

    The gain is of the loop's first hop, so the two must be compared on that; no other hop may be trained by one alone.
    """
    compare = placebo_of(experiment, name).compare
    if compare is None:
        return None, lambda loop: False
    found = compared_directions(experiment, compare)
    compared, one_sided = set(found.compared), set(found.one_sided)
    return compare.against, lambda loop: loop.hops[0] in compared and one_sided.isdisjoint(loop.hops)


def _latent_rows(judged: Judged) -> Iterator[Json]:
    for (stage, name, loop, _), verdicts in judged.items():
        if verdicts.steps is not None:
            yield {"set": name, "stage": stage, "loop": str(loop), "values": latent(verdicts)}


def _identified_rows(judged: Judged) -> Iterator[Json]:
    for (stage, name, loop, rule), verdicts in judged.items():
        if verdicts.steps is None and len(loop.hops) == 2:
            yield {"set": name, "stage": stage, "loop": str(loop), "rule": rule, "values": identified(verdicts)}


def _threshold_rows(judged: Judged) -> Iterator[Json]:
    for (stage, name, loop, rule), verdicts in judged.items():
        truth = judged.get((stage, name, loop, "exact"))
        if truth is not None and rule != "exact":
            head = {"set": name, "stage": stage, "loop": str(loop), "rule": rule}
            yield {**head, **threshold_errors(verdicts, truth)}


def _tables(
    experiment: Experiment, judged: Judged, pairs: Sequence[tuple[str, str]], sets: Sequence[str]
) -> Iterator[Json]:
    """The paper's two tables for every pair of stages and test set."""
    wanted = {rule.name for rule in PAPER_RULES}
    for before, after in pairs:
        for name in sets:
            measured = {
                (key[2], key[3]): observed(judged[before, *key[1:]], judged[key])
                for key, earlier in _keys(judged, [(before, after)])
                if key[1] == name and key[3] in wanted and len(key[2].hops) == 2
            }
            accuracy = accuracy_table(measured, experiment.languages)
            parameters = parameter_table(measured, experiment.languages)
            yield {"set": name, "before": before, "after": after, "accuracy": accuracy, "parameters": parameters}
