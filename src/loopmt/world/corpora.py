"""Text drawn from a world: parallel, monolingual, validation and test, with no meaning in two places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from loopmt.errors import DataError
from loopmt.rng import numpy_generator
from loopmt.world.meaning import Meaning
from loopmt.world.world import World


def write_corpora(
    folder: Path | str,
    world: World,
    seed: int,
    pairs: Mapping[str, int] | None = None,
    mono: Mapping[str, int] | None = None,
    valid: int = 500,
    test: int = 500,
) -> list[Path]:
    """Write `test.LANG`, `valid.LANG`, `bi.L1-L2.LANG` and `mono.LANG`, so many lines each, and say which files.

    Every line has a meaning of its own, and no sentence of one can be read as another, in any language: no
    monolingual sentence has its translation anywhere, and nothing of the test is in the training text.
    """
    blocks: dict[str, tuple[Sequence[str], int]] = {"test": (world.languages, test), "valid": (world.languages, valid)}
    blocks |= {f"bi.{pair}": (_languages(world, pair), count) for pair, count in (pairs or {}).items()}
    blocks |= {f"mono.{code}": (_languages(world, code), count) for code, count in (mono or {}).items()}
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    meanings = world.space.draw(seed, "world", world.size)
    written = []
    for name, (languages, count) in blocks.items():
        if count:
            paths = {code: root / f"{name.removesuffix(f'.{code}')}.{code}" for code in languages}
            _write_block(paths, world, islice(meanings, count), seed)
            written += list(paths.values())
    return written


def _languages(world: World, name: str) -> Sequence[str]:
    codes = name.split("-")
    if any(code not in world.languages for code in codes) or len(set(codes)) != len(codes) or len(codes) > 2:
        raise DataError(
            f'the world cannot write text for "{name}"; it speaks {", ".join(world.languages)}, and a pair '
            'is two different languages, such as "en-fr".'
        )
    return codes


def _write_block(paths: Mapping[str, Path], world: World, meanings: Iterator[Meaning], seed: int) -> None:
    """One line per meaning in each language, each a sentence chosen at random from its cluster."""
    with ExitStack() as stack:
        files = {code: stack.enter_context(path.open("w", encoding="utf-8")) for code, path in paths.items()}
        choices = {code: numpy_generator(seed, "world", path.name) for code, path in paths.items()}
        for meaning in meanings:
            for code, file in files.items():
                file.write(world.sentence(meaning, code, choices[code]) + "\n")
