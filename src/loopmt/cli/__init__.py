"""The command line: parses, calls the workflow, prints. `--help` never imports torch."""

from __future__ import annotations

import io
import sys
import warnings
from typing import TextIO

import typer

from loopmt.cli import (
    analyze,
    demo,
    exchange,
    fetch,
    inspect,
    lab,
    paths,
    report,
    run,
    score,
    serve,
    text,
    theory,
    world,
)
from loopmt.errors import LoopmtError
from loopmt.terminal import visible

app = typer.Typer(
    name="loopmt",
    help="Train translators among K languages from little parallel and much monolingual text, by closing loops.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(fetch.fetch)
app.command()(run.prepare)
app.command()(run.train)
app.command()(text.translate)
app.command()(text.evaluate)
app.command()(analyze.analyze)
app.command()(analyze.plan)
app.command()(report.report)
app.command()(inspect.show)
app.command()(inspect.generate)
app.command()(serve.serve)
app.command()(exchange.export)
app.command("import")(exchange.import_)
app.command()(score.score)
app.command()(paths.paths)
app.command()(world.world)
app.command()(theory.theory)
app.command()(lab.lab)
app.command()(inspect.doctor)


_INTERRUPTED = 130  # what typer makes of Ctrl-C, without a word


def main() -> None:
    """Run a verb; what the user can mend is a sentence on standard error, never a traceback."""
    warnings.showwarning = _warn
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name need not be UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="loopmt")
    except LoopmtError as error:
        print(visible(f"loopmt: {error}"), file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        print(f"loopmt: {error}. Is there room on the disk, and may the folder be written?", file=sys.stderr)
        sys.exit(LoopmtError.exit_code)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(visible(f"loopmt: warning: {message}"), file=sys.stderr)
