"""The command line: parses, calls the workflow, prints. `--help` imports only what it prints."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Callable
from inspect import cleandoc
from typing import Annotated, Any, TextIO

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

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
from loopmt.progress import visible_message


class _Verb(TyperCommand):
    """A flag takes no value, so its help shows no type; typer would print <bool>."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_type(super().get_params(ctx))


class _Verbs(TyperGroup):
    """The same for options before the verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_type(super().get_params(ctx))


def _without_type(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


app = typer.Typer(
    cls=_Verbs,
    name="loopmt",
    help="Train translators among several languages from few sentence pairs and much monolingual text, with loops: "
    "translate a sentence through other languages and back, and learn from the difference.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"loopmt {version('loopmt')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Options before the verb."""


def _help(verb: Callable[..., None]) -> str:
    """The verb's docstring with paragraphs that wrap at the terminal's width; brackets are not markup."""
    paragraphs = cleandoc(verb.__doc__ or "").split("\n\n")
    return escape("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))


_VERBS: tuple[Callable[..., None], ...] = (
    demo.demo,
    fetch.fetch,
    run.prepare,
    run.train,
    text.translate,
    text.evaluate,
    analyze.analyze,
    analyze.plan,
    report.report,
    inspect.show,
    inspect.generate,
    serve.serve,
    exchange.export,
    exchange.import_,
    score.score,
    paths.paths,
    world.world,
    theory.theory,
    lab.lab,
    inspect.doctor,
)
for _verb in _VERBS:
    app.command(_verb.__name__.rstrip("_"), help=_help(_verb), cls=_Verb)(_verb)


_INTERRUPTED = 130  # what typer makes of Ctrl-C, without a word


def main() -> None:
    """Run a verb; mistakes of the user are a message on standard error, never a traceback."""
    warnings.showwarning = _warn
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name need not be UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="loopmt")
    except LoopmtError as error:
        print(visible_message(f"loopmt: {error}"), file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    except BrokenPipeError:
        sys.exit(141)
    except RecursionError:
        print("loopmt: a file is nested too deeply to be read. It may be damaged.", file=sys.stderr)
        sys.exit(LoopmtError.exit_code)
    except OSError as error:
        hint = "Check that the disk has room and that the folder can be written."
        print(visible_message(f"loopmt: {error}. {hint}"), file=sys.stderr)
        sys.exit(LoopmtError.exit_code)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(visible_message(f"loopmt: warning: {message}"), file=sys.stderr)
