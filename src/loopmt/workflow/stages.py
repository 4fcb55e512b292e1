"""One stage of an experiment, assembled from its parts and trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import torch

from loopmt.config import Experiment, Generate, Guards, MixEntry, Stage, Train, available_hops, expansions, taught_hops
from loopmt.distributed import Processes
from loopmt.errors import ConfigError, DataError
from loopmt.evaluation.metric import Agree, MetricInput
from loopmt.evaluation.validation import HeldOut, ValidationScores, Validator, held_out, selecting_metric
from loopmt.learn.gather import Gatherer
from loopmt.learn.learners import learner_of
from loopmt.learn.objectives import StageSettings, objectives_of
from loopmt.learn.routes import Route, StageSetup, largest_group, one_by_entry
from loopmt.learn.threads import choose_threads, threads_restored
from loopmt.learn.trainer import Trainer, TrainerHooks
from loopmt.model.out_of_memory import explain_out_of_memory
from loopmt.path import Hop, LanguagePath
from loopmt.run import Json, Run, StageFolder
from loopmt.text.batch import BatchShape, choose_lengths, make_shapes
from loopmt.text.manifest import Manifest
from loopmt.text.ragged import Ints, Ragged
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.filters import FilterContext, LanguageFrequencies, RepetitionLimits, SyntheticTextFilter
from loopmt.translate.protocol import By, TrainableModel, TranslationModel
from loopmt.translate.walker import Translators
from loopmt.workflow.chooser import Chooser, measuring_interval
from loopmt.workflow.generators import check_generators, other_generators
from loopmt.workflow.importing import generators, start_imported
from loopmt.workflow.models import build_model, parent_weights
from loopmt.workflow.settings import fingerprint_of, notice_of_draws, stage_settings
from loopmt.workflow.signals import StopSignal

SAMPLE = 100_000  # rows of a corpus that lengths are measured on
_FREQUENCIES = 20_000  # rows of a language that frequencies of its subwords are


@dataclass(frozen=True)
class TrainingContext:
    """What training needs besides the stage: the run, its text, the device, the processes."""

    experiment: Experiment
    run: Run
    vocab: Vocab
    store: Store
    device: torch.device
    processes: Processes
    fingerprint: str  # of the prepared data
    agree: Agree | None = None

    @classmethod
    def open(cls, run: Run, device: torch.device, processes: Processes) -> TrainingContext:
        experiment = run.experiment()
        fingerprint = fingerprint_of(Manifest.load(run.folder / "manifest.json"))
        vocab = Vocab.load(run.folder / "vocab")
        store = Store.open(run.folder / "store")
        return cls(experiment, run, vocab, store, device, processes, fingerprint, exact_agreement(experiment))

    def networks(self, stage: Stage) -> TrainableModel:
        """The networks of a stage without any weights yet."""
        return build_model(self.run, self.experiment, stage, self.vocab, self.device, self._begun_with(stage))

    def translators(self, networks: TrainableModel, routes: Sequence[Route] = ()) -> Translators:
        """Networks in training, and the models that generate beside them: imported ones, other stages, other runs."""
        imported = generators(self.experiment, self.run, self.device, self.vocab)
        names = {name for route in routes for setting in route.settings for name in setting.generators}
        others = other_generators(self.run, self.device, self.vocab, names)
        translators = Translators(networks, imported, others)
        for route in routes:
            check_generators(route.path, route.settings, translators)
        return translators

    def held_out(self, networks: TranslationModel, rows: int) -> list[HeldOut]:
        """Rows of the validation set for every direction of the networks."""
        return held_out(self.store, networks.hops, self.vocab, "valid", rows)

    def _begun_with(self, stage: Stage) -> Mapping[str, torch.Tensor] | None:
        """The weights of a stage that was begun, whose tables keep their size; one vocabulary has but one size."""
        newest = None if self.vocab.joint else self.run.stage(stage.name).newest()
        return newest.tensors["weights"] if newest else None


def exact_agreement(experiment: Experiment) -> Agree | None:
    """The exact judge, if the text is drawn from the built-in languages."""
    if experiment.data.world is None:
        return None
    from loopmt.synthetic import World

    return World(experiment.data.world.size, tuple(experiment.languages)).agree


def routes_of(experiment: Experiment, stage: Stage) -> list[Route]:
    """Every path of a stage's mix, then the generating hops that learn from rewards."""
    trained = available_hops(experiment, stage.name)
    found = [
        (entry_number, _filtered(entry, path, trained), path)
        for entry_number, (entry, expansion) in enumerate(expansions(experiment, stage))
        for path in expansion.paths
    ]
    own = [Route(number, path, entry, entry_number) for number, (entry_number, entry, path) in enumerate(found)]
    numbers = count(len(own))
    return [*own, *(rewarded for route in own for rewarded in route.rewards(numbers))]


