"""Tokens on disk, memory-mapped: rows are fetched by number, and their order is a pure function of a key."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from loopmt.errors import DamagedError, DataError
from loopmt.files.documents import file_digest, read_checked, with_checksum
from loopmt.files.regular import file_size, has_folder, member, read_text, reading
from loopmt.rng import Indices, permute
from loopmt.text.ragged import Ragged

Tokens = npt.NDArray[np.uint16]
Lengths = npt.NDArray[np.int32]

_RUN = 1_000  # rows that a sample reads one after another
_VERSION = 1
LONGEST = 512
_AGAIN = "Run `loopmt prepare` again: it is made anew from the text."


def row_indices(size: int, start: int, count: int, *key: str | int) -> Indices:
    """Rows `start` to `start + count` of an endless stream over `size` rows; each epoch has its own keyed order."""
    positions = np.arange(start, start + count, dtype=np.int64)
    epochs = positions // size
    out = np.empty(count, dtype=np.int64)
    for epoch in range(start // size, (start + count - 1) // size + 1):
        here = epochs == epoch
        out[here] = permute(positions[here] % size, size, *key, "epoch", epoch)
    return out


class Side:
    """One language's rows of a corpus."""

    def __init__(self, tokens: Tokens, offsets: Indices) -> None:
        self._tokens = tokens
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def lengths(self) -> Lengths:
        """Tokens of each row."""
        return np.diff(self._offsets).astype(np.int32)

    def sample(self, most: int) -> Indices:
        """So many rows of a large corpus, from all over it: corpora are often sorted, or one after another.

        They lie in runs of neighbours, because a row here and there would read every page of a large file.
        """
        if len(self) <= most:
            return np.arange(len(self), dtype=np.int64)
        run = min(_RUN, most)
        firsts = np.linspace(0, len(self) - run, most // run).astype(np.int64)
        return (firsts[:, None] + np.arange(run)).ravel()

    def lengths_of(self, indices: Indices) -> Indices:
        found: Indices = self._offsets[indices + 1] - self._offsets[indices]
        return found

    def take(self, indices: Indices) -> Ragged:
        """The tokens of these rows, read in one go."""
        return Ragged(self._tokens, self._offsets).take(indices)  # type: ignore[arg-type]

    def rows(self, indices: Indices) -> list[Tokens]:
        """The tokens of these rows, each a view of the store."""
        tokens = self._tokens
        starts, ends = self._offsets[indices].tolist(), self._offsets[indices + 1].tolist()
        return [tokens[start:end] for start, end in zip(starts, ends, strict=True)]


class Store:
    """The tokens of a run's corpora and the text of its valid and test sets."""

    def __init__(self, folder: Path, described: dict[str, Any]) -> None:
        self.folder = folder
        self._described = described
        self._sides: dict[str, dict[str, int]] = described["sides"]
        self._open: dict[str, Side] = {}
        self._sets: dict[str, dict[str, dict[str, str]]] = described["sets"]

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open the store. Every file must exist with its size; `verify` checks the contents, too."""
        has_folder(folder)
        try:
            described = read_checked(folder / "store.json", _AGAIN)
            if described["version"] != _VERSION:
                raise DamagedError(f"{folder} has format {described['version']}, not {_VERSION}. {_AGAIN}")
            for name, record in described["files"].items():
                file = member(folder, name)
                if file_size(file) != record["size"]:
                    raise DamagedError(f"{file} does not have the size it was written with. {_AGAIN}")
            return cls(folder, described)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedError(f"{folder} is not a token store: {error}. {_AGAIN}") from None

    def verify(self) -> None:
        for name in self._described["files"]:
            self._verify(name)

    def _verify(self, name: str) -> None:
        file = member(self.folder, name)
        if file_digest(file) != self._described["files"][name]["sha256"]:
            raise DamagedError(f"{file} does not have the content it was written with. {_AGAIN}")

    def has_bitext(self, source: str, target: str) -> bool:
        return f"{source}-{target}.{source}" in self._sides or f"{target}-{source}.{source}" in self._sides

    def has_mono(self, language: str) -> bool:
        return language in self._sides

    def bitext(self, source: str, target: str) -> tuple[Side, Side]:
        """The two sides of a pair, in the order asked for."""
        for pair in (f"{source}-{target}", f"{target}-{source}"):
            if f"{pair}.{source}" in self._sides:
                return self._side(f"{pair}.{source}"), self._side(f"{pair}.{target}")
        raise DataError(f"{self.folder} has no bitext {source}-{target}; it has: {self._names()}.")

    def mono(self, language: str) -> Side:
        if language not in self._sides:
            raise DataError(f"{self.folder} has no monolingual {language}; it has: {self._names()}.")
        return self._side(language)

    def rows(self, source: str, target: str) -> int:
        """Rows of bitext of a pair, or of monolingual text if both are the same, without opening the text."""
        names = (source,) if source == target else (f"{source}-{target}.{source}", f"{target}-{source}.{source}")
        return next((int(self._sides[name]["rows"]) for name in names if name in self._sides), 0)

    def any_side(self, language: str) -> Side | None:
        """Text of a language: monolingual, or else the side of a pair; None if there is neither."""
        names = [language, *(name for name in self._sides if name.endswith(f".{language}"))]
        return next((self._side(name) for name in names if name in self._sides), None)

    def ends(self, start: str, end: str) -> tuple[Side, Side]:
        """The text at both ends of a path, row by row; for a loop both are the same."""
        return (self.mono(start), self.mono(start)) if start == end else self.bitext(start, end)

    def longer_sides(self, start: str, end: str, most: int) -> Indices:
        """Tokens of the longer side of rows at the ends of a path: of a sample, if there are more than `most`."""
        sides = self.ends(start, end)
        rows = sides[0].sample(most)
        longer: Indices = np.maximum(*(side.lengths_of(rows) for side in sides))
        return longer

    def _side(self, name: str) -> Side:
        if name not in self._open:
            self._open[name] = _open_side(self.folder, name, **self._sides[name])
        return self._open[name]

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(name.partition(".")[0] for name in self._sides))

    @property
    def tests(self) -> list[str]:
        return [name for name in self._sets if name != "valid"]

    def texts(self, name: str, language: str) -> list[str]:
        """All text of a language in the set "valid" or a test set; where sets go by pair, one pair after another."""
        groups = self._set(name).values()
        return [line for group in groups if language in group for line in self._lines(group[language])]

    def pair_texts(self, name: str, source: str, target: str) -> tuple[list[str], list[str]] | None:
        """The two sides of a validation or test set, row by row; None if it lacks one of them."""
        groups = self._set(name)
        for key in ("", f"{source}-{target}", f"{target}-{source}"):
            group = groups.get(key, {})
            if source in group and target in group:
                return self._lines(group[source]), self._lines(group[target])
        return None

    def _set(self, name: str) -> dict[str, dict[str, str]]:
        if name not in self._sets:
            raise DataError(f"there is no set '{name}'; there are: {', '.join(self._sets) or 'none'}.")
        return self._sets[name]

    def _lines(self, file: str) -> list[str]:
        self._verify(file)
        return read_text(member(self.folder, file)).split("\n")[:-1]


def _open_side(folder: Path, name: str, rows: int, tokens: int) -> Side:
    flat = _mapped(member(folder, f"{name}.tokens"), np.dtype("<u2"))
    offsets = _mapped(member(folder, f"{name}.offsets"), np.dtype("<i8"))
    if len(offsets) != rows + 1 or len(flat) != tokens or offsets[-1] != tokens:
        raise DamagedError(f"{folder / name} does not hold {rows} rows of {tokens} tokens. {_AGAIN}")
    return Side(flat, offsets)


def _mapped(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A plain array over the map: slicing it is several times faster than slicing a np.memmap."""
    if not file_size(path):
        return np.empty(0, dtype=dtype)
    with reading(path) as file:
        return np.asarray(np.memmap(file, dtype=dtype, mode="r"))


# -- writing -------------------------------------------------------------------------------------------------


class _HashedOutput:
    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)

    def __enter__(self) -> _HashedOutput:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def finish(self) -> dict[str, Any]:
        self._file.flush()
        os.fsync(self._file.fileno())
        return {"size": self._size, "sha256": self._hash.hexdigest()}


