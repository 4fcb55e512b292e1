"""Translations of test sets, kept in the folder of their stage, so that no test set is translated twice.

RUN/stages/NAME/translations/DIGEST-beam4/SET/en-fr.CHECKSUM.txt

DIGEST names the stage's weights, CHECKSUM the sources and the translations. A file's name identifies its content, and
it is written under another name and renamed. So evaluations need no lock: they may run at the same time, on several
machines and during training. Folders of other weights and of other searches stay; they may be deleted at any time.

RUN/stages/NAME/translations/{made.json, SET/en-fr.txt}     written by older versions, still read
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from loopmt.errors import DamagedError
from loopmt.files.regular import has_file, make_subfolder, read_text, subfolder
from loopmt.progress import Progress
from loopmt.run import Run, read_json, write_text
from loopmt.workflow.measures import TestPath
from loopmt.workflow.models import check_unchanged
from loopmt.workflow.translate import Translator, load


@dataclass(frozen=True)
class TestPairs:
    """One direction of one test set, or a way through other languages, as text."""

    test: TestPath
    sources: list[str]
    references: list[str]


@dataclass
class KeptTranslations:
    """The translations of one stage by one search; the digest identifies the weights."""

    run: Run
    stage: str
    beam: int
    digest: str
    _loaded: Translator | None = field(default=None, repr=False)

    @classmethod
    def of(cls, run: Run, stage: str, beam: int) -> KeptTranslations:
        return cls(run, stage, beam, run.stage(stage).result_digest())

    @property
    def folder(self) -> Path:
        return subfolder(self._all, f"{self.digest[:16]}-beam{self.beam}")

    @property
    def _all(self) -> Path:
        return subfolder(self.run.stage(self.stage).folder, "translations")

    def translate(self, pairs: Sequence[TestPairs], progress: Progress) -> list[list[str]]:
        """The translations of each test; missing ones are made."""
        found = []
        with progress.track(f"translating with {self.stage}", sum(len(one.sources) for one in pairs)) as advance:
            for one in pairs:
                kept = self.read(one)
                found.append(self._make(one) if kept is None else kept)
                advance(len(one.sources))
        return found

    def complete(self, pairs: Sequence[TestPairs]) -> list[TestPairs]:
        """Tests with stored translations. Empty if a direction is missing: the mean would be of other directions."""
        there = [one for one in pairs if self.read(one) is not None]
        return there if all(one in there for one in pairs if one.test.direct) else []

    def check_unchanged(self) -> None:
        check_unchanged(self.run, self.stage, self.digest)

    # -- files -----------------------------------------------------------------------------------------------

    def read(self, pairs: TestPairs) -> list[str] | None:
        """The stored translations if they are complete; otherwise None, with a warning if there was a file."""
        folder, name = subfolder(self.folder, folder_name(pairs.test.name)), _name(pairs.test)
        files = sorted(folder.glob(f"{name}.*.txt"))
        for file in files:
            translations = _lines(file)
            if translations is not None and file.name == f"{name}.{_checksum(pairs.sources, translations)}.txt":
                return translations
        if files:
            _warn(files[0], "its checksum does not fit")
        return self._read_older(pairs)

    def _read_older(self, pairs: TestPairs) -> list[str] | None:
        """Older versions stored the translations of one search, without a checksum."""
        try:
            made_with = read_json(self._all / "made.json")
        except DamagedError:
            return None
        file = subfolder(self._all, folder_name(pairs.test.name)) / f"{_name(pairs.test)}.txt"
        if made_with != {"result": self.digest, "beam": self.beam} or not has_file(file):
            return None
        translations = _lines(file)
        if translations is None or len(translations) != len(pairs.sources):
            _warn(file, f"it is not {len(pairs.sources)} lines of UTF-8")
            return None
        return translations

    def _make(self, pairs: TestPairs) -> list[str]:
        if self._loaded is None:
            self._loaded = load(self.run.folder, self.stage)
            self.check_unchanged()
        translations = self._loaded.translate(pairs.sources, str(pairs.test.path), self.beam)
        self.keep(pairs, translations)
        return translations

    def keep(self, pairs: TestPairs, translations: Sequence[str]) -> None:
        folder = make_subfolder(self._all, self.folder.name, folder_name(pairs.test.name))
        file = folder / f"{_name(pairs.test)}.{_checksum(pairs.sources, translations)}.txt"
        write_text(file, "".join(f"{line}\n" for line in translations))


def _name(test: TestPath) -> str:
    return "-".join(test.path.languages)


def _checksum(sources: Sequence[str], translations: Sequence[str]) -> str:
    text = "\n".join(sources) + "\0" + "\n".join(translations)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lines(file: Path) -> list[str] | None:
    """The lines of the file; None if it is not readable text."""
    try:
        return read_text(file).split("\n")[:-1]
    except (OSError, DamagedError):
        return None


def _warn(file: Path, why: str) -> None:
    warnings.warn(f"{file} was edited or damaged ({why}). It is not used: the text is translated again.", stacklevel=2)


def folder_name(test: str) -> str:
    """A safe folder name for a test set, whose own name may be any text."""
    name = quote(test, safe=" ")
    return name if name.strip(".") else name.replace(".", "%2E")
