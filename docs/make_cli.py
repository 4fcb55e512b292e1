"""Writes docs/cli.md from the code: every verb of the command line, its arguments and its options.

python docs/make_cli.py
"""

from __future__ import annotations

import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from typer.models import ArgumentInfo, OptionInfo

from loopmt.cli import app

NAMES = {int: "whole number", float: "number", str: "text", Path: "file or folder"}
HEAD = """# The command line

This page lists every verb of `loopmt` with its arguments and options, for users who look one up.
`python docs/make_cli.py` writes it; do not edit it. `loopmt VERB --help` prints the same facts.

Quote paths such as `"en>fr"`: a shell reads `>` as a redirection. The exit code is 0 if the command
succeeded, 2 if the input was wrong, 3 if training diverged or collapsed, and 130 after Ctrl-C.
Standard error says what to change.

| verb | what it does |
|---|---|
"""


class Parameter(NamedTuple):
    name: str
    kind: Any
    default: Any
    info: ArgumentInfo | OptionInfo


def commands() -> str:
    verbs = {str(command.name): command.callback for command in app.registered_commands if command.callback}
    rows = [f"| [`{name}`](#{name}) | {' '.join(_paragraphs(verb)[0].split())} |" for name, verb in verbs.items()]
    return HEAD + "\n".join(rows) + "\n" + "".join(_section(name, verb) for name, verb in verbs.items())


def _section(name: str, verb: Callable[..., Any]) -> str:
    parameters = list(_parameters(verb))
    arguments = [one for one in parameters if isinstance(one.info, ArgumentInfo)]
    options = [one for one in parameters if isinstance(one.info, OptionInfo) and not one.info.hidden]
    usage = " ".join(["loopmt", name, *map(_usage, arguments), "[OPTIONS]"])
    parts = [f"\n## {name}\n", *_paragraphs(verb), f"```\n{usage}\n```"]
    if arguments:
        parts.append("| argument | value | meaning |\n|---|---|---|\n" + "\n".join(map(_argument, arguments)))
    if options:
        parts.append("| option | value | default | meaning |\n|---|---|---|---|\n" + "\n".join(map(_option, options)))
    return "\n\n".join(parts).replace("\n\n\n", "\n\n") + "\n"


def _paragraphs(verb: Callable[..., Any]) -> list[str]:
    """The docstring. An example becomes code; elsewhere `<` and `*` are plain characters."""
    found = inspect.cleandoc(verb.__doc__ or "").split("\n\n")
    return [_paragraph(" ".join(one.split())) for one in found]


def _paragraph(text: str) -> str:
    if text.startswith("Example: "):
        return f"Example: `{text.removeprefix('Example: ')}`"
    return textwrap.fill(_cell(text), 100, break_on_hyphens=False)


def _parameters(verb: Callable[..., Any]) -> Iterator[Parameter]:
    hints = typing.get_type_hints(verb, include_extras=True)
    for name, parameter in inspect.signature(verb).parameters.items():
        if typing.get_origin(hints[name]) is not typing.Annotated:
            continue  # the context of the command, not a parameter of the user
        kind, *extras = typing.get_args(hints[name])
        info = next(one for one in extras if isinstance(one, ArgumentInfo | OptionInfo))
        yield Parameter(name, kind, parameter.default, info)


def _usage(one: Parameter) -> str:
    name = _argument_name(one)
    return name if one.default is inspect.Parameter.empty else f"[{name}]"


def _argument_name(one: Parameter) -> str:
    name = (one.info.metavar or one.name.upper()).removesuffix("...")
    return f"{name}..." if typing.get_origin(_bare(one.kind)) is list else name


def _argument(one: Parameter) -> str:
    return f"| `{_argument_name(one)}` | {_kind(one)} | {_cell(one.info.help or '')} |"


def _option(one: Parameter) -> str:
    declared = (one.info.default, *(one.info.param_decls or ()))  # the first name given is in the place of a default
    flags = [flag for flag in declared if str(flag).startswith("-")] or [f"--{one.name.replace('_', '-')}"]
    if one.default is True:
        flags.append(f"--no-{flags[0].removeprefix('--')}")
    names = ", ".join(f"`{flag}`" for flag in flags)
    return f"| {names} | {_kind(one)} | {_default(one)} | {_cell(one.info.help or '')} |"


def _kind(one: Parameter) -> str:
    kind = _bare(one.kind)
    if kind is bool:
        return ""
    if typing.get_origin(kind) is list:
        return f"{_name(typing.get_args(kind)[0])}; may be repeated"
    return _name(kind) + _range(one.info)


def _bare(kind: Any) -> Any:
    """The type without `| None`."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(part for part in typing.get_args(kind) if part is not type(None))
    return kind


def _name(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(f"`{one.value}`" for one in kind)
    return NAMES.get(kind, "text")


def _range(info: ArgumentInfo | OptionInfo) -> str:
    if info.min is not None and info.max is not None:
        return f", {info.min} to {info.max}"
    return f", at least {info.min}" if info.min is not None else ""


def _default(one: Parameter) -> str:
    if one.default is inspect.Parameter.empty:
        return "required"
    if one.default is None or one.default is False or one.default in ("", [], ()):
        return ""
    return f"`{one.default.value if isinstance(one.default, Enum) else one.default}`"


def _cell(text: str) -> str:
    for mark in "|<*":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


if __name__ == "__main__":
    Path(__file__).with_name("cli.md").write_text(commands(), encoding="utf-8")
