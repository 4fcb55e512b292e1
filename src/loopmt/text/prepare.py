"""Prepares text: cleans it, learns the vocabulary and writes the token store, completely or not at all."""

from __future__ import annotations

import errno
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain, permutations
from pathlib import Path
from typing import Any

from loopmt.config import Data, VocabConfig
from loopmt.errors import DamagedError, DataError, RunError, listed
from loopmt.progress import Progress, Silent
from loopmt.text.checks import check_texts, refuse_findings
from loopmt.text.clean import Cleaner, Form, text_hash
from loopmt.text.corpus import CorpusReader, Source, blocks
from loopmt.text.files import HashedFile
from loopmt.text.format import FORMATS
from loopmt.text.inputs import Inputs, as_files, draw
from loopmt.text.line_sample import LineSample
from loopmt.text.manifest import CorpusRecord, FileRecord, Finding, Manifest, SetRecord, VocabRecord
from loopmt.text.parallel import default_jobs
from loopmt.text.passes import CleanText, PassCounts, Raw, clean, encode
from loopmt.text.store import Store, StoreWriter
from loopmt.text.vocab import Vocab

_WORTH_PROCESSES = 16 * 2**20
_WORTH_MOSES = 2**20  # Moses tokenisation is some twenty times slower than the rest


