"""Finds the files that the [data] section names. All are found before the first one is read."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from loopmt.config import Data
from loopmt.errors import DataError
from loopmt.progress import Progress
from loopmt.text.corpus import Source, resolve, resolve_set
from loopmt.text.passes import Corpus


class Inputs:
    """Every file of the experiment, found before any is read."""

    def __init__(self, data: Data, root: Path, languages: Sequence[str]) -> None:
        self.root = root
        self.corpora = [
            *(_corpus("bitext", name, files, root, data) for name, files in data.bitext.items()),
            *(_corpus("mono", name, files, root, data) for name, files in data.mono.items()),
        ]
        self.sets = list(_sets(data, root, languages))
        _check_fed(self.corpora, languages)

    def sources(self) -> Iterator[Source]:
        yield from chain.from_iterable(corpus.sources for corpus in self.corpora)
        yield from (source for _, _, source in self.sets)

    def files(self) -> dict[str, Path]:
        paths = chain.from_iterable(source.files for source in self.sources())
        return {_name(path, self.root): path for path in paths}

    def size(self) -> int:
        """Bytes of training text on disk."""
        files = (source.files for corpus in self.corpora for source in corpus.sources)
        return sum(path.stat().st_size for path in chain.from_iterable(files))


def _corpus(kind: str, name: str, references: Sequence[str], root: Path, data: Data) -> Corpus:
    if not references:
        raise DataError(f"data.{kind}.{name} names no file.")
    languages = tuple(name.split("-"))
    with _asked_by(f"data.{kind}.{name}"):
        return Corpus(kind, name, languages, tuple(resolve(one, root, languages, data) for one in references))


@contextmanager
def _asked_by(key: str) -> Iterator[None]:
    """Errors about a file name the key that requested it."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{key}: {error}") from None


def _check_fed(corpora: Sequence[Corpus], languages: Sequence[str]) -> None:
    """Check that every language has text, and that no pair is given twice."""
    names = [corpus.name for corpus in corpora]
    for corpus in corpora:
        reverse = "-".join(reversed(corpus.languages))
        if corpus.kind == "bitext" and reverse in names:
            raise DataError(f"data.bitext has both {corpus.name} and {reverse}: give the files of both under one name.")
    for language in languages:
        if not any(language in corpus.languages for corpus in corpora):
            known = ", ".join(f"{corpus.kind} {corpus.name}" for corpus in corpora)
            raise DataError(
                f"language {language} has no training text; the data has {known}. "
                f"Add data.mono.{language}, add bitext with {language}, or remove it from languages."
            )


def _sets(data: Data, root: Path, languages: Sequence[str]) -> Iterator[tuple[str, str, Source]]:
    """Every valid and test set: its name, its pair ("" if it is multi-way) and its source."""
    if "valid" in data.tests():
        raise DataError('data.test.valid: a test set cannot be called "valid"; give it another name.')
    valid = {} if data.valid is None else {"valid": data.valid}
    for name, given in {**valid, **data.tests()}.items():
        key = "data.valid" if name == "valid" else "data.test" if isinstance(data.test, str) else f"data.test.{name}"
        if isinstance(given, str):
            with _asked_by(key):
                source = resolve_set(given, root, languages, data)
            if len(source.languages) < 2:
                only = f"{source.languages[0]} ({source.files[0]})"
                raise DataError(f"the set '{name}' is in {only} alone: it needs two languages or more.")
            yield name, "", source
        else:
            for pair, one in given.items():
                with _asked_by(f"{key}.{pair}"):
                    source = resolve(one, root, pair.split("-"), data)
                yield name, pair, source


def _name(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


# -- the built-in languages ----------------------------------------------------------------------------------


def as_files(data: Data) -> Data:
    """The [data] section that would read the text of `data.world` from files."""
    if data.world is None:
        return data
    update = {
        "world": None,
        "bitext": {pair: [f"bi.{pair}"] for pair in data.world.pairs},
        "mono": {language: ["mono"] for language in data.world.mono},
        "valid": "valid",
        "test": {"test": "test"},
    }
    return data.model_copy(update=update)


def draw(data: Data, root: Path, scratch: Path, languages: Sequence[str], seed: int, progress: Progress) -> None:
    from loopmt.synthetic import World, write_corpora

    world = data.world
    assert world is not None
    write_corpora(
        scratch / "corpora",
        World(world.size, languages),
        seed if world.seed is None else world.seed,
        pairs=world.pairs,
        mono=world.mono,
        valid=world.valid,
        test=world.test,
        progress=progress,
    )
    shutil.rmtree(root, ignore_errors=True)
    (scratch / "corpora").rename(root)
