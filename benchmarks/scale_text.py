"""Made-up text of any size, streamed to zst files: Zipf-distributed words, lengths as in news, few duplicates."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import zstandard

from loopmt.rng import numpy_generator

WORDS = 500_000  # per language; many, because encoding takes longest for rare words
MEAN_WORDS = 22.0
REPEATED = 0.01  # share of repeated lines
PAIRS, VALID = 100_000, 500
_CHUNK = 20_000
_PLACES = 2**23  # length of the table from which words are drawn
_EXPONENT = 1.1
_ONSETS = {"en": "b c d f g h k l m n p r s t v w st th sh tr", "fr": "b c d f g j l m n p qu r s t v ch gn pr br tr"}
_VOWELS = {"en": "a e i o u ea ou er in an", "fr": "a e i o u é è ai ou on en eur"}
BYTES_PER_LINE = 300  # compressed text, clean text, hashes and tokens of a line, at the peak of `prepare`


def write_corpora(folder: Path, languages: tuple[str, ...], lines: int) -> None:
    """Write `lines` monolingual lines in total, a small bitext and a validation set; one process per language."""
    folder.mkdir(parents=True)
    with ProcessPoolExecutor(2) as pool:
        list(
            pool.map(_write_language, [folder] * len(languages), languages, [lines // len(languages)] * len(languages))
        )


def _write_language(folder: Path, language: str, lines: int) -> None:
    table = _by_zipf(lexicon(language))
    for name, count in (("mono", lines), ("bi", PAIRS), ("valid", VALID)):
        path = folder / f"{name}.{language}.zst"
        with path.open("wb") as file, zstandard.ZstdCompressor(level=1).stream_writer(file) as output:
            for chunk in _chunks(table, count, f"{name}.{language}"):
                output.write(chunk)


def lexicon(language: str) -> list[str]:
    """Words of one to five syllables; the frequent ones are short."""
    generator = numpy_generator("scale", "lexicon", language)
    syllables = [onset + vowel for onset in _ONSETS[language].split() for vowel in _VOWELS[language].split()]
    counts = np.clip(np.log10(np.arange(1, WORDS + 1)) * generator.uniform(0.4, 1.0, WORDS), 1, 5).round().astype(int)
    drawn = np.array(syllables, dtype=object)[generator.integers(0, len(syllables), counts.sum())].tolist()
    return ["".join(drawn[start:end]) for start, end in pairwise(accumulate(counts.tolist(), initial=0))]


def _by_zipf(words: list[str]) -> npt.NDArray[np.object_]:
    """A table in which each word has its frequency by Zipf's law."""
    weights = np.cumsum(np.arange(1, len(words) + 1) ** -_EXPONENT)
    ranks = np.searchsorted(weights, (np.arange(_PLACES) + 0.5) / _PLACES * weights[-1])
    placed: npt.NDArray[np.object_] = np.array(words, dtype=object)[ranks]
    return placed


def _chunks(table: npt.NDArray[np.object_], count: int, name: str) -> Iterator[bytes]:
    generator = numpy_generator("scale", name)
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        lengths = np.clip(generator.gamma(3.0, MEAN_WORDS / 3.0, size).round(), 1, 100).astype(np.int64).tolist()
        words = table[generator.integers(0, _PLACES, sum(lengths))].tolist()
        rows = [" ".join(words[a:b]) for a, b in pairwise(accumulate(lengths, initial=0))]
        for row in generator.integers(1, size, round(REPEATED * size)).tolist():
            rows[row] = rows[row - 1]
        yield (".\n".join(rows) + ".\n").encode()