class SideWriter:
    """Appends rows to one side, and counts rows by length."""

    def __init__(self, folder: Path, name: str) -> None:
        self._open = ExitStack()
        self._tokens = self._open.enter_context(_HashedOutput(folder / f"{name}.tokens"))
        self._offsets = self._open.enter_context(_HashedOutput(folder / f"{name}.offsets"))
        self._offsets.write(np.zeros(1, dtype="<i8").tobytes())
        self.name = name
        self.rows = 0
        self.tokens = 0
        self.histogram = np.zeros(LONGEST + 1, dtype=np.int64)

    def append(self, tokens: Tokens, lengths: Lengths) -> None:
        self._tokens.write(tokens.astype("<u2", copy=False).tobytes())
        self._offsets.write((self.tokens + np.cumsum(lengths, dtype="<i8")).tobytes())
        self.rows += len(lengths)
        self.tokens += len(tokens)
        self.histogram += np.bincount(np.minimum(lengths, LONGEST), minlength=LONGEST + 1)

    def finish(self) -> dict[str, Any]:
        return {f"{self.name}.tokens": self._tokens.finish(), f"{self.name}.offsets": self._offsets.finish()}

    def __enter__(self) -> SideWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()


class StoreWriter:
    """Writes a store, which can be opened after `close` has written its description."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._files: dict[str, Any] = {}
        self._sides: dict[str, Any] = {}
        self._sets: dict[str, dict[str, dict[str, str]]] = {}

    @contextmanager
    def sides(self, name: str, languages: Sequence[str]) -> Iterator[list[SideWriter]]:
        """Writers for a pair's two sides, or for the one of a monolingual corpus, whose name is its language."""
        names = [name] if len(languages) == 1 else [f"{name}.{language}" for language in languages]
        with ExitStack() as stack:
            writers = [stack.enter_context(SideWriter(self._folder, side)) for side in names]
            yield writers
            for side in writers:
                self._files |= side.finish()
                self._sides[side.name] = {"rows": side.rows, "tokens": side.tokens}

    def add_set(self, name: str, group: str, texts: dict[str, list[str]]) -> None:
        """A valid or test set; `group` is its pair, or "" for a multi-way set."""
        files = self._sets.setdefault(name, {}).setdefault(group, {})
        number = list(self._sets).index(name)
        for language, lines in texts.items():
            files[language] = f"set{number}{'.' * bool(group)}{group}.{language}.txt"
            with _HashedOutput(self._folder / files[language]) as output:
                output.write("".join(f"{line}\n" for line in lines).encode())
                self._files[files[language]] = output.finish()

    def close(self) -> None:
        described = {"version": _VERSION, "sides": self._sides, "sets": self._sets, "files": self._files}
        with _HashedOutput(self._folder / "store.json") as output:
            output.write((json.dumps(with_checksum(described), indent=1) + "\n").encode())
            output.finish()


def joined(rows: Sequence[bytes]) -> tuple[Tokens, Lengths]:
    """Rows of ids, two bytes each, as flat tokens and lengths."""
    lengths = np.fromiter(map(len, rows), dtype=np.int32, count=len(rows)) // 2
    return np.frombuffer(b"".join(rows), dtype="<u2"), lengths
