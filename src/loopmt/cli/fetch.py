"""`loopmt fetch`: public corpora by name."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from loopmt.progress import visible_message


def _complete_recipe(incomplete: str) -> list[str]:
    from loopmt.text.recipes import RECIPES

    return [name for name in RECIPES if name.startswith(incomplete)]


def fetch(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The corpus; without a name, all are listed.", metavar="NAME", autocompletion=_complete_recipe
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the text; default: corpora/NAME.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the sampling of rows.")] = 1,
    scale: Annotated[
        float, typer.Option("--scale", min=1e-9, max=1.0, help="Factor for the number of rows that are sampled.")
    ] = 1.0,
    mirror: Annotated[
        str | None,
        typer.Option("--mirror", envvar="LOOPMT_MIRROR", help="Fetch MIRROR/host/path instead of https://host/path."),
    ] = None,
    checksums: Annotated[
        Path | None,
        typer.Option("--checksums", help="File of expected checksums: of sha256sum or md5sum, or a fetched.json."),
    ] = None,
) -> None:
    """Download a public corpus and make it ready for an experiment; the same command resumes.

    Example: loopmt fetch multi30k
    """
    from loopmt.progress import standard
    from loopmt.text.expected import with_expected
    from loopmt.text.recipes import recipe
    from loopmt.workflow.fetch import FetchOptions, fetch

    if name is None:
        _list()
        return
    wanted = recipe(name) if checksums is None else with_expected(recipe(name), checksums)
    done = fetch(FetchOptions(wanted, out, seed, scale, mirror), standard())
    for file, rows in done.rows.items():
        typer.echo(visible_message(f"{done.folder / file}: {rows:,} rows"))
    typer.echo("fetched." if done.fresh else "nothing to do: it was fetched before.")
    for experiment in wanted.experiments:
        root = shlex.quote(f"data.root={done.folder.resolve()}")
        typer.echo(visible_message(f"next: loopmt train {experiment} --set {root}"))


def _list() -> None:
    from loopmt.text.recipes import RECIPES, recipe

    for name in RECIPES:
        typer.echo(f"{name:12}{recipe(name).about}")
