"""The web application: a page, and endpoints for translation, for watching training, and for health."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Query
from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request as HttpRequest
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from loopmt.errors import DamagedError, LoopmtError, PathError, UnsafeFileError
from loopmt.progress import visible
from loopmt.run import Json
from loopmt.serve import messages, pages
from loopmt.serve.access import Access
from loopmt.serve.batching import Batcher, Engine
from loopmt.serve.guard import RequestGuard, refused
from loopmt.serve.limits import AdmissionControl, RefusedError, RequestLimits, estimated_subwords
from loopmt.serve.round_trips import RoundTripPlan, RoundTrips
from loopmt.serve.threads import WorkerThread
from loopmt.serve.watch import Watcher

_LOG = logging.getLogger("uvicorn.error")  # uvicorn's log of errors
_NOT_LOADED = "the finished stage cannot be loaded"
_LOOK_EVERY = 2.0  # seconds between checks for a first finished stage
_LOAD_EVERY = 10.0  # seconds before a finished stage that failed to load is tried again
_LAST_SECONDS = 1.0  # for threads to finish when the server stops
_Problems = dict[int | str, dict[str, Any]]


def _problems(meanings: dict[int, str]) -> _Problems:
    return {status: {"model": messages.ErrorMessage, "description": meaning} for status, meaning in meanings.items()}


_EVERYWHERE = _problems(
    {
        401: "The server needs a token, and it is missing or wrong.",
        408: "The request did not arrive in time.",
        411: "The body was sent in chunks, or without its length.",
        413: "The request is too large.",
        421: "The server does not accept that host name.",
        429: "Too many requests from one address.",
        503: "Too many large requests at once, or the server is stopping; `retry-after` says when to try again.",
    }
)
_TRANSLATING = _problems(
    {
        400: "The path is invalid.",
        415: "The content type is not JSON.",
        422: "The JSON does not match the schema.",
        503: "The queue is full, or there is no finished stage that can be loaded; see `retry-after`.",
    }
)
_WATCHING = _problems({404: "There is no such stage.", 422: "The query does not match the schema."})


@dataclass
class Service:
    """The state that endpoints share. Without an engine at the start, `load` is called until it returns one.

    It returns None while no stage is finished. Its errors are reported, and it is called again.
    """

    name: str
    languages: list[str]
    engine: Engine | None
    load: Callable[[], Engine | None]
    watcher: Watcher
    limits: RequestLimits

    def __post_init__(self) -> None:
        self.gate = AdmissionControl(self.limits)
        self.batcher = Batcher()
        self.problem: str | None = None  # why a finished stage could not be loaded
        self.ended = True  # whether all threads ended
        self._comparing = WorkerThread("words")
        self._loading = WorkerThread("loading")
        self._logged = ""

    async def work(self) -> None:
        while self.engine is None:
            await asyncio.sleep(_LOAD_EVERY if self.problem else _LOOK_EVERY)
            await self._try_to_load()
        await self.batcher.work(self.engine)

    async def _try_to_load(self) -> None:
        """An error ends only this attempt: files may be restored, and memory may become free."""
        try:
            self.engine = await self._loading.submit(self.load)
            self.problem = None
        except Exception as error:
            self._log(error)
            self.problem = _reason(error)

    def _log(self, error: Exception) -> None:
        """Log an error once, not with every attempt."""
        if repr(error) != self._logged:
            unforeseen = None if isinstance(error, LoopmtError) else error
            _LOG.error("%s: %s", _NOT_LOADED, visible(str(error)), exc_info=unforeseen)
        self._logged = repr(error)

    def close(self) -> None:
        """Drop waiting requests; a running batch gets a moment to finish."""
        end = time.monotonic() + _LAST_SECONDS
        for owner in (self.batcher, self.watcher, self._comparing, self._loading):
            self.ended = owner.close(max(0.0, end - time.monotonic())) and self.ended

    async def translate(self, request: messages.TranslateRequest, client: str) -> bytes:
        """The response as JSON."""
        if self.engine is None:
            raise RefusedError(503, self._why_not(), 10)
        path = self.engine.parse_path(request.path)
        self.limits.check(request.texts, len(path.hops), request.loops)
        plan = RoundTripPlan(path, self.engine.hops, request.loops)
        subwords = plan.work * sum(map(estimated_subwords, request.texts))
        trips = RoundTrips(self.batcher, request.texts, plan, request.nbest, client, self.limits.grown)
        with self.gate.admit(client, plan.work * len(request.texts), subwords):
            try:
                async with asyncio.timeout(self.limits.seconds):
                    return await trips.answer(self._comparing)
            except TimeoutError:
                raise RefusedError(
                    503, f"no translation within {self.limits.seconds:g} seconds. Send less text.", 1
                ) from None

    def _why_not(self) -> str:
        if self.problem:
            return f"{_NOT_LOADED}: {self.problem}"
        return "no stage of the run is finished yet. Try again later."

    def health(self, known: bool) -> Json:
        """The health of the server; only the status if a required token is missing."""
        engine = self.engine
        waiting = _NOT_LOADED if self.problem else "waiting for a finished stage"
        status = "ready" if engine else waiting
        if not known:
            return {"status": status}
        return {
            "status": status,
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
    """The error message for clients; file paths and unexpected errors are only logged."""
    if isinstance(error, DamagedError | UnsafeFileError):
        return "a file of the run is damaged; see the server's log."
    return visible(str(error)) if isinstance(error, LoopmtError) else "see the server's log."


def create_app(service: Service, access: Access) -> FastAPI:

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        work = asyncio.create_task(service.work())
        try:
            yield
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            service.close()

    app = FastAPI(
        title="loopmt", description="Translators of a run", docs_url=None, redoc_url=None, responses=_EVERYWHERE
    )
    app.router.lifespan_context = lifespan
    app.add_middleware(RequestGuard, limits=service.limits, access=access)
    _add_endpoints(app, service)
    _add_pages(app)
    _add_problems(app)
    return app


def _add_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/translate", responses=_TRANSLATING, response_model=messages.TranslateResponse)
    async def translate(request: messages.TranslateRequest, http: HttpRequest) -> Response:
        """Translate texts along a path; with `loops`, also back, and through other languages."""
        return _json(await service.translate(request, http.state.client))

    @app.get("/watch", responses=_WATCHING, response_model=dict[str, Any])
    async def watch(
        http: HttpRequest,
        stage: Annotated[str | None, Query(max_length=200)] = None,
        offset: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:
        """Stages of the run, and one stage's log from an offset, with sample translations of its newest weights."""
        return _json(await service.watcher.look(stage, offset, http.state.client))

    @app.get("/health")
    async def health(http: HttpRequest) -> dict[str, Any]:
        """The status of the server. With the token, if it has one, also the stage, the backend, directions, limits and
        the queue."""
        return service.health(http.state.known)


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")


