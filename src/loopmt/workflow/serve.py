"""`loopmt serve`: a run's translators on a socket, decoded by CTranslate2 where that is installed.

`loopmt translate` can have the same engine.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch

from loopmt.config import Experiment, Stage, available_hops
from loopmt.distributed import device_of_this_process
from loopmt.errors import LoopmtError, MissingExtraError
from loopmt.export.ct2 import CTranslate2Model, Type, check_installed
from loopmt.path import Hop, LanguagePath
from loopmt.progress import Progress, Silent
from loopmt.run import Run
from loopmt.serve.limits import RequestLimits
from loopmt.text.vocab import Vocab
from loopmt.translate.long_text import LongTextModel
from loopmt.translate.networks import all_hops
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences, TranslationModel
from loopmt.workflow.export import ExportOptions, export
from loopmt.workflow.models import for_text, result_of, text_limits
from loopmt.workflow.route_choice import RecordedRoutes, recorded_routes
from loopmt.workflow.samples import Samples
from loopmt.workflow.stage_choice import choose_stage, told_stage
from loopmt.workflow.translate import Candidate, Translator, checked_path, search

Backend = Literal["auto", "ctranslate2", "loopmt"]
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
    rate: float | None = None  # requests a second from one client; None: any number from this machine, else 20
    names: Sequence[str] = ()  # host names that the server answers to
    token: str | None = None
    token_file: Path | None = None
    proxies: Sequence[str] = ()  # addresses whose X-Forwarded-For is believed
    route: Literal["given", "auto"] = "given"  # auto: directions go the way that an evaluation found better


def serve(options: ServeOptions, progress: Progress) -> bool:
    """Serve until stopped. Returns whether all work has ended: a thread may still be decoding a batch."""
    _check_extra()
    from loopmt.serve.access import Access, chosen_token
    from loopmt.serve.app import Service
    from loopmt.serve.limits import default_rate
    from loopmt.serve.server import address, listen, run
    from loopmt.serve.watch import Watcher

    token = chosen_token(options.token, options.token_file)
    access = Access(options.host, options.names, token, options.proxies)
    rate = default_rate(access.local) if options.rate is None else options.rate
    folder = Run.open(options.run)
    experiment = folder.experiment()
    with ExitStack() as stack:
        aside = tempfile.TemporaryDirectory(prefix="loopmt-serve-", ignore_cleanup_errors=True)
        place = Path(stack.enter_context(aside))
        listening = stack.enter_context(listen(options.host, options.port))
        ready = options.stage is not None or folder.finished()
        engine = load_engine(options, place, progress) if ready else None
        service = Service(
            experiment.name or options.run.resolve().name,
            experiment.languages,
            engine,
            lambda: load_engine(options, place, Silent()) if folder.finished() else None,
            Watcher(folder, Samples(folder)),
            replace(options.limits, rate=rate),
        )
        what = "no stage is finished yet: watch training"
        if engine:
            what = f"{told_stage(folder, experiment, engine.stage, options.stage)}, decoded by {engine.backend}"
            if engine.backend == "CTranslate2 int8":
                progress.say(
                    "int8 numbers are faster and differ slightly; `loopmt evaluate` scored float32 (--type float32)"
                )
        for line in engine.routes.lines() if engine and engine.routes else ():
            progress.say(line)
        for warning in access.warnings():
            progress.say(f"warning: {warning}")
        progress.say(f"{options.run} ({what}) at {address(listening)} - stop with Ctrl-C")
        ended = run(service, listening, access)
    progress.say("stopped")
    return ended


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
    """The models of a stage for the server, which calls them hop by hop."""

    model: TranslationModel
    languages: list[str]
    limits: DecodeLimits
    stage: str
    backend: str
    beam: int
    routes: RecordedRoutes | None = None

    @property
    def hops(self) -> Sequence[Hop]:
        return self.model.hops

    @property
    def translator(self) -> Translator:
        return Translator(self.model, self.languages, self.limits)

    def parse_path(self, path: str) -> LanguagePath:
        """The requested path; with `--route auto`, a direction's better route."""
        parsed = LanguagePath.parse(path)
        if self.routes is not None and len(parsed.hops) == 1:
            path = str(self.routes.route(parsed.hops[0]))
        return checked_path(self.translator, path)

    def translate(self, texts: Sequence[str], hop: Hop, n: int) -> list[list[Candidate]]:
        sources = HopInput(hop, Sentences(None, hop.source, texts=texts))
        (found,) = self.model.generate([sources], search(max(self.beam, n)), self.limits, ("serve",), n)
        return [[Candidate(text, score) for text, score in candidates] for candidates in found.by_source()]


def exported_model(experiment: Experiment, stage: Stage, vocab: Vocab, exported: Path, kind: Type) -> LongTextModel:
    """The networks of a stage, decoded by CTranslate2 from their export."""
    shared = experiment.shared
    hops = all_hops(experiment.languages, available_hops(experiment, stage.name))
    folders = {hop: exported / ("all" if shared else f"{hop.source}-{hop.target}") for hop in hops}
    model = CTranslate2Model(folders, vocab, shared, kind)
    return for_text(model, vocab, experiment.training(stage).max_length)


def load_engine(options: ServeOptions, place: Path, progress: Progress) -> LoadedEngine:
    """Load the translators of a stage; `place` is a folder for an export while it is used."""
    run = Run.open(options.run)
    experiment = run.experiment()
    stage = choose_stage(run, experiment, options.stage)
    vocab, device = Vocab.load(run.folder / "vocab"), device_of_this_process()
    longest = experiment.training(stage).max_length
    routes = recorded_routes(run, experiment, stage.name) if options.route == "auto" else None

    def engine(model: TranslationModel, backend: str) -> LoadedEngine:
        limits = text_limits(model.device, longest)
        return LoadedEngine(model, vocab.languages, limits, stage.name, backend, options.beam, routes)

    if _export_wanted(options.backend, device) and not _decodes_itself(experiment, options.backend):
        try:
            check_installed()
            exported = place / stage.name
            shutil.rmtree(exported, ignore_errors=True)  # of a try before this one, which came to nothing
            export(options.run, ExportOptions("ct2", exported, stage.name, options.kind, _CHECKED), progress)
            fast = exported_model(experiment, stage, vocab, exported, options.kind)
            return engine(fast, f"CTranslate2 {options.kind}")
        except LoopmtError as error:
            if options.backend == "ctranslate2":
                raise
            progress.say(f"decoding without CTranslate2: {error}")
    own = for_text(result_of(run, experiment, stage, device), vocab, longest)
    return engine(own, f"loopmt on {device.type}")


def _decodes_itself(experiment: Experiment, backend: Backend) -> bool:
    """A pretrained checkpoint is not exported to CTranslate2; an explicit request for it is refused."""
    return experiment.model.pretrained is not None and backend == "auto"


def _export_wanted(backend: Backend, device: torch.device) -> bool:
    """On CUDA our own decoder replays graphs, so an export would not be faster."""
    return backend == "ctranslate2" or (backend == "auto" and device.type == "cpu")
