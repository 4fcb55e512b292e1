"""Corpora drawn from a world: parallel, monolingual, validation and test, without shared meanings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from loopmt.errors import DataError
from loopmt.progress import Advance, Progress, Silent
from loopmt.rng import numpy_generator
from loopmt.synthetic.meaning import Meaning
from loopmt.synthetic.world import World


def write_corpora(
    folder: Path | str,
    world: World,
    seed: int,
    pairs: Mapping[str, int] | None = None,
    mono: Mapping[str, int] | None = None,
    valid: int = 500,
    test: int = 500,
    progress: Progress | None = None,
) -> list[Path]:
    """Write `test.LANG`, `valid.LANG`, `bi.L1-L2.LANG` and `mono.LANG` with the given numbers of lines.

    Every line has a different meaning, and no sentence of one line has the meaning of another in any language. So
    monolingual sentences have no translation in the corpora, and no test sentence is in the training text. The files
    appear together when all are written, and are returned.
    """
    blocks: dict[str, tuple[Sequence[str], int]] = {"test": (world.languages, test), "valid": (world.languages, valid)}
    blocks |= {f"bi.{pair}": (_languages(world, pair), count) for pair, count in (pairs or {}).items()}
    blocks |= {f"mono.{code}": (_languages(world, code), count) for code, count in (mono or {}).items()}
    total = sum(count for _, count in blocks.values())
    _check_enough(world, total)
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    meanings = world.space.draw(seed, "world", world.size)
    with TemporaryDirectory(prefix=".draft-", dir=root) as draft:
        with (progress or Silent()).track("drawing sentences", total) as advance:
            for name, (languages, count) in blocks.items():
                if count:
                    paths = {code: Path(draft) / f"{name.removesuffix(f'.{code}')}.{code}" for code in languages}
                    _write_block(paths, world, islice(meanings, count), seed, advance)
        return [file.rename(root / file.name) for file in sorted(Path(draft).iterdir())]


def _check_enough(world: World, wanted: int) -> None:
    """Refuse impossible numbers before hours of drawing; the exact number of sensible meanings is known only then."""
    if wanted > (most := len(world.space)):
        raise DataError(
            f"{wanted:,} lines with different meanings were requested, but the {world.size} world has fewer than "
            f"{most:,} meanings. Request fewer lines, or a larger world."
        )


def _languages(world: World, name: str) -> Sequence[str]:
    codes = name.split("-")
    if any(code not in world.languages for code in codes) or len(set(codes)) != len(codes) or len(codes) > 2:
        raise DataError(
            f'the world cannot write text for "{name}". Its languages are {", ".join(world.languages)}, and a pair '
            'is two different languages, such as "en-fr".'
        )
    return codes


def _write_block(
    paths: Mapping[str, Path], world: World, meanings: Iterator[Meaning], seed: int, advance: Advance
) -> None:
    """One line per meaning in each language, each a sentence chosen at random from its cluster."""
    with ExitStack() as stack:
        files = {code: stack.enter_context(path.open("w", encoding="utf-8")) for code, path in paths.items()}
        choices = {code: numpy_generator(seed, "world", path.name) for code, path in paths.items()}
        for meaning in meanings:
            for code, file in files.items():
                file.write(world.sentence(meaning, code, choices[code]) + "\n")
            advance(1)
