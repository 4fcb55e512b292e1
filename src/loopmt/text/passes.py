"""The two passes over training text: raw files to clean text on disk, clean text to tokens. Memory stays constant."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from loopmt.progress import Advance
from loopmt.text.clean import Cleaned, Cleaner, Partitions
from loopmt.text.corpus import CorpusReader, LineBlock, Source, blocks, grouped
from loopmt.text.format import Row
from loopmt.text.line_sample import LineSample
from loopmt.text.parallel import ordered_map
from loopmt.text.store import Lengths, StoreWriter, Tokens, joined
from loopmt.text.vocab import Vocab

_CHUNK = 2**20


@dataclass(frozen=True)
class Corpus:
    """A bitext or a monolingual corpus, as the experiment names it."""

    kind: str
    name: str
    languages: tuple[str, ...]
    sources: tuple[Source, ...]


class CleanText:
    """A corpus after cleaning: a file of lines for each language, and a file of marks that leaves out duplicates."""

    def __init__(self, folder: Path, corpus: Corpus, duplicates: bool) -> None:
        folder.mkdir(parents=True)
        self.corpus = corpus
        self.rows = 0
        self.removed: Counter[str] = Counter()
        self._left = 0
        self._paths = [folder / language for language in corpus.languages]
        self._marks = folder / "marks"
        self._open = ExitStack()
        self._files = [self._open.enter_context(path.open("wb")) for path in self._paths]
        self._partitions = self._open.enter_context(Partitions(folder / "hashes")) if duplicates else None

    def __enter__(self) -> CleanText:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def append(self, cleaned: Cleaned) -> None:
        for file, side in zip(self._files, cleaned.sides, strict=True):
            file.write(side)
        self.rows += cleaned.rows
        self._left += len(cleaned.hashes)
        self.removed.update(cleaned.removed)
        if self._partitions:
            self._partitions.add(cleaned.hashes)

    def finish(self) -> None:
        """Mark the duplicates; afterwards lines can be read."""
        self._open.close()
        with self._marks.open("wb") as file:
            for start in range(0, self._left, _CHUNK):
                file.write(b"\x01" * min(_CHUNK, self._left - start))
        if self._partitions and self._left:
            marks = np.memmap(self._marks, dtype=np.uint8, mode="r+")
            for repeats in self._partitions.repeats():
                marks[repeats] = 0
                self.removed["duplicates"] += len(repeats)
            marks.flush()

    @property
    def kept(self) -> int:
        return self.rows - self.removed.total()

    def lines(self, language: str) -> Iterator[str]:
        path = self._paths[self.corpus.languages.index(language)]
        return (row[0].decode() for row in self._rows([path]))

    def blocks(self, number: int) -> Iterator[LineBlock]:
        return grouped(self._rows(self._paths), number, self.corpus.languages, 0, tuple(map(str, self._paths)))

    def _rows(self, paths: Sequence[Path]) -> Iterator[Row]:
        with self._marks.open("rb") as marks:
            keep = itertools.chain.from_iterable(iter(lambda: marks.read(_CHUNK), b""))
            yield from itertools.compress(zip(*map(_lines, paths), strict=True), keep)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            yield line[:-1]


@dataclass
class Raw:
    """The blocks of corpora, one after another; after one iteration it has the hash of each file, and a sample."""

    corpora: Sequence[Corpus]
    advance: Advance
    sha256: dict[Path, str] = field(default_factory=dict)
    samples: list[LineSample] = field(default_factory=list)

    def __iter__(self) -> Iterator[LineBlock]:
        for number, corpus in enumerate(self.corpora):
            for source in corpus.sources:
                with CorpusReader(source) as reading:
                    self.samples.append(LineSample(corpus.kind, corpus.name, source))
                    yield from self._blocks(reading, number)
                    self.sha256 |= reading.hashes()

    def _blocks(self, reading: CorpusReader, number: int) -> Iterator[LineBlock]:
        done = 0
        for block in blocks(reading, number):
            self.samples[-1].add(block)
            yield block
            self.advance(reading.consumed - done)
            done = reading.consumed


def clean(raw: Raw, folder: Path, cleaner: Cleaner, duplicates: bool, jobs: int) -> Iterator[CleanText]:
    """Each corpus, cleaned; only one is written at a time."""
    for number, group in itertools.groupby(ordered_map(cleaner, raw, jobs), key=lambda cleaned: cleaned.corpus):
        with CleanText(folder / str(number), raw.corpora[number], duplicates) as text:
            for cleaned in group:
                text.append(cleaned)
            text.finish()
        yield text


# -- tokens --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Encoded:
    corpus: int
    sides: list[tuple[Tokens, Lengths]]
    words: list[int]


@dataclass(frozen=True)
class Encoder:
    vocab: Vocab

    def __call__(self, block: LineBlock) -> Encoded:
        texts = block.texts()
        ids = [self.vocab.encode_normal(side, language) for side, language in zip(texts, block.languages, strict=True)]
        words = [sum(len(text.split()) for text in side) for side in texts]
        return Encoded(block.corpus, [joined(side) for side in ids], words)


@dataclass(frozen=True)
class PassCounts:
    """Counts of one side of a corpus."""

    words: int
    tokens: int
    lengths: list[int]


def encode(
    texts: Sequence[CleanText], vocab: Vocab, store: StoreWriter, jobs: int, advance: Advance
) -> Iterator[list[PassCounts]]:
    """Write each corpus into the store; gives the tallies of its sides."""
    items = itertools.chain.from_iterable(text.blocks(number) for number, text in enumerate(texts))
    encoded_blocks = ordered_map(Encoder(vocab), items, jobs)
    for number, group in itertools.groupby(encoded_blocks, key=lambda encoded: encoded.corpus):
        corpus = texts[number].corpus
        words = np.zeros(len(corpus.languages), dtype=np.int64)
        with store.sides(corpus.name, corpus.languages) as writers:
            for encoded in group:
                words += encoded.words
                for writer, (tokens, lengths) in zip(writers, encoded.sides, strict=True):
                    writer.append(tokens, lengths)
                advance(len(encoded.sides[0][1]))
        yield [PassCounts(int(n), side.tokens, side.histogram.tolist()) for n, side in zip(words, writers, strict=True)]
