"""`loopmt serve`: a run's translators on a socket, decoded by CTranslate2 where that is installed.

`loopmt translate` can have the same engine.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from loopmt.config import Generate
from loopmt.distributed import device_of_this_process
from loopmt.errors import LoopmtError, MissingExtraError, RunError
from loopmt.export.ct2 import Type, check_installed
from loopmt.model.backend import precision
from loopmt.path import Hop, LanguagePath
from loopmt.progress import Progress, Silent
from loopmt.run import Run
from loopmt.serve.limits import RequestLimits
from loopmt.text.ragged import EOS, Ragged
from loopmt.text.vocab import Subwords
from loopmt.translate.networks import NetworkStack
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.samples import Samples
from loopmt.workflow.translate import Candidate, Translator, checked_path, choose_stage, load_translators, one_line

Backend = Literal["auto", "ctranslate2", "loopmt"]
_MANY = 16  # sentences for each thread of CTranslate2, from which on each is better off with its own
_Told = list[tuple[list[int], float]]  # ids and log-probability of each hypothesis, best first
_CHECKED = 20  # sentences a direction that CTranslate2 must say as we do, before it rounds


@dataclass(frozen=True)
class ServeOptions:
    """What the user asked for."""

    run: Path
    stage: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    beam: int = 4
    backend: Backend = "auto"
    kind: Type = "int8"  # of CTranslate2's numbers
    limits: RequestLimits = field(default_factory=RequestLimits)


def serve(options: ServeOptions, progress: Progress) -> None:
    """Answer until told to stop."""
    _check_extra()
    from loopmt.serve.app import Service
    from loopmt.serve.server import address, listen, run
    from loopmt.serve.watch import Watcher

    folder = Run.open(options.run)
    experiment = folder.experiment()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loopmt-serve-")))
        listening = stack.enter_context(listen(options.host, options.port))
        ready = options.stage is not None or folder.finished()
        engine = load_engine(options, place, progress) if ready else None
        service = Service(
            experiment.name or options.run.resolve().name,
            experiment.languages,
            engine,
            lambda: load_engine(options, place, Silent()) if folder.finished() else None,
            Watcher(folder, Samples(folder)),
            options.limits,
        )
        what = f"stage {engine.stage}, decoded by {engine.backend}" if engine else "no stage is finished yet: watch it"
        progress.say(f"{options.run} ({what}) at {address(listening)} - stop with Ctrl-C")
        run(service, listening, options.host)
    progress.say("stopped")


def _check_extra() -> None:
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            f"serving needs the package {error.name}. Install it: pip install 'loopmt[serve]'."
        ) from None


# -- translating -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadedEngine:
    """A translator as the server asks it: hop by hop."""

    translator: Translator
    stage: str
    backend: str
    beam: int

    @property
    def hops(self) -> list[Hop]:
        return [Hop(*direction.split(">")) for direction in self.translator.directions]

    def walk(self, path: str) -> LanguagePath:
        return checked_path(self.translator, path)

    def say(self, texts: Sequence[str], hop: Hop, n: int) -> list[list[Candidate]]:
        return self.translator.nbest(texts, str(hop), n, max(self.beam, n))


class ExportedTranslator(Translator):
    """The same translator; what it says is decoded by CTranslate2."""

    def __init__(self, translators: NetworkStack, longest: int, exported: Path, kind: Type) -> None:
        super().__init__(translators, torch.float32, longest)
        translators.live = translators.live.new_empty(0)  # CTranslate2 has its own copy of the weights
        folders = {
            hop: exported / ("all" if translators.shared else f"{hop.source}-{hop.target}") for hop in translators.hops
        }
        models = {folder: _Model(folder, kind) for folder in set(folders.values())}
        self._models = {hop: models[folder] for hop, folder in folders.items()}

    def _decode(
        self, hop: Hop, pieces: list[list[int]], how: Generate, n: int, key: tuple[str | int, ...]
    ) -> list[list[Candidate]]:
        if how.how == "sample":
            raise RunError("CTranslate2 is used for searching only. Sample with --backend loopmt.")
        rows = [row.tolist() for row in self._translators.with_tags(Ragged.of(pieces), hop).rows()]
        longest = [self._limits.length(len(row)) for row in rows]
        found = self._models[hop].say(rows, how, n, longest, self._limits.batch_tokens)
        texts = self._translators.vocab.decode([ids for ids, _ in itertools.chain(*found)], hop.target)
        spelt = map(one_line, texts)
        return [[Candidate(next(spelt), score) for _, score in candidates] for candidates in found]


class _Model:
    """One exported network, ids in and out."""

    def __init__(self, folder: Path, kind: Type) -> None:
        self._folder, self._kind, self._threads = folder, kind, torch.get_num_threads()
        self._whole = self._load(1)  # all threads on one batch: soonest for a few sentences
        self._source, self._target = Subwords(folder / "source.spm"), Subwords(folder / "target.spm")

    def say(self, rows: list[list[int]], how: Generate, n: int, longest: list[int], tokens: int) -> list[_Told]:
        """Ids without the end and log-probability of the best of each row.

        What is cut off at the limit counts beside what ended by itself, which our own search prefers.
        """
        found = self._search(rows, how, n, max(longest, default=1), tokens)
        for most, numbers in _too_long(found, longest).items():
            again = self._search([rows[number] for number in numbers], how, n, most, tokens)
            for number, told in zip(numbers, again, strict=True):
                found[number] = told
        return [self._told(one, how) for one in found]

    def _search(self, rows: list[list[int]], how: Generate, n: int, most: int, tokens: int) -> list[Any]:
        """CTranslate2 has one limit for all rows."""
        beam = how.beam if how.how == "beam" else 1
        if many := self._threads > 1 and len(rows) >= _MANY * self._threads:
            longest_row = max(map(len, rows)) + 1  # CTranslate2 puts the end
            tokens = min(tokens, -(-len(rows) // self._threads) * longest_row * beam)
        found: list[Any] = (self._parts if many else self._whole).translate_batch(
            [[self._source.pieces[one] for one in row] for row in rows],
            beam_size=beam,
            num_hypotheses=n,
            length_penalty=how.length_penalty,
            min_decoding_length=0,
            max_decoding_length=most,
            max_batch_size=tokens // beam,
            batch_type="tokens",
            return_scores=True,
            return_end_token=True,
        )
        return found

    @cached_property
    def _parts(self) -> Any:
        """A batch for every thread, which is faster where there are enough sentences."""
        return self._load(self._threads)

    def _load(self, batches: int) -> Any:
        import ctranslate2

        each = self._threads // batches
        return ctranslate2.Translator(
            str(self._folder), compute_type=self._kind, inter_threads=batches, intra_threads=each
        )

    def _told(self, one: Any, how: Generate) -> _Told:
        """CTranslate2 divides by the length, the end counted where it was said."""
        ids = self._target.ids
        return [
            ([ids[piece] for piece in said if ids[piece] != EOS], score * len(said) ** how.length_penalty)
            for said, score in zip(one.hypotheses, one.scores, strict=True)
        ]


def _too_long(found: list[Any], longest: list[int]) -> dict[int, list[int]]:
    """Numbers of the rows that said more than they may, because another row may, by what they may."""
    rows: dict[int, list[int]] = {}
    for number, (one, most) in enumerate(zip(found, longest, strict=True)):
        if any(len(said) > most for said in one.hypotheses):
            rows.setdefault(most, []).append(number)
    return rows


def load_engine(options: ServeOptions, place: Path, progress: Progress) -> LoadedEngine:
    """The translators of a stage; `place` is where an export may lie while it is used."""
    run = Run.open(options.run)
    experiment = run.experiment()
    stage = choose_stage(run, experiment, options.stage)
    device, train = device_of_this_process(), experiment.training(stage)
    translators = load_translators(run, experiment, stage, device)
    if _export_wanted(options.backend, device):
        try:
            check_installed()
            exported = place / stage.name
            shutil.rmtree(exported, ignore_errors=True)  # of a try before this one, which came to nothing
            export(options.run, ExportOptions("ct2", exported, stage.name, options.kind, _CHECKED), progress)
            fast = ExportedTranslator(translators, train.max_length, exported, options.kind)
            return LoadedEngine(fast, stage.name, f"CTranslate2 {options.kind}", options.beam)
        except LoopmtError as error:
            if options.backend == "ctranslate2":
                raise
            progress.say(f"decoding without CTranslate2: {error}")
    own = Translator(translators, precision(train, device), train.max_length)
    return LoadedEngine(own, stage.name, f"loopmt on {device.type}", options.beam)


def _export_wanted(backend: Backend, device: torch.device) -> bool:
    """On a CUDA device our decoder replays graphs and needs no help."""
    return backend == "ctranslate2" or (backend == "auto" and device.type == "cpu")
