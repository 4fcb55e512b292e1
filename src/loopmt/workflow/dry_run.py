"""`loopmt train --dry-run`: what would be trained on which text, its size and its time. Changes nothing."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from loopmt.config import (
    Experiment,
    Generate,
    MixEntry,
    Stage,
    Train,
    available_hops,
    compared_directions,
    expansions,
)
from loopmt.distributed import Processes, device_of_this_process, synchronize
from loopmt.errors import listed
from loopmt.learn.gather import GatheredRound, Gatherer
from loopmt.learn.learner import StageLearner
from loopmt.learn.learners import learner_of
from loopmt.learn.memory import StageMemory
from loopmt.learn.routes import StageSetup
from loopmt.learn.schedule import learning_rate
from loopmt.learn.threads import threads_restored, use_fastest
from loopmt.model.backend import precision
from loopmt.model.weights import Layout
from loopmt.path import Expansion
from loopmt.progress import Progress, visible, wrapped
from loopmt.run import Run
from loopmt.text.batch import Batch, BatchShape
from loopmt.text.inputs import Inputs, as_files
from loopmt.text.manifest import Manifest
from loopmt.text.packing import pack
from loopmt.text.prepare import prepared, settings_of
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.networks import NetworkStack
from loopmt.translate.protocol import TrainableModel
from loopmt.workflow import stages
from loopmt.workflow.chosen_code import import_for_training
from loopmt.workflow.estimate import measured_speed, rough_seconds
from loopmt.workflow.importing import check_imported, endpoint_hops
from loopmt.workflow.settings import fingerprint_of, refuse_changes
from loopmt.workflow.train import TrainOptions

_TIMED_UPDATES = 2
_CHOSEN = 'mix = "auto": these are candidates; each direction learns from those that are found worth a share'
_ENOUGH = 20.0  # seconds that gathering, and learning, are timed for
_PART = 16  # of the rows is what is gathered first
_NEXT = "next, for a measured time: "  # before a command, which is not broken
_LONG = 24 * 3600.0  # seconds after which a hint is due
_LISTED = 60  # paths of a pattern that are named
_BYTES_PER_WEIGHT = 4 * 8  # float32: weight, gradient, two moments, and as much again while an update is taken


def describe(request: TrainOptions, progress: Progress) -> None:
    """Print the plan. Mistakes that `train` would refuse are refused here, too."""
    experiment, run = request.load()
    run.refuse_unsafe()
    wanted = experiment.asked_for(request.until, request.only)
    import_for_training(experiment)
    check_imported(experiment, run)
    root = run.folder / "corpora" if experiment.data.world else request.file.parent / (experiment.data.root or "")
    settings = settings_of(experiment.data, experiment.vocab, experiment.languages, experiment.seed)
    manifest = prepared(run.folder, settings, as_files(experiment.data), root, experiment.languages)
    if manifest:
        for notice in refuse_changes(experiment, run, manifest):
            progress.say(notice)
    context = _site(experiment, run, manifest) if manifest else None
    lines = [f"{experiment.name}: {', '.join(experiment.languages)}; seed {experiment.seed}; run {run.folder}"]
    lines += [f"  {line}" for line in (*_data(experiment, manifest, root), _networks(experiment, context))]
    left: list[float | None] = []
    said: set[str] = set()
    for stage in wanted:
        told, seconds = StagePlan(experiment, run, stage, context, said).describe(progress)
        lines += told
        left.append(seconds)
    lines += _comparisons(experiment, {stage.name for stage in wanted})
    if context is None:
        changes = [word for one in request.overrides for word in ("--set", one)]
        next_step = shlex.join(["loopmt", "prepare", str(request.file), "--run", str(run.folder), *changes])
        lines += _rough_time(experiment, wanted, run)
        lines.append(f"{_NEXT}{next_step}")
    else:
        lines.append(_left(left, _open_ended(wanted, run), context.device))
        lines += _hint(experiment, sum(one or 0.0 for one in left), context.device)
    print(visible("\n".join(line if line.startswith(_NEXT) else wrapped(line) for line in lines)))


def _comparisons(experiment: Experiment, wanted: Collection[str]) -> Iterator[str]:
    """The compared directions of each comparison, and the excluded ones."""
    for compare in experiment.compare:
        if {compare.of, compare.against} <= set(wanted):
            found = compared_directions(experiment, compare)
            yield f"compare {compare.of} against {compare.against}: {listed(list(map(str, found.compared)))}"
            yield from (f"  left out: {line}" for line in found.left_out())


def _rough_time(experiment: Experiment, wanted: Sequence[Stage], run: Run) -> Iterator[str]:
    """An estimate before the text is prepared; the sizes of pretrained checkpoints are not known then."""
    if experiment.model.pretrained is not None:
        return
    device, parameters = device_of_this_process(), _layout(experiment, None).num_parameters
    speed = measured_speed(device)
    seconds = sum(rough_seconds(experiment, stage, parameters, speed) for stage in wanted)
    most = "at most " if _open_ended(wanted, run) else ""
    yield (
        f"Rough time on this machine ({device.type}): {most}about {_clock(seconds)}, if training reaches "
        f"{speed / 1e9:,.0f} GFLOP/s, half the speed of a matrix product here. Validation is not counted."
    )
    yield from _hint(experiment, seconds, device)


def _hint(experiment: Experiment, seconds: float, device: torch.device) -> Iterator[str]:
    """How to make training shorter, if it would take days."""
    if seconds < _LONG:
        return
    if device.type == "cpu" and experiment.model.preset != "tiny":
        yield 'That is long for a CPU. Set [model] preset = "tiny", train fewer updates, or use a GPU.'
    elif device.type == "cpu":
        yield "That is long for a CPU. Train fewer updates, set a smaller train.tokens, or use a GPU."
    else:
        yield "That is long. Train fewer updates, set a smaller train.max_updates, or use more GPUs."


def _open_ended(wanted: Sequence[Stage], run: Run) -> bool:
    return any(stage.updates is None and not run.stage(stage.name).finished for stage in wanted)


def _left(seconds: Sequence[float | None], open_ended: bool, device: torch.device) -> str:
    known = [one for one in seconds if one is not None]
    but = "validation not counted" if len(known) == len(seconds) else "neither validation nor untimed stages counted"
    most = "at most " if open_ended else ""
    return f"Left to train: {most}about {_clock(sum(known))} on this machine ({device.type}), {but}."


def _site(experiment: Experiment, run: Run, manifest: Manifest) -> stages.TrainingContext:
    """As `Site.open`, but with the present experiment file instead of the recorded one."""
    vocab, store = Vocab.load(run.folder / "vocab"), Store.open(run.folder / "store")
    device, fingerprint = device_of_this_process(), fingerprint_of(manifest)
    return stages.TrainingContext(experiment, run, vocab, store, device, Processes(), fingerprint)


def _data(experiment: Experiment, manifest: Manifest | None, root: Path) -> Iterator[str]:
    if manifest:
        for corpus in manifest.corpora:
            tokens = ", ".join(f"{language} {count:,}" for language, count in corpus.tokens.items())
            yield f"{corpus.kind} {corpus.name}: {corpus.kept:,} rows ({tokens} subwords)"
        for one in manifest.sets:
            yield f"set {one.name} {one.pair}".rstrip() + f": {one.rows:,} rows in {', '.join(one.languages)}"
    elif world := experiment.data.world:
        drawn = {f"bitext {pair}": rows for pair, rows in world.pairs.items()}
        drawn |= {f"mono {language}": rows for language, rows in world.mono.items()}
        yield from (f"{name}: {rows:,} rows, to be drawn from the built-in languages" for name, rows in drawn.items())
    else:
        for corpus_files in Inputs(experiment.data, root, experiment.languages).corpora:
            files = ", ".join(str(file) for source in corpus_files.sources for file in source.files)
            yield f"{corpus_files.kind} {corpus_files.name}: {files}, not prepared yet"


def _networks(experiment: Experiment, context: stages.TrainingContext | None) -> str:
    hops = {hop for stage in experiment.stages for hop in available_hops(experiment, stage.name)}
    if experiment.model.pretrained is not None:
        return _modules(_checkpoints(experiment), experiment, context)
    if experiment.model.translator is not None:
        return _modules(f"translator: {experiment.model.translator}", experiment, context)
    shared = experiment.shared
    each = _layout(experiment, context).num_parameters
    total = each if shared else each * len(hops)
    what = f"1 network for {len(hops)} directions" if shared else f"{len(hops)} networks, one per direction"
    memory = _bytes(total * _BYTES_PER_WEIGHT)
    return f"{what}: {each:,} parameters each, {total:,} in total; with gradients and moments about {memory}"


def _modules(what: str, experiment: Experiment, context: stages.TrainingContext | None) -> str:
    """Checkpoints and translators of other modules, whose size is known after they are built."""
    if context is None:
        return what
    trained, total = context.networks(experiment.stages[0]).parameter_counts()
    memory = _bytes(4 * total + 16 * trained)  # float32: weights, and two gradients and two moments
    return f"{what}; {trained:,} of {total:,} parameters are trained; with gradients and moments about {memory}"


def _checkpoints(experiment: Experiment) -> str:
    named = experiment.model.pretrained
    folders = [named] if isinstance(named, str) else [f"{hop} {folder}" for hop, folder in (named or {}).items()]
    return f"pretrained: {', '.join(folders)}"


def _layout(experiment: Experiment, context: stages.TrainingContext | None) -> Layout:
    size = max(context.vocab.size(one) for one in experiment.languages) if context else experiment.vocab.size
    return Layout(experiment.model, size, size, experiment.vocab.sharing == "joint")


@dataclass(frozen=True)
class StagePlan:
    """The facts about a stage before it is trained."""

    experiment: Experiment
    run: Run
    stage: Stage
    context: stages.TrainingContext | None
    said: set[str]
    """What was left out of the mixes above; it is not said again."""

    @property
    def train(self) -> Train:
        return self.experiment.training(self.stage)

    def describe(self, progress: Progress) -> tuple[list[str], float | None]:
        """Lines about the stage, and the remaining seconds of training; None if unknown."""
        indent = "  " * self._depth(self.stage)
        lines = [_CHOSEN] if self.stage.mix == "auto" else []
        lines += [line for pair in expansions(self.experiment, self.stage) for line in _paths(*pair, self.said)]
        seconds: float | None = 0.0
        if self.run.stage(self.stage.name).finished:
            lines.append("finished")
        elif self.context is not None:
            measured, seconds = self._measured(self.context, progress)
            lines += [*self._unread(self.context), *measured]
        head = f"{indent}stage {self.stage.name}: {self._start()}, {self._budget()}"
        return [head, *(f"{indent}  {line}" for line in lines)], seconds

    def _depth(self, stage: Stage) -> int:
        return 1 if stage.from_ is None else 1 + self._depth(self.experiment.stage(stage.from_))

    def _start(self) -> str:
        if self.stage.from_:
            return f"from {self.stage.from_}"
        own = available_hops(self.experiment, self.stage.name)
        imported = self.experiment.imports("start") & own
        if not imported:
            return "from fresh weights"
        fresh = ", the others from fresh weights" if own - imported else ""
        return f"{', '.join(map(str, sorted(imported)))} from imported weights{fresh}"

    def _budget(self) -> str:
        train = self.train
        per_update = f"{train.tokens:,} target tokens per direction each"
        if self.stage.updates is not None:
            return f"{self.stage.updates:,} updates of {per_update}"
        return f"until patience {train.patience}, at most {train.max_updates:,} updates of {per_update}"

    def _unread(self, context: stages.TrainingContext) -> Iterator[str]:
        """Rows that are too long for training, by corpus."""
        most = self.train.max_length
        for start, end in sorted({route.path.ends for route in stages.routes_of(self.experiment, self.stage)}):
            share = float((context.store.longer_sides(start, end, stages.SAMPLE) > most).mean())
            if share:
                what = f"monolingual rows of {start}" if start == end else f"pairs of {start}-{end}"
                yield f"{share:.1%} of the {what} are not learnt from: longer than train.max_length = {most} subwords"

    # -- on this machine -------------------------------------------------------------------------------------

    def _measured(self, context: stages.TrainingContext, progress: Progress) -> tuple[list[str], float | None]:
        """Batch shapes, memory, and the time of a few real updates of copies in memory."""
        trained = self.stage.from_ is None or self.run.stage(self.stage.from_).finished
        networks = stages.starting_point(context, self.stage if trained else _orphan(self.stage))
        setup = stages.setup_of(context, self.stage, networks)
        batches = ", ".join(f"{shape.rows} x {shape.length}" for shape in setup.shapes)
        size = (
            f"batches of {batches} (rows x subwords) in {_name(precision(self.train, context.device))}, "
            f"about {_bytes(_activations(networks, setup.shapes, self.train))} of activations"
        )
        size += _memory(setup, networks, context.store) if context.device.type == "cuda" else ""
        if asked := endpoint_hops(self.experiment, setup.routes):
            return [size, f"not timed: an endpoint generates {', '.join(map(str, asked))}"], None
        with progress.track(f"timing {self.stage.name}"):
            timed = self._time(context, networks, setup)
        if timed is None:
            of = (
                "" if trained else f": filters drop what untrained translators generate. Train {self.stage.from_} first"
            )
            return [size, f"cannot be timed{of or ', no row is left to learn from'}"], None
        gathering, updating = timed
        done = max(self.run.stage(self.stage.name).updates(), default=0)
        left = max((self.stage.updates or self.train.max_updates) - done, 0)
        seconds = left * (gathering + updating)
        most = "at most " if self.stage.updates is None else ""  # patience may end it any time
        guess = not trained and any(route.synthetic for route in setup.routes)
        untrained = "; untrained translators generate too much, so at most" if guess else ""
        return [
            size,
            f"{_moment(updating)} an update and {_moment(gathering)} to gather its rows; "
            f"{most}{left:,} updates left{untrained}: {'' if untrained else most}about {_clock(seconds)}",
        ], seconds

    def _time(
        self, context: stages.TrainingContext, networks: TrainableModel, setup: StageSetup
    ) -> tuple[float, float] | None:
        """Seconds per update of gathering rows and of learning.

        None where no row is left to learn from: the filters may drop all that untrained translators generate.
        """
        # A dry run is one process, and one alone spreads no network.
        train = setup.train.model_copy(update={"round": _TIMED_UPDATES, "shard": False})
        setup = replace(setup, train=train)
        stages.keep_copies(networks, setup.routes)
        gathered, gathering = self._gather(context, networks, setup)
        batches = pack(gathered.networks, setup.shapes, _TIMED_UPDATES, *setup.key).batches
        if not batches:
            return None
        learner = learner_of(setup)
        with threads_restored():
            if use_fastest(learner, batches):  # generation is faster, too
                _, gathering = self._gather(context, networks, setup)
            return gathering, _learning(learner, batches, train)

    def _gather(
        self, context: stages.TrainingContext, networks: TrainableModel, setup: StageSetup
    ) -> tuple[GatheredRound, float]:
        """Rows of a few updates, or of a part of them where all would take too long, and the seconds of one update's.

        A part says nothing about a GPU, whose steps cost the same for more rows, and the first of them much more.
        """
        translators, text_filter = (
            context.translators(networks, setup.routes),
            stages.text_filter_of(context, setup.train),
        )
        weights = {route.number: route.entry.weight for route in setup.routes}
        gatherer = Gatherer(setup, context.store, translators, text_filter)
        for part in (1 / _PART, 1.0) if context.device.type == "cpu" else (1.0,):
            gathered = gatherer.round(0, weights, updates=part * _TIMED_UPDATES)
            seconds = gathered.seconds / part
            if seconds > _ENOUGH:
                break
        return gathered, seconds / _TIMED_UPDATES


def _learning(learner: StageLearner, batches: Sequence[Batch], train: Train) -> float:
    """Seconds an update; the first pass over the batches is a warm-up, if there is time for a second."""
    until = time.perf_counter() + _ENOUGH
    first = _pass(learner, batches, train, until)
    return _pass(learner, batches, train, until) if time.perf_counter() < until else first


def _pass(learner: StageLearner, batches: Sequence[Batch], train: Train, until: float) -> float:
    """Seconds an update, from at least one update and no more than the time allows."""
    started, done = time.perf_counter(), 0
    for batch in batches:
        done += 1
        learner.update(batch, done, learning_rate(train, done))
        if time.perf_counter() >= until:
            break
    synchronize(learner.translators.device)
    return (time.perf_counter() - started) / done


def _orphan(stage: Stage) -> Stage:
    return stage.model_copy(update={"from_": None})


def _paths(entry: MixEntry, expansion: Expansion, said: set[str]) -> Iterator[str]:
    more = f" and {len(expansion.paths) - _LISTED:,} more" if len(expansion.paths) > _LISTED else ""
    listed = ", ".join(map(str, expansion.paths[:_LISTED])) + more
    yield f"{entry.path}, weight {entry.weight:g}: {listed}{_generators(entry, expansion)}"
    left = [f"{out.path} {out.why}" for out in expansion.left_out]
    new = [line for line in left if line not in said]
    said.update(new)
    yield from (f"  left out: {line}" for line in new[:_LISTED])
    if len(new) > _LISTED:
        yield f"  left out: {len(new) - _LISTED:,} more"
    if left and not new:
        yield f"  left out, as above: {_left_out_paths(expansion)}"


def _left_out_paths(expansion: Expansion) -> str:
    more = f" and {len(expansion.left_out) - _LISTED:,} more" if len(expansion.left_out) > _LISTED else ""
    return ", ".join(str(out.path) for out in expansion.left_out[:_LISTED]) + more


def _generators(entry: MixEntry, expansion: Expansion) -> str:
    hops = len(expansion.paths[0].generating)
    settings = dict.fromkeys(_how(setting) for setting in entry.hop_settings(hops)) if hops else {}
    return f"; generated by {', then '.join(settings)}" if settings else ""


def _how(setting: Generate) -> str:
    by = " and ".join(setting.generators) + f" ({setting.ensemble})" * (len(setting.generators) > 1)
    if setting.how == "beam":
        return f"{by} beam {setting.beam}"
    if setting.how == "greedy":
        return f"{by} greedy"
    limits = [f"top-k {setting.top_k}"] * bool(setting.top_k) + [f"top-p {setting.top_p:g}"] * (setting.top_p < 1)
    return " ".join([by, "sampling", *limits, f"temperature {setting.temperature:g}"])


def _activations(networks: TrainableModel, shapes: Sequence[BatchShape], train: Train) -> float:
    """Bytes that a forward pass keeps for the backward one, roughly."""
    places = max(shape.rows * shape.length for shape in shapes) / train.accumulate
    return places * networks.activation_bytes()


def _memory(setup: StageSetup, networks: TrainableModel, store: Store) -> str:
    """The memory of a stage on a GPU, where it can be told from sizes."""
    if not isinstance(networks, NetworkStack):
        return ""
    memory = StageMemory.of(setup, networks, store)
    return (
        f"; about {_bytes(memory.peak)} of GPU memory at most: {_bytes(memory.weights)} of weights, gradients and "
        f"moments, {_bytes(memory.caches)} of caches of the decoder, {_bytes(memory.update)} for an update"
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bytes(count: float) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def _moment(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"
    if seconds < 7200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.0f} hours" if seconds < 48 * 3600 else f"{seconds / 86400:,.0f} days"
