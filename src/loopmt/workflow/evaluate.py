"""`loopmt evaluate`: every finished stage on every test set.

RUN/stages/NAME/translations/    kept, and reused by the next call
RUN/stages/NAME/scores.json      one stage
RUN/scorecard.json               all stages so far, and the experiment's comparisons
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from loopmt.config import Experiment, available_hops
from loopmt.errors import DataError, PathError, RunError
from loopmt.evaluation.metric import MetricInput
from loopmt.evaluation.outputs import OutputStatistics, text_statistics
from loopmt.path import Hop, LanguagePath
from loopmt.progress import Progress
from loopmt.run import Json, Run, write_json
from loopmt.text.manifest import Manifest
from loopmt.text.store import Store
from loopmt.translate.networks import all_hops
from loopmt.workflow.kept_translations import KeptTranslations, TestPairs
from loopmt.workflow.measures import RunMeasures, StageMeasures, TestPath
from loopmt.workflow.permission import require_permission
from loopmt.workflow.routes import pivots_without_bitext
from loopmt.workflow.scorecard import over_seeds, scorecard
from loopmt.workflow.scorer import Scorer
from loopmt.workflow.stage_choice import choose_stage

_BETWEEN_STAGES = ("comparisons", "waiting")


@dataclass(frozen=True)
class EvaluateOptions:
    """What the user asked for."""

    stages: Sequence[str] = ()
    beam: int = 4
    samples: int = 1000
    comet: Path | None = None
    pivots: Sequence[LanguagePath] = ()
    """Ways from one language to another through others, decoded and scored beside the directions."""
    metrics: Sequence[str] = ()
    """Beside those of the experiment."""
    direct_only: bool = False
    """Else also the ways through a language that has bitext with both, where no bitext teaches a direction."""


_DEFAULTS = EvaluateOptions()


def evaluate(folders: Sequence[Path], options: EvaluateOptions, progress: Progress) -> Json:
    """Translate what is missing, score everything, and write each run's scorecard; returns that of all runs.

    The comparisons are those of the first run. The result has only the requested stages.
    """
    evaluations = [RunEvaluation.open(folder, options) for folder in folders]
    _check_comparable(evaluations)
    for evaluation in evaluations:
        evaluation.run.check_writable()
    scorer = evaluations[0].scorer
    evaluations = [replace(evaluation, scorer=scorer) for evaluation in evaluations]
    asked = [evaluation.measures(options, progress) for evaluation in evaluations]
    recorded = [one.record(found, options, progress) for one, found in zip(evaluations, asked, strict=True)]
    measured, cards = [found for found, _ in recorded], [card for _, card in recorded]
    if options.stages:
        measured = [run.only(options.stages) for run in measured]
    card = cards[0] if len(cards) == 1 else over_seeds(evaluations[0].experiment, measured, cards, options.samples)
    return _among(card, set(options.stages)) if options.stages else card


def _among(card: Json, stages: set[str]) -> Json:
    """The result for these stages, and the comparisons among them."""
    return {
        **card,
        "stages": {name: stage for name, stage in card["stages"].items() if name in stages},
        **{key: [one for one in card[key] if {one["of"], one["against"]} <= stages] for key in _BETWEEN_STAGES},
    }


def _check_comparable(evaluations: Sequence[RunEvaluation]) -> None:
    for one, other in combinations(evaluations, 2):
        if one.experiment.seed == other.experiment.seed:
            raise RunError(
                f"{one.run.folder} and {other.run.folder} both have seed {one.experiment.seed}: runs judged together "
                "are of one experiment with different seeds (`loopmt train EXPERIMENT --run RUN --set seed=2`). "
                "Evaluate others one by one."
            )
    if not all(one.experiment.alike(other.experiment) for one, other in combinations(evaluations, 2)):
        raise RunError(
            "the runs are of different experiments: only seed, name, comparisons, and stages that one does not have "
            "may differ. Evaluate each alone."
        )


@dataclass(frozen=True)
class RunEvaluation:
    """A run with its test sets and metrics."""

    run: Run
    experiment: Experiment
    pairs: list[TestPairs]
    scorer: Scorer

    @classmethod
    def open(cls, folder: Path, options: EvaluateOptions = _DEFAULTS) -> RunEvaluation:
        run = Run.open(folder)
        experiment = run.experiment()
        choose_stage(run, experiment, None)
        require_permission(run, [entry.use for entry in experiment.evaluate.entries()])
        _check_pivots(run, experiment, options.pivots)
        unasked = [] if options.direct_only else pivots_without_bitext(experiment)
        pairs = list(_test_pairs(run, experiment, list(dict.fromkeys([*options.pivots, *unasked]))))
        if not pairs:
            raise DataError(f"{folder} has no test set. Add data.test to the experiment and train a new run.")
        return cls(run, experiment, pairs, Scorer.of(experiment, options.metrics, options.comet))

    def measures(self, options: EvaluateOptions, progress: Progress) -> RunMeasures:
        """The requested stages and those with complete translations: a scorecard grows by stages."""
        for name in options.stages:
            choose_stage(self.run, self.experiment, name)
        asked = {name: self.pairs_of(name) for name in self.run.finished() if name in (options.stages or (name,))}
        return self._with_kept(
            self._with(RunMeasures(self.experiment.seed, {}), asked, options, progress), options, progress
        )

    def record(self, measures: RunMeasures, options: EvaluateOptions, progress: Progress) -> tuple[RunMeasures, Json]:
        """Write the scorecard; repeat while other evaluations finish, so that the last one written has all stages."""
        while True:
            card = scorecard(self.experiment, measures, options.beam, options.samples, self.scorer.metrics)
            for name, stage in card["stages"].items():
                write_json(self.run.stage(name).folder / "scores.json", {"beam": options.beam, **stage})
            write_json(self.run.folder / "scorecard.json", card)
            found = self._with_kept(measures, options, progress)
            if found.stages.keys() == measures.stages.keys():
                return measures, card
            measures = found

    def _with_kept(self, measures: RunMeasures, options: EvaluateOptions, progress: Progress) -> RunMeasures:
        """Also the other stages whose translations are complete."""
        others = [name for name in self.run.finished() if name not in measures.stages]
        kept = {
            name: KeptTranslations.of(self.run, name, options.beam).complete(self.pairs_of(name)) for name in others
        }
        return self._with(measures, {name: pairs for name, pairs in kept.items() if pairs}, options, progress)

    def _with(
        self,
        measures: RunMeasures,
        stages: Mapping[str, Sequence[TestPairs]],
        options: EvaluateOptions,
        progress: Progress,
    ) -> RunMeasures:
        """These stages too, in the experiment's order."""
        found = {
            **measures.stages,
            **{name: self._stage(name, pairs, options, progress) for name, pairs in stages.items()},
        }
        order = [stage.name for stage in self.experiment.all_stages]
        return RunMeasures(measures.seed, {name: found[name] for name in order if name in found})

    def pairs_of(self, name: str) -> list[TestPairs]:
        """The test text that a stage can translate."""
        hops = available_hops(self.experiment, name)
        return [one for one in self.pairs if hops.issuperset(one.test.path.hops)]

    def _stage(
        self, name: str, pairs: Sequence[TestPairs], options: EvaluateOptions, progress: Progress
    ) -> StageMeasures:
        kept, state = KeptTranslations.of(self.run, name, options.beam), self.run.stage(name).result_state()
        outputs = kept.translate(pairs, progress)
        texts = [self._texts(*one) for one in zip(pairs, outputs, strict=True)]
        measures = {}
        with progress.track(f"scoring {name}", len(pairs)) as advance:
            for one, found in zip(pairs, self.scorer.measures(texts), strict=True):
                measures[one.test] = found
                advance(1)
        kept.check_unchanged()
        return StageMeasures(measures, kept.digest, state, self._statistics(pairs, outputs))

    def _statistics(
        self, pairs: Sequence[TestPairs], outputs: Sequence[Sequence[str]]
    ) -> dict[TestPath, OutputStatistics]:
        """Lengths and repetitions, which show a collapse that scores may hide."""
        margin = self.experiment.guards.repetition
        return {
            one.test: text_statistics(found, one.references, margin)
            for one, found in zip(pairs, outputs, strict=True)
            if one.test.direct
        }

    def _texts(self, pairs: TestPairs, outputs: list[str]) -> MetricInput:
        hop, lower = pairs.test.ends, self.experiment.data.lowercase
        language = hop.target.partition("_")[0]
        return MetricInput(outputs, pairs.references, language, lower, pairs.sources, hop)