def _add_pages(app: FastAPI) -> None:
    for address, (file, kind) in pages.FILES.items():
        _add_page(app, address, pages.contents(file), kind)

    page = pages.description(app.openapi())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page)


def _add_page(app: FastAPI, address: str, content: str, kind: str) -> None:
    @app.get(address, include_in_schema=False)
    async def page() -> Response:
        return Response(content, media_type=kind)


def _add_problems(app: FastAPI) -> None:
    """Every error is answered with one message as JSON."""

    @app.exception_handler(RefusedError)
    async def refusal(request: HttpRequest, error: RefusedError) -> JSONResponse:
        return refused(error)

    @app.exception_handler(PathError)
    async def path(request: HttpRequest, error: PathError) -> JSONResponse:
        return _problem(400, str(error))

    @app.exception_handler(DamagedError)
    @app.exception_handler(UnsafeFileError)
    async def damaged(request: HttpRequest, error: Exception) -> JSONResponse:
        return _problem(500, "a file of the run cannot be read; see `loopmt show`.")

    @app.exception_handler(RequestValidationError)
    async def malformed(request: HttpRequest, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            why = f"{first['ctx']['error']} at character {first['loc'][-1]}"
            return _problem(422, f"the request is not valid JSON: {why}. See /docs.")
        place = ".".join(str(part) for part in first["loc"][1:])
        return _problem(422, f"{place or 'the request'}: {first['msg']}. See /docs.")

    @app.exception_handler(HTTPException)
    async def other(request: HttpRequest, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, f"{error.detail}. See /docs.", error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: HttpRequest, error: Exception) -> JSONResponse:
        return _problem(500, "internal error; see the server's log.")


def _problem(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": visible(message)}, status, headers)
