"""`loopmt paths`: the paths that a pattern stands for."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from loopmt.cli.options import JsonOption, quoted
from loopmt.errors import PathError


def paths(
    pattern: Annotated[str, typer.Argument(help="A path or a pattern.", callback=quoted)],
    languages: Annotated[str, typer.Option("--languages", help="Languages, joined by commas.")],
    bitext: Annotated[
        str | None, typer.Option("--bitext", help="Pairs with bitext, joined by commas; default: all.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the paths that a pattern stands for, and the direction that each trains.

    A path lists the languages that a sentence passes. Its first and last text is real; the text between is generated.
    With --bitext (as in en-fr,en-es), also list the paths that such data cannot train, and why.

    Example: loopmt paths "X>Y>Z>X" --languages en,fr,es
    """
    from loopmt.path import Pattern, Supply, expand_fed

    names = _names(languages)
    pairs = [(one, other) for one in names for other in names if one != other]
    if bitext is not None:
        pairs = [(one, other) for one, _, other in (pair.strip().partition("-") for pair in bitext.split(","))]
    supply = Supply.of(pairs, names)
    expansion = expand_fed([Pattern.parse(pattern)], names, supply, supply.bitext)[0]
    if as_json:
        rows = [{"path": str(p), "teaches": str(p.taught), "ends": p.ends, "closed": p.closed} for p in expansion.paths]
        left = [{"path": str(out.path), "why": out.why} for out in expansion.left_out]
        typer.echo(json.dumps({"pattern": pattern, "paths": rows, "left_out": left}))
        return
    for path in expansion.paths:
        typer.echo(f"{path}   trains {path.taught}, needs {'monolingual ' + path.ends[1] if path.closed else 'bitext'}")
    for out in expansion.left_out:
        typer.echo(f"left out: {out.path} {out.why}")


def _names(languages: str) -> list[str]:
    from loopmt.path import check_language

    names = [name.strip() for name in languages.split(",") if name.strip()]
    for name in names:
        check_language(name)
        if names.count(name) > 1:
            raise PathError(f"--languages {languages}: {name} is named twice. Name every language once, as in en,fr.")
    return names