def _filtered(entry: MixEntry, path: LanguagePath, trained: frozenset[Hop]) -> MixEntry:
    """The filter needs the reverse translator; without one, all rows are kept."""
    return entry if path.taught.reverse in trained else entry.model_copy(update={"keep": 1.0})


def train_stage(context: TrainingContext, stage: Stage, stop_signal: StopSignal, show: Callable[[Json], None]) -> bool:
    """Train a stage from its present state; True when it is finished."""
    folder = context.run.stage(stage.name)
    settings = stage_settings(context.experiment, context.run, context.fingerprint, stage)
    if context.processes.is_main and (folder.begun or folder.finished):
        folder.begin(settings)
    context.processes.barrier()
    if folder.finished:
        return True
    train = context.experiment.training(stage)
    acknowledged = stop_signal.acknowledged_by(
        lambda reason: show({"kind": "pausing", "reason": reason, "round": train.round})
    )
    with acknowledged, folder.locked() if context.processes.is_main else nullcontext(), explain_out_of_memory():
        trainer = assemble(context, stage, folder, stop_signal, show)
        if context.processes.is_main:  # not before it can start: settings that were refused may be mended
            folder.begin(settings)
            if notice := notice_of_draws(folder):
                show(notice)
        with threads_restored():
            return trainer.run()


def assemble(
    context: TrainingContext, stage: Stage, folder: StageFolder, stop_signal: StopSignal, show: Callable[[Json], None]
) -> Trainer:
    networks = starting_point(context, stage)
    setup = setup_of(context, stage, networks)
    keep_copies(networks, setup.routes)
    translators = context.translators(networks, setup.routes)
    text_filter = text_filter_of(context, setup.train)
    gatherer = Gatherer(setup, context.store, translators, text_filter)
    _check_shard(context, stage, setup.train)
    learner = learner_of(setup)
    choose = _chooser(context, stage, translators, setup.routes, text_filter) if stage.mix == "auto" else None
    validate = validator(context, stage, networks, setup.train)
    hooks = TrainerHooks(validate, choose, stop_signal.asked, show, choose_threads)
    return Trainer(setup, gatherer, learner, folder, hooks)


def keep_copies(networks: TrainableModel, routes: Sequence[Route]) -> None:
    """Copy the present weights where a path needs them later: frozen, or as the start of the average."""
    used = {name for route in one_by_entry(routes) for setting in route.settings for name in setting.generators}
    used |= {"frozen" for route in routes if route.drawn and route.entry.kl}
    copies: tuple[By, ...] = ("frozen", "ema")
    for by in copies:
        if by in used:
            networks.copy(by)


def _check_shard(context: TrainingContext, stage: Stage, train: Train) -> None:
    if train.shard and not context.processes.in_group:
        raise ConfigError(
            f'stage "{stage.name}": train.shard spreads the network over processes, and this is a single one. '
            "Start them with `torchrun --nproc-per-node N -m -- loopmt train ...`, or set train.shard = false."
        )


def setup_of(context: TrainingContext, stage: Stage, networks: TrainableModel) -> StageSetup:
    """The stage's routes, with the objectives that it turns on and batch shapes that fit its text."""
    train, routes = context.experiment.training(stage), routes_of(context.experiment, stage)
    entries, drawn = [route.entry for route in routes], [route.drawn for route in routes]
    objectives = objectives_of(StageSettings(train, entries, networks, drawn))
    return StageSetup(
        routes,
        networks,
        train,
        shapes_of(context, networks, routes, train, largest_group(routes, objectives)),
        context.processes,
        (context.experiment.seed, stage.name),
        objectives,
        stage.updates,
        _interval(context, stage, networks, routes),
        context.experiment.guards,
    )


def _interval(context: TrainingContext, stage: Stage, networks: TrainableModel, routes: Sequence[Route]) -> int:
    if stage.mix != "auto":
        return stage.auto.measure_every
    sets = context.held_out(networks, stage.auto.sentences)
    return measuring_interval(stage, context.experiment.training(stage), routes, sets)


def _chooser(
    context: TrainingContext,
    stage: Stage,
    translators: Translators,
    routes: Sequence[Route],
    text_filter: SyntheticTextFilter,
) -> Chooser:
    sets = context.held_out(translators.own, stage.auto.sentences)
    guards, key = context.experiment.guards, (context.experiment.seed, stage.name)
    return Chooser(stage.auto, routes, translators, sets, key, guards, context.agree, text_filter)


def starting_point(context: TrainingContext, stage: Stage) -> TrainableModel:
    """Fresh or imported weights, or the parent's result where the parent has the direction."""
    networks = context.networks(stage)
    networks.start_fresh(context.experiment.seed)
    start_imported(context.experiment, context.run, networks)
    if stage.from_ is not None:
        networks.load(parent_weights(context.run, context.experiment, stage, stage.from_), strict=False)
    return networks


