"""The web application: one page, one endpoint that translates, one that watches, and one that says how it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request as HttpRequest
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from loopmt.errors import DamagedError, LoopmtError, PathError
from loopmt.progress import visible
from loopmt.run import Json
from loopmt.serve import messages, pages
from loopmt.serve.batching import Batcher, Engine
from loopmt.serve.guard import RequestGuard, refused
from loopmt.serve.limits import AdmissionControl, RefusedError, RequestLimits
from loopmt.serve.round_trips import RoundTripPlan, RoundTrips
from loopmt.serve.watch import Watcher

_LOG = logging.getLogger("uvicorn.error")  # where uvicorn puts what went wrong
_NOT_LOADED = "the finished stage cannot be loaded"
_LOOK_EVERY = 2.0  # seconds between two looks for a first finished stage
_LOAD_EVERY = 10.0  # seconds before another try, where there is one and it could not be loaded
_Problems = dict[int | str, dict[str, Any]]


def _problems(meanings: dict[int, str]) -> _Problems:
    return {status: {"model": messages.ErrorMessage, "description": meaning} for status, meaning in meanings.items()}


_AT_THE_DOOR = _problems(
    {
        408: "The request did not arrive in time.",
        413: "Too much for one request.",
        421: "The server does not answer to that name.",
        429: "Too many requests from one address.",
    }
)
_TRANSLATING = _problems(
    {
        400: "The path cannot be walked.",
        415: "Not sent as JSON.",
        422: "Not the JSON that is expected.",
        503: "The queue is full, or no stage is finished yet or can be loaded; `retry-after` says when to try again.",
    }
)
_WATCHING = _problems({404: "There is no such stage.", 422: "Not the query that is expected."})


@dataclass
class Service:
    """What the endpoints share. `load` is tried until it gives an engine, if there is none at the start.

    It gives none while no stage is finished; what it raises is told, and it is tried again.
    """

    name: str
    languages: list[str]
    engine: Engine | None
    load: Callable[[], Engine | None]
    watcher: Watcher
    limits: RequestLimits

    def __post_init__(self) -> None:
        self.gate = AdmissionControl(self.limits.queue)
        self.batcher = Batcher()
        self.problem: str | None = None  # why a finished stage could not be loaded
        self._logged = ""

    async def work(self) -> None:
        while self.engine is None:
            await asyncio.sleep(_LOAD_EVERY if self.problem else _LOOK_EVERY)
            await self._try_to_load()
        await self.batcher.work(self.engine)

    async def _try_to_load(self) -> None:
        """Whatever goes wrong ends this try alone: a copy may be put back, memory may become free."""
        try:
            self.engine = await asyncio.to_thread(self.load)
            self.problem = None
        except Exception as error:
            self._log(error)
            self.problem = _reason(error)

    def _log(self, error: Exception) -> None:
        """Once, not with every try."""
        if repr(error) != self._logged:
            unforeseen = None if isinstance(error, LoopmtError) else error
            _LOG.error("%s: %s", _NOT_LOADED, visible(str(error)), exc_info=unforeseen)
        self._logged = repr(error)

    async def translate(self, request: messages.TranslateRequest) -> messages.TranslateResponse:
        if self.engine is None:
            raise RefusedError(503, self._why_not(), 10)
        path = self.engine.walk(request.path)
        self.limits.check(request.texts, len(path.hops), request.loops)
        plan = RoundTripPlan(path, self.engine.hops, request.loops)
        with self.gate.admit(plan.work * len(request.texts)):
            try:
                async with asyncio.timeout(self.limits.seconds):
                    return await RoundTrips(self.batcher, request.texts, plan, request.nbest).answer()
            except TimeoutError:
                raise RefusedError(503, f"no answer within {self.limits.seconds:g} seconds. Send less.", 1) from None

    def _why_not(self) -> str:
        if self.problem:
            return f"{_NOT_LOADED}: {self.problem}"
        return "no stage of the run is finished yet: there is nothing to translate with."

    def health(self) -> Json:
        engine = self.engine
        waiting = _NOT_LOADED if self.problem else "waiting for a finished stage"
        return {
            "status": "ready" if engine else waiting,
            "problem": self.problem,
            "run": self.name,
            "languages": self.languages,
            "stage": engine.stage if engine else None,
            "backend": engine.backend if engine else None,
            "directions": [str(hop) for hop in engine.hops] if engine else [],
            "waiting": self.gate.inside,
            "batches": self.batcher.batches,
            "translated": self.batcher.texts,
            "limits": asdict(self.limits),
        }


def _reason(error: Exception) -> str:
    """For whoever asks: where the run's files lie, and what nobody foresaw, is for the log alone."""
    if isinstance(error, DamagedError):
        return "a file of the run is damaged; the server's log says which."
    return visible(str(error)) if isinstance(error, LoopmtError) else "the server's log says why."


