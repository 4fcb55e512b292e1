"""The manifest of prepared text: input files with hashes, rows read, dropped and kept, lengths, the vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from loopmt.errors import DamagedError
from loopmt.files.documents import read_checked, with_checksum
from loopmt.files.regular import replacing


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileRecord(_Record):
    """An input file; its name is relative to the data's root where it lies below it."""

    name: str
    size: int
    mtime_ns: int
    sha256: str


class CorpusRecord(_Record):
    """A bitext or a monolingual corpus, rows as read and as kept; words are counted in the text the subwords see.

    `lengths[language][n]` rows have n tokens; the last entry counts longer ones too.
    """

    kind: str
    name: str
    languages: list[str]
    references: list[str]
    rows: int
    removed: dict[str, int]
    kept: int
    words: dict[str, int]
    tokens: dict[str, int]
    lengths: dict[str, list[int]]


class SetRecord(_Record):
    """A valid or test set; `pair` is empty if it is multi-way."""

    name: str
    pair: str
    languages: list[str]
    reference: str
    rows: int


class VocabRecord(_Record):
    """`sizes` may be below the requested size, if the text has too few distinct pieces."""

    kind: str
    joint: bool
    asked: int
    sizes: dict[str, int]
    sha256: dict[str, str]


class Finding(_Record):
    """Text that looks wrong, and why."""

    kind: Literal["language", "swapped", "shifted", "unrelated"]
    corpus: str
    files: list[str]
    message: str
    figures: dict[str, float]


class Manifest(_Record):
    settings: dict[str, Any]
    versions: dict[str, str]
    files: list[FileRecord]
    corpora: list[CorpusRecord]
    sets: list[SetRecord]
    vocab: VocabRecord
    findings: list[Finding] = []

    def bitext(self, source: str, target: str) -> CorpusRecord | None:
        return self._corpus("bitext", {f"{source}-{target}", f"{target}-{source}"})

    def mono(self, language: str) -> CorpusRecord | None:
        return self._corpus("mono", {language})

    def _corpus(self, kind: str, names: set[str]) -> CorpusRecord | None:
        return next((one for one in self.corpora if one.kind == kind and one.name in names), None)

    def save(self, path: Path) -> None:
        text = json.dumps(with_checksum(self.model_dump(mode="json")), indent=1, ensure_ascii=False) + "\n"
        with replacing(path) as file:
            file.write(text.encode())

    @classmethod
    def load(cls, path: Path) -> Manifest:
        fix = "Delete it and run `loopmt prepare` again: it is made anew from the text."
        try:
            return cls.model_validate(read_checked(path, fix))
        except ValidationError as error:
            first = error.errors()[0]
            what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise DamagedError(f"{path} is not a manifest: {what}. {fix}") from None