def shapes_of(
    context: TrainingContext, translators: TrainableModel, routes: Sequence[Route], train: Train, group: int
) -> list[BatchShape]:
    """Batch shapes fitted to the lengths of the training text, whose rows hold a group of `group` rows.

    They do not depend on how many parts a batch is computed in: so neither does what an update learns from. A shared
    network's batch has the tokens of all directions that it is taught, not of those that it speaks untaught.
    """
    taught = {route.taught for route in routes}
    extra = 2 if translators.shared else 1  # tags
    histogram = np.concatenate([np.zeros(extra, np.int64), _places(context, translators, routes, train.max_length + 1)])
    if not histogram.any():
        raise DataError(f"no row fits train.max_length = {train.max_length}.")
    longest = -(-min(int(histogram.nonzero()[0][-1]) + 2, train.max_length + 3) // 4) * 4
    chosen = choose_lengths(histogram, train.shapes, max(8, longest))
    tokens = train.tokens * (len(taught) if translators.shared else 1)
    return make_shapes(chosen, tokens, group)


def _places(context: TrainingContext, translators: TrainableModel, routes: Sequence[Route], longest: int) -> Ints:
    """A histogram of rows by length, 0 to `longest`, among those that the taught directions can learn from."""
    histogram = np.zeros(longest + 1, dtype=np.int64)
    fed = {(route.taught, ends) for route in routes for ends in _ends(route)}
    for (start, end), hops_fed in Counter(ends for _, ends in fed).items():
        if context.store.has_mono(end) if start == end else context.store.has_bitext(start, end):
            lengths = translators.longer_sides(context.store, start, end, SAMPLE) + 1
            histogram += hops_fed * np.bincount(lengths[lengths <= longest], minlength=longest + 1)
            histogram[-1] += len(lengths) < len(
                context.store.ends(start, end)[0]
            )  # what the sample lacks may be as long
    return histogram


def _ends(route: Route) -> tuple[tuple[str, str], ...]:
    """The text of a route, and the other text of its direction: pairs, and monolingual text of its target."""
    hop = route.taught
    return route.path.ends, (hop.source, hop.target), (hop.target, hop.target)


def text_filter_of(context: TrainingContext, train: Train) -> SyntheticTextFilter:
    vocab = context.vocab
    spelling = None if vocab.joint else {language: vocab.spelling(language) for language in vocab.languages}
    guards = context.experiment.guards
    limits = repetition_limits(context.store, guards)
    return SyntheticTextFilter(FilterContext(train.max_length, frequencies_of(context), spelling, limits, guards))


def repetition_limits(store: Store, guards: Guards) -> RepetitionLimits:
    return RepetitionLimits(partial(_real_text, store), guards.repetition)


def _real_text(store: Store, language: str) -> Ragged | None:
    """A sample of the text of a language: monolingual, or else one side of its pairs."""
    side = store.any_side(language)
    return None if side is None else side.take(side.sample(_FREQUENCIES))


def frequencies_of(context: TrainingContext) -> LanguageFrequencies | None:
    """Subword frequencies of each language. With a vocabulary for each, languages cannot be confused."""
    if not context.vocab.joint:
        return None
    samples: dict[str, Ragged] = {}
    for language in context.experiment.languages:
        if context.store.has_mono(language):
            side = context.store.mono(language)
            samples[language] = side.take(side.sample(_FREQUENCIES))
    return LanguageFrequencies.learn(samples, context.vocab.size(context.experiment.languages[0])) if samples else None


def validator(
    context: TrainingContext, stage: Stage, networks: TrainableModel, train: Train
) -> Callable[[], ValidationScores]:
    sets = context.held_out(networks, train.validate_sentences)
    if not sets:
        raise DataError("the validation set has no pair of languages that the stage trains.")
    how = Generate(how="beam", beam=train.validate_beam) if train.validate_beam > 1 else Generate(how="greedy")
    taught, settings = taught_hops(context.experiment, stage.name), context.experiment.evaluate
    limits = repetition_limits(context.store, context.experiment.guards)
    untaught = [str(pairs.hop) for pairs in sets if pairs.hop not in taught]
    checkpoint = Path(settings.comet) if settings.comet else None
    texts = MetricInput((), (), agree=context.agree, checkpoint=checkpoint, timeout=settings.timeout)
    metric = selecting_metric(settings, train.select_by)
    if metric.needs_judge and context.agree is None:
        raise ConfigError(f'train.select_by = "{train.select_by}" needs the built-in languages. Name another metric.')
    return Validator(networks, sets, how, limits, metric, texts, untaught)