def prepare(
    data: Data,
    vocab: VocabConfig,
    languages: Sequence[str],
    seed: int,
    experiment_folder: Path,
    run_folder: Path,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> Manifest:
    """Write `run_folder/{manifest.json, vocab/, store/}`; if they exist and nothing changed, do nothing."""
    settings = settings_of(data, vocab, languages, seed)
    files = as_files(data)
    root = run_folder / "corpora" if data.world else experiment_folder / (data.root or "")
    progress = progress or Silent()
    if manifest := prepared(run_folder, settings, files, root, languages, progress.say):
        if data.strict:
            refuse_findings(manifest.findings)
        return manifest
    with scratch_folder(run_folder) as scratch:
        if data.world:
            draw(data, root, scratch, languages, seed, progress)
        inputs = Inputs(files, root, languages)
        for source in inputs.sources():
            FORMATS.find(source.format)  # a reader that cannot be imported is refused before any work
        worth = inputs.size() > (_WORTH_MOSES if data.pretokenize else _WORTH_PROCESSES)
        jobs = jobs or (default_jobs() if worth else 1)
        work = _Work(inputs, files, vocab, languages, seed, scratch, progress, jobs)
        manifest = work.run(settings)
        install(scratch, run_folder)
    return manifest


def lacks(sets: Sequence[SetRecord], languages: Sequence[str]) -> list[str]:
    """Languages that multi-way sets lack. That is allowed, but a file may have been forgotten."""
    return [lack for record in sets if not record.pair and (lack := _lack(record, languages))]


def _lack(record: SetRecord, languages: Sequence[str]) -> str:
    absent = [language for language in languages if language not in record.languages]
    if not absent:
        return ""
    unheard = [f"{one}>{other}" for one, other in permutations(languages, 2) if one in absent or other in absent]
    what = "validated" if record.name == "valid" else "tested by it"
    return f"the set {record.name} ({record.reference}) has no {', '.join(absent)}: {listed(unheard)} are not {what}"


@dataclass(frozen=True)
class _Work:
    """One preparation: its input, its settings, and the folder that it writes to."""

    inputs: Inputs
    data: Data
    vocab: VocabConfig
    languages: Sequence[str]
    seed: int
    scratch: Path
    progress: Progress
    jobs: int
    sha256: dict[Path, str] = field(default_factory=dict)
    samples: list[LineSample] = field(default_factory=list)

    @property
    def form(self) -> Form:
        return Form.of(self.data)

    def run(self, settings: dict[str, Any]) -> Manifest:
        store = StoreWriter(self.scratch / "store")
        sets, held = self._read_sets(store)
        texts = self._clean(held)
        findings = self._check()
        vocab = self._learn(texts)
        tallies = self._encode(texts, vocab, store)
        store.close()
        manifest = Manifest(
            settings=settings,
            versions={name: version(name) for name in ("loopmt", "sentencepiece", "numpy")},
            files=self._file_records(),
            corpora=[_corpus_record(text, sides) for text, sides in zip(texts, tallies, strict=True)],
            sets=sets,
            vocab=_vocab_record(vocab, self.vocab),
            findings=findings,
        )
        manifest.save(self.scratch / "manifest.json")
        return manifest

    def _read_sets(self, store: StoreWriter) -> tuple[list[SetRecord], dict[str, frozenset[int]]]:
        """Validation and test text keeps all rows and its case; the hashes are of its form in training."""
        form = self.form
        records = []
        held: dict[str, set[int]] = {language: set() for language in self.languages}
        for name, pair, source in self.inputs.sets:
            texts = self._read_set(name, source)
            store.add_set(name, pair, texts)
            for language, lines in texts.items():
                held[language].update(text_hash(text) for line in lines if (text := form.normalise(line)))
            rows = len(texts[source.languages[0]])
            records.append(SetRecord(name=name, pair=pair, languages=[*texts], reference=source.reference, rows=rows))
        return records, {language: frozenset(hashes) for language, hashes in held.items()}

    def _read_set(self, name: str, source: Source) -> dict[str, list[str]]:
        normalise = self.form.cased().normalise
        texts: dict[str, list[str]] = {language: [] for language in source.languages}
        with CorpusReader(source) as reading:
            sample = LineSample("valid" if name == "valid" else "test", name, source)
            self.samples.append(sample)
            for block in blocks(reading, 0):
                sample.add(block)
                for language, lines in zip(source.languages, block.texts(), strict=True):
                    texts[language] += [normalise(line.removesuffix("\r")) for line in lines]
            self.sha256.update(reading.hashes())
        return texts

    def _clean(self, held: dict[str, frozenset[int]]) -> list[CleanText]:
        corpora, rules = self.inputs.corpora, self.data.clean
        cleaner = Cleaner(self.form, rules, held)
        texts = []
        with self.progress.track("cleaning", self.inputs.size()) as advance:
            raw = Raw(corpora, advance)
            for text in clean(raw, self.scratch / "text", cleaner, rules.duplicates, self.jobs):
                self.progress.say(_sentence(text))
                if not text.kept:
                    raise DataError(f"{_sentence(text)}: nothing to train on. Look at the rules in data.clean.")
                texts.append(text)
        self.sha256.update(raw.sha256)
        self.samples[:0] = raw.samples
        return texts

    def _check(self) -> list[Finding]:
        with self.progress.track("checking languages and alignment"):
            findings = check_texts(self.samples)
        if self.data.strict:
            refuse_findings(findings)
        return findings

    def _learn(self, texts: Sequence[CleanText]) -> Vocab:
        by_language = {language: _Lines(texts, language) for language in self.languages}
        with self.progress.track("learning the vocabulary"):
            return Vocab.learn(self.scratch / "vocab", by_language, self.vocab, self.languages, self.seed, self.form)

    def _encode(self, texts: Sequence[CleanText], vocab: Vocab, store: StoreWriter) -> list[list[PassCounts]]:
        with self.progress.track("encoding", sum(text.kept for text in texts)) as advance:
            return list(encode(texts, vocab, store, self.jobs, advance))

    def _file_records(self) -> list[FileRecord]:
        states = {name: (path.stat(), self.sha256[path]) for name, path in self.inputs.files().items()}
        return [
            FileRecord(name=name, size=state.st_size, mtime_ns=state.st_mtime_ns, sha256=sha256)
            for name, (state, sha256) in states.items()
        ]


class _Lines:
    """All clean training text of a language; can be iterated several times."""

    def __init__(self, texts: Sequence[CleanText], language: str) -> None:
        self._texts = [text for text in texts if language in text.corpus.languages]
        self._language = language

    def __len__(self) -> int:
        return sum(text.kept for text in self._texts)

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(text.lines(self._language) for text in self._texts)


def _sentence(text: CleanText) -> str:
    removed = ", ".join(f"{rule} {count:,}" for rule, count in text.removed.items() if count)
    corpus = f"{text.corpus.kind} {text.corpus.name}"
    return f"{corpus}: {text.kept:,} of {text.rows:,} rows kept" + (f" (removed: {removed})" if removed else "")


def _corpus_record(text: CleanText, tallies: Sequence[PassCounts]) -> CorpusRecord:
    corpus = text.corpus
    sides = dict(zip(corpus.languages, tallies, strict=True))
    return CorpusRecord(
        kind=corpus.kind,
        name=corpus.name,
        languages=list(corpus.languages),
        references=[source.reference for source in corpus.sources],
        rows=text.rows,
        removed=dict(text.removed),
        kept=text.kept,
        words={language: side.words for language, side in sides.items()},
        tokens={language: side.tokens for language, side in sides.items()},
        lengths={language: side.lengths for language, side in sides.items()},
    )


def _vocab_record(vocab: Vocab, config: VocabConfig) -> VocabRecord:
    return VocabRecord(
        kind=config.kind,
        joint=vocab.joint,
        asked=config.size,
        sizes={language: vocab.size(language) for language in vocab.languages},
        sha256=vocab.sha256,
    )


_FORMAT = 1
_SCRATCH = "prepare.tmp"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def settings_of(data: Data, vocab: VocabConfig, languages: Sequence[str], seed: int) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "languages": list(languages),
        "seed": seed,
        "data": data.model_dump(mode="json", exclude_defaults=True, exclude={"strict"}),
        "vocab": vocab.model_dump(mode="json", exclude_defaults=True),
    }