def create_app(service: Service, names: Collection[str] | None) -> FastAPI:
    """The application; `names` are those it answers to, None for any."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        work = asyncio.create_task(service.work())
        try:
            yield
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            service.batcher.close()
            service.watcher.close()

    about = f"Translators of {service.name}"
    app = FastAPI(title="loopmt", description=about, docs_url=None, redoc_url=None, responses=_AT_THE_DOOR)
    app.router.lifespan_context = lifespan
    app.add_middleware(RequestGuard, limits=service.limits, names=names)
    _add_endpoints(app, service)
    _add_pages(app)
    _add_problems(app)
    return app


def _add_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/translate", responses=_TRANSLATING)
    async def translate(request: messages.TranslateRequest) -> messages.TranslateResponse:
        """Translate texts along a path; with `loops`, also home by each loop and there by each other way."""
        return await service.translate(request)

    @app.get("/watch", responses=_WATCHING)
    async def watch(
        stage: Annotated[str | None, Query(max_length=200)] = None, offset: Annotated[int, Query(ge=0)] = 0
    ) -> dict[str, Any]:
        """Stages of the run, and one stage's log from an offset on, with what its newest weights say."""
        return await service.watcher.look(stage, offset)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """How the server is: its stage, what decodes, directions, limits, and what waits."""
        return service.health()


def _add_pages(app: FastAPI) -> None:
    for address, (file, kind) in pages.FILES.items():
        _add_page(app, address, pages.contents(file), kind)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(pages.description(app.openapi()))


def _add_page(app: FastAPI, address: str, content: str, kind: str) -> None:
    @app.get(address, include_in_schema=False)
    async def page() -> Response:
        return Response(content, media_type=kind)


def _add_problems(app: FastAPI) -> None:
    """Whatever goes wrong, the answer is one sentence."""

    @app.exception_handler(RefusedError)
    async def refusal(request: HttpRequest, error: RefusedError) -> JSONResponse:
        return refused(error)

    @app.exception_handler(PathError)
    async def path(request: HttpRequest, error: PathError) -> JSONResponse:
        return _problem(400, str(error))

    @app.exception_handler(DamagedError)
    async def damaged(request: HttpRequest, error: DamagedError) -> JSONResponse:
        return _problem(500, "a file of the run cannot be read; `loopmt show` says more.")

    @app.exception_handler(RequestValidationError)
    async def malformed(request: HttpRequest, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            why = f"it breaks at character {first['loc'][-1]} ({first['ctx']['error']})"
            return _problem(422, f"the request is no valid JSON: {why}. The interface is described at /docs.")
        place = ".".join(str(part) for part in first["loc"][1:])
        return _problem(422, f"{place or 'the request'}: {first['msg']}. The interface is described at /docs.")

    @app.exception_handler(HTTPException)
    async def other(request: HttpRequest, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, f"{error.detail}. The interface is described at /docs.", error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: HttpRequest, error: Exception) -> JSONResponse:
        return _problem(500, "something went wrong here; the server's log says what.")


def _problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": visible(message)}, status, headers)
