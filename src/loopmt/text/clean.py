"""Normal form of text, and the rules that drop rows from training text; each rule counts what it dropped."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loopmt.config import Clean, Data
from loopmt.text import moses
from loopmt.text.corpus import LineBlock

Hashes = npt.NDArray[np.uint64]
Texts = tuple[str, ...]
Rule = Callable[[Clean, Texts, Sequence[int]], bool]

_SPARED = 10
_BYTES_PER_WORD = 10
INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0001-\U000e007f]"
)
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Form:
    """The normal form of text before subwords."""

    nfc: bool = True
    control: bool = True
    lowercase: bool = False
    pretokenize: bool = False

    @classmethod
    def of(cls, data: Data) -> Form:
        return cls(data.clean.nfc, data.clean.control, data.lowercase, data.pretokenize)

    def cased(self) -> Form:
        """The form of text that people read: validation and test sets keep their case."""
        return replace(self, lowercase=False)

    def normalise(self, text: str) -> str:
        """One line in normal form; idempotent. Invisible characters go, but for the joiners some scripts spell with.

        They go first: what they held apart, such as a letter and its accent, is one character without them.
        """
        if self.control:
            text = _visible(text)
        if self.lowercase:
            text = text.lower()
        return unicodedata.normalize("NFC", text) if self.nfc else text

    def tokenise(self, text: str, language: str) -> str:
        return moses.tokenize(text, language) if self.pretokenize else text


def _visible(text: str) -> str:
    if not text.isprintable():
        text = CONTROL.sub(" ", INVISIBLE.sub("", text))
    return " ".join(text.split())


def text_hash(text: str) -> int:
    """A 64-bit hash that is the same in every process."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class Cleaned:
    """The rows of a block that are left: each side's lines, a hash for each row, and counts of the dropped rows."""

    corpus: int
    rows: int
    sides: tuple[bytes, ...]
    hashes: Hashes
    removed: Counter[str]


class Cleaner:
    """Cleans blocks; `held` has the hashes of validation and test text by language."""

    def __init__(self, form: Form, clean: Clean, held: Mapping[str, frozenset[int]]) -> None:
        self._form = form
        self._clean = clean
        self._held = held
        self._rules = [name for name in _RULES if getattr(clean, name)]
        self._counted = [*self._rules, *(["overlap"] if clean.overlap else [])]

    def __call__(self, block: LineBlock) -> Cleaned:
        held = [self._held.get(language, frozenset()) for language in block.languages]
        rows = list(zip(*map(self._normalised, block.texts()), strict=True))
        hashes = [[text_hash(text) for text in row] for row in rows]
        reasons = [self._reason(row, marks, held) for row, marks in zip(rows, hashes, strict=True)]
        kept = [row for row, reason in zip(rows, reasons, strict=True) if reason is None]
        left = [marks for marks, reason in zip(hashes, reasons, strict=True) if reason is None]
        sides = tuple(map(self._joined, zip(*kept, strict=True), block.languages)) or (b"",) * len(block.sides)
        removed = Counter(dict.fromkeys(self._counted, 0))
        removed.update(reason for reason in reasons if reason)
        return Cleaned(block.corpus, len(rows), sides, _combined(left), removed)

    def _normalised(self, texts: list[str]) -> list[str]:
        normalise = self._form.normalise
        return [normalise(text.removesuffix("\r")) for text in texts]

    def _joined(self, side: Texts, language: str) -> bytes:
        return "".join(self._form.tokenise(text, language) + "\n" for text in side).encode()

    def _reason(self, row: Texts, hashes: list[int], held: list[frozenset[int]]) -> str | None:
        counts = [len(text.split()) for text in row]
        for name in self._rules:
            if _RULES[name](self._clean, row, counts):
                return name
        if self._clean.overlap and any(map(frozenset.__contains__, held, hashes)):
            return "overlap"
        return None


def _lopsided(clean: Clean, row: Texts, counts: Sequence[int]) -> bool:
    """Scripts without spaces are measured in bytes, at most ten to a word."""
    lengths = [max(count, len(text.encode()) / _BYTES_PER_WORD) for text, count in zip(row, counts, strict=True)]
    return max(lengths) >= _SPARED and max(lengths) > (clean.ratio or 0) * min(lengths)


# Named as the keys of data.clean, in the order in which they are asked; a rule is on if its key is set.
_RULES: dict[str, Rule] = {
    "empty": lambda clean, row, counts: 0 in counts,
    "max_words": lambda clean, row, counts: max(counts) > (clean.max_words or 0),
    "max_characters": lambda clean, row, counts: max(map(len, row)) > (clean.max_characters or 0),
    "ratio": _lopsided,
    "identical": lambda clean, row, counts: len(row) > 1 and row[0] == row[1],
}


def _combined(hashes: list[list[int]]) -> Hashes:
    """One hash for a row, from those of its sides."""
    combined = np.zeros(len(hashes), dtype=np.uint64)
    for column in zip(*hashes, strict=True):
        combined = combined * np.uint64(0x9E3779B97F4A7C15) + np.array(column, dtype=np.uint64)
    return combined


_PARTITIONS = 64
_RECORD = np.dtype([("hash", "<u8"), ("row", "<u8")])


class Partitions:
    """Hashes on disk, partitioned so that equal ones are in the same file and each file can be processed alone."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._paths = [folder / f"{number:02d}" for number in range(_PARTITIONS)]
        self._stack = ExitStack()
        self._files = [self._stack.enter_context(path.open("wb")) for path in self._paths]
        self._rows = 0

    def __enter__(self) -> Partitions:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, hashes: Hashes) -> None:
        """The hashes of the next rows."""
        homes = hashes % np.uint64(_PARTITIONS)
        order = np.argsort(homes, kind="stable")
        records = np.empty(len(hashes), dtype=_RECORD)
        records["hash"] = hashes[order]
        records["row"] = order.astype(np.uint64) + np.uint64(self._rows)
        ends = np.cumsum(np.bincount(homes.astype(np.int64), minlength=_PARTITIONS))
        for file, part in zip(self._files, np.split(records, ends[:-1]), strict=True):
            file.write(part.tobytes())
        self._rows += len(hashes)

    def repeats(self) -> Iterator[npt.NDArray[np.uint64]]:
        """The rows that repeat an earlier one, partition by partition; deletes the files."""
        self._stack.close()
        for path in self._paths:
            records = np.fromfile(path, dtype=_RECORD)
            records = records[np.argsort(records["hash"], kind="stable")]
            again = records["hash"][1:] == records["hash"][:-1]
            yield records["row"][1:][again]
            path.unlink()
