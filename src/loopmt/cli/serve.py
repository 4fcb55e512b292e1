"""The verb that serves a page and a JSON endpoint."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from loopmt.cli.options import BackendOption, Numbers, NumbersOption, RouteChoice, RouteOption, RunFolder, StageOption


def serve(
    run: RunFolder,
    stage: StageOption = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; 0.0.0.0 lets other machines connect.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8000,
    beam: Annotated[int, typer.Option("--beam", min=1, help="Beam width.")] = 4,
    backend: Annotated[
        BackendOption, typer.Option("--backend", help="Decoder; auto: CTranslate2 on a CPU if it is installed.")
    ] = BackendOption.auto,
    kind: NumbersOption = Numbers.int8,
    characters: Annotated[int, typer.Option("--max-length", min=1, help="Limit: characters of a text.")] = 2000,
    texts: Annotated[int, typer.Option("--max-texts", min=1, help="Limit: texts of a request.")] = 64,
    queue: Annotated[
        int, typer.Option("--max-queue", min=1, help="Limit: texts times hops, waiting or in work.")
    ] = 2048,
    seconds: Annotated[float, typer.Option("--time-limit", min=0.1, help="Limit: seconds for an answer.")] = 60,
    subwords: Annotated[
        int, typer.Option("--max-subwords", min=1, help="Limit: subwords times hops, waiting or in work (estimated).")
    ] = 524_288,
    connections: Annotated[int, typer.Option("--max-connections", min=1, help="Limit: open connections.")] = 512,
    client_connections: Annotated[
        int, typer.Option("--max-client-connections", min=1, help="Limit: open connections from one address.")
    ] = 128,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", min=0, help="Limit: requests per second from one address; default: none on loopback, else 20."
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Host name that the server answers to, besides its addresses; repeat for more."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="LOOPMT_TOKEN",
            show_envvar=True,
            help="Token that requests must send. Better in the environment or in a file: `ps` shows options.",
        ),
    ] = None,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="File whose first line is the token.")] = None,
    proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-proxy", help="Address or network of a proxy whose X-Forwarded-For is believed; repeat for more."
        ),
    ] = None,
    route: RouteOption = RouteChoice.given,
) -> None:
    """Serve a run's translators: a page to translate and to watch training, and POST /translate.

    Only this machine can connect, unless --host is set; docs/serving.md explains how to serve others safely. /docs
    describes the interface, /health the state. A run without a finished stage can be watched; it translates as soon
    as a stage is finished.

    Example: loopmt serve loopmt-demo --port 8000
    """
    from loopmt.progress import standard
    from loopmt.serve.limits import RequestLimits
    from loopmt.workflow.serve import ServeOptions
    from loopmt.workflow.serve import serve as run_serve

    limits = RequestLimits(
        characters,
        texts,
        queue=queue,
        subwords=subwords,
        seconds=seconds,
        connections=connections,
        client_connections=client_connections,
    )
    options = ServeOptions(
        run,
        stage,
        host,
        port,
        beam,
        backend.value,
        kind.value,
        limits,
        rate,
        name or (),
        token,
        token_file,
        proxies or (),
        route.value,
    )
    if not run_serve(options, standard()):
        _leave()


def _leave() -> None:
    """End the process without waiting for the thread that decodes a batch, as Python would."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
