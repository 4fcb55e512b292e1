"""Assigns the rows of a corpus to disjoint blocks by seed: two passes, at most a chunk of rows in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from loopmt.errors import DataError
from loopmt.progress import Progress
from loopmt.rng import permute
from loopmt.text.corpus import CorpusReader, Source
from loopmt.text.format import Row
from loopmt.text.recipes import RecipePart, TextBlock

_CHUNK = 2**16


def scaled(blocks: Sequence[TextBlock], scale: float) -> list[TextBlock]:
    """Every count times `scale`, and at least one row."""
    return [
        TextBlock(block.prefix, None if block.rows is None else max(1, round(block.rows * scale)), block.languages)
        for block in blocks
    ]


def deal(
    part: RecipePart, sources: Sequence[Source], folder: Path, seed: int, scale: float, progress: Progress
) -> dict[str, int]:
    """Write the blocks of a part; returns the number of rows in each file."""
    blocks = scaled(part.blocks, scale)
    with progress.track(f"{part.name}: counting") as advance:
        total = 0
        for chunk in _chunks(sources):
            total += len(chunk)
            advance(len(chunk))
    ends = _ends(part, blocks, total, scale)
    with ExitStack() as stack, progress.track(f"{part.name}: dealing", total) as advance:
        outs = [_outputs(stack, part, block, folder) for block in blocks]
        first = 0
        for chunk in _chunks(sources):
            for row, home in zip(chunk, _homes(first, len(chunk), total, ends, (seed, part.name)), strict=True):
                if home < len(outs):
                    _write(outs[home], row)
            first += len(chunk)
            advance(len(chunk))
    counts = [end - start for start, end in itertools.pairwise([0, *ends])]
    return {name: count for block, count in zip(blocks, counts, strict=True) for name in _names(part, block).values()}


def join(part: RecipePart, sources: Sequence[Source], folder: Path, seed: int) -> Source:
    """Rows of all the languages, shuffled, from pairs that share one; of several translations the first is kept."""
    through = part.through
    assert through is not None
    found: dict[bytes, list[bytes]] = {}
    for number, source in enumerate(sources):
        at = source.languages.index(through)
        with CorpusReader(source) as rows:
            for row in rows:
                known = found.setdefault(row[at], []) if number == 0 else found.get(row[at])
                if known is not None and len(known) == number:
                    known.append(row[1 - at])
    files = tuple(folder / f"joined.{language}" for language in part.languages)
    with ExitStack() as stack:
        outs = [(place, stack.enter_context(file.open("wb"))) for place, file in enumerate(files)]
        complete = [(shared, *others) for shared, others in found.items() if len(others) == len(sources)]
        for place in permute(np.arange(len(complete)), len(complete), seed, part.name, "join"):
            _write(outs, complete[place])
    return Source(part.name, "text", part.languages, files)


def _chunks(sources: Sequence[Source]) -> Iterator[list[Row]]:
    for source in sources:
        with CorpusReader(source) as rows:
            stream = iter(rows)
            while chunk := list(itertools.islice(stream, _CHUNK)):
                yield chunk


def _ends(part: RecipePart, blocks: Sequence[TextBlock], total: int, scale: float) -> list[int]:
    """The end of each block among the shuffled rows."""
    wanted = sum(block.rows or 0 for block in blocks)
    rest = any(block.rows is None for block in blocks)
    if wanted + rest > total:
        raise DataError(
            f"{part.name} has {total:,} rows and the recipe takes {wanted:,} of them"
            f"{' and the rest' if rest else ''}. Take less with --scale {0.9 * scale * total / wanted:.2g}."
        )
    left = total - wanted
    return list(itertools.accumulate(left if block.rows is None else block.rows for block in blocks))


def _homes(first: int, count: int, total: int, ends: Sequence[int], key: tuple[int, str]) -> list[int]:
    """The block of each of these rows; len(ends) for none."""
    if ends[0] == total:
        return [0] * count
    places = permute(np.arange(first, first + count), total, *key, "sample")
    homes: list[int] = np.searchsorted(ends, places, side="right").tolist()
    return homes


def _outputs(stack: ExitStack, part: RecipePart, block: TextBlock, folder: Path) -> list[tuple[int, IO[bytes]]]:
    return [
        (part.languages.index(language), stack.enter_context((folder / name).open("wb")))
        for language, name in _names(part, block).items()
    ]


def _names(part: RecipePart, block: TextBlock) -> dict[str, str]:
    return {language: f"{block.prefix}.{language}" for language in block.languages or part.languages}


def _write(outs: Sequence[tuple[int, IO[bytes]]], row: Row) -> None:
    for place, file in outs:
        file.write(row[place] + b"\n")