def _check_pivots(run: Run, experiment: Experiment, pivots: Sequence[LanguagePath]) -> None:
    """Every pivot must lead through a third language, and some finished stage must have all its translators."""
    trained = [available_hops(experiment, name) for name in run.finished()]
    for pivot in pivots:
        if pivot.closed or len(pivot.hops) == 1:
            raise PathError(
                f"path {pivot}: write a path from one language to another through a third, such as fr>en>es. "
                "Directions are scored without --path; `loopmt analyze` measures paths that return."
            )
        if not any(hops.issuperset(pivot.hops) for hops in trained):
            known = ", ".join(map(str, all_hops(experiment.languages, frozenset().union(*trained))))
            raise PathError(f"path {pivot}: no finished stage has all its translators. The run has {known}.")


def _test_pairs(run: Run, experiment: Experiment, pivots: Sequence[LanguagePath]) -> Iterator[TestPairs]:
    """Every direction of every test set, and the pivots. Those of a multi-way set or of a pair share their rows."""
    store = Store.open(run.folder / "store")
    for record in Manifest.load(run.folder / "manifest.json").sets:
        if record.name == "valid":
            continue
        rows = store.pair_texts(record.name, *record.languages[:2]) or ([], [])
        content = hashlib.sha256("\n".join(rows[0]).encode()).hexdigest()[:8]
        among = {Hop(one, other) for one in record.languages for other in record.languages if one != other}
        direct = [LanguagePath((hop.source, hop.target)) for hop in all_hops(experiment.languages, among)]
        for path in (*direct, *(pivot for pivot in pivots if Hop(*pivot.ends) in among)):
            texts = store.pair_texts(record.name, *path.ends)
            if texts is not None:
                yield TestPairs(TestPath(record.name, path, f"{record.name}/{record.pair}/{content}"), *texts)
