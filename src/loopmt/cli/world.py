"""`loopmt world`: text of the built-in languages, as files to practise on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from loopmt.errors import ConfigError, DataError


class Size(StrEnum):
    tiny = "tiny"
    small = "small"
    full = "full"


def world(
    folder: Annotated[Path, typer.Argument(help="A new folder for the files.", metavar="FOLDER")],
    pair: Annotated[
        list[str] | None,
        typer.Option("--pair", metavar="L1-L2=N", help="N sentence pairs of two languages; may be repeated."),
    ] = None,
    mono: Annotated[
        int, typer.Option("--mono", min=0, help="Number of monolingual sentences of each language.")
    ] = 3000,
    languages: Annotated[str, typer.Option("--languages", help="From en, fr, es, de, joined by commas.")] = "en,fr,es",
    valid: Annotated[
        int, typer.Option("--valid", min=1, help="Number of validation sentences, the same in all languages.")
    ] = 200,
    test: Annotated[
        int, typer.Option("--test", min=1, help="Number of test sentences, the same in all languages.")
    ] = 500,
    size: Annotated[Size, typer.Option("--size", help="Size of the lexicon and the grammar.")] = Size.tiny,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw.")] = 1,
) -> None:
    """Write text of the built-in languages: parallel, monolingual, validation and test files to practise on.

    No meaning occurs in two files, so no monolingual sentence has a translation anywhere. Prints the [data] section
    of an experiment file that reads the files.

    Example: loopmt world corpora --pair en-fr=900 --pair en-es=900 --mono 6000
    """
    from loopmt.progress import standard
    from loopmt.synthetic import World, write_corpora

    names = [name.strip() for name in languages.split(",") if name.strip()]
    pairs = dict(map(_count, pair or [f"{names[0]}-{name}=500" for name in names[1:]]))
    if folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):  # a killed draft is hidden
        raise DataError(f"{folder} exists already, and nothing in it is overwritten. Name a new folder.")
    synthetic = World(size.value, names)
    write_corpora(folder, synthetic, seed, pairs, dict.fromkeys(names, mono), valid, test, standard())
    typer.echo(_section(folder, names, pairs, mono))


def _count(text: str) -> tuple[str, int]:
    pair, _, number = text.partition("=")
    if not number.isdecimal() or not int(number):
        raise ConfigError(f"--pair {text}: write L1-L2=N, such as en-fr=900.")
    return pair, int(number)


def _section(folder: Path, languages: list[str], pairs: dict[str, int], mono: int) -> str:
    """The [data] section that names the files."""
    bitext = ", ".join(f'"{pair}" = "bi.{pair}"' for pair in pairs)
    alone = ", ".join(f'{name} = "mono"' for name in languages)
    lines = ["[data]", f'root = "{folder}"', f"bitext = {{ {bitext} }}", *([f"mono = {{ {alone} }}"] if mono else [])]
    return "\n".join([*lines, 'valid = "valid"', 'test = "test"'])