def prepared(
    run_folder: Path,
    settings: dict[str, Any],
    data: Data,
    root: Path,
    languages: Sequence[str],
    say: Callable[[str], None] = lambda line: None,
) -> Manifest | None:
    """The manifest, if its files exist and match the present settings; otherwise `say` gets the reason."""
    trained = (run_folder / "stages").exists()
    try:
        manifest = Manifest.load(run_folder / "manifest.json")
    except DamagedError:
        if trained and (run_folder / "manifest.json").exists():
            raise
        return None
    changes = [*_differences(manifest.settings, settings)] or _changed_files(manifest, data, root, languages)
    if not changes:
        return manifest if _whole(run_folder) else None
    if trained:
        raise RunError(
            f"{run_folder} holds stages trained on other data: {'; '.join(changes[:5])}. "
            "Change it back, or give another folder with --run."
        )
    say(f"{run_folder} was prepared otherwise: {'; '.join(changes[:5])}. It is prepared again.")
    return None


def _whole(run_folder: Path) -> bool:
    """Refuse text or subwords that changed on disk."""
    try:
        Vocab.load(run_folder / "vocab")
        Store.open(run_folder / "store").verify()
    except DamagedError as error:
        if (run_folder / "vocab").exists() and (run_folder / "store").exists():
            warnings.warn(f"{error}", stacklevel=2)
        return False
    return True


def _differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            yield from _differences(old.get(name), new.get(name), f"{key}.{name}".lstrip("."))
    elif old != new:
        shown = ["the default" if value is None else f"{value}" for value in (old, new)]
        yield f"{key} was {shown[0]} and is {shown[1]}"


def _changed_files(manifest: Manifest, data: Data, root: Path, languages: Sequence[str]) -> list[str]:
    """Files that changed; deleted ones do not count, because a run is complete without its raw text."""
    known = {record.name: record for record in manifest.files}
    try:
        files = Inputs(data, root, languages).files()
    except DataError:
        files = {name: root / name for name in known if (root / name).is_file()}
    added = [f"{name} is new" for name in files if name not in known]
    return added + [f"{name} has changed" for name in files if name in known and _changed(files[name], known[name])]


def _changed(path: Path, record: FileRecord) -> bool:
    state = path.stat()
    if state.st_size != record.size:
        return True
    if state.st_mtime_ns == record.mtime_ns:
        return False
    with HashedFile(path) as file:
        return file.sha256() != record.sha256


@contextmanager
def scratch_folder(run_folder: Path) -> Iterator[Path]:
    """A folder that is deleted at the end of the block, also after an error."""
    scratch = run_folder / _SCRATCH
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        yield scratch
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise RunError(f"{run_folder} cannot be written: {error}.") from error
        raise RunError(
            f"no room left on the disk of {run_folder} ({error.strerror}); what was half written is removed. "
            "Make room for about four times the size of the text, or give another folder with --run."
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def install(scratch: Path, run_folder: Path) -> None:
    """Remove the manifest first and write it last: without it, nothing counts as prepared."""
    (run_folder / "manifest.json").unlink(missing_ok=True)
    for name in ("vocab", "store"):
        shutil.rmtree(run_folder / name, ignore_errors=True)
        (scratch / name).rename(run_folder / name)
    (scratch / "manifest.json").rename(run_folder / "manifest.json")
