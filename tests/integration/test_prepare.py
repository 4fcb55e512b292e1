"""Prepare end to end: what is written, what is counted, when nothing is done, and what is refused."""

from __future__ import annotations

import json
import lzma
import os
import random
import resource
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.facts import lacks, missing, refused
from loopmt.config import Clean, Data, VocabConfig
from loopmt.errors import DamagedError, DataError, RunError
from loopmt.progress import Silent
from loopmt.text.inputs import Inputs
from loopmt.text.manifest import Manifest
from loopmt.text.prepare import prepare
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.workflow.train import TrainOptions, prepare_run

LANGUAGES = ["en", "fr"]
WORDS = {"en": "the cat dog sees a small house and runs home", "fr": "le chat un chien voit la où il court"}


def lines(language: str, count: int, seed: int = 0) -> list[str]:
    draw = random.Random(f"{language} {seed}")
    words = WORDS[language].split()
    return [" ".join([*draw.choices(words, k=12), str(number + 1000 * seed)]) for number in range(count)]


def write(path: Path, rows: list[str]) -> None:
    content = "".join(f"{row}\n" for row in rows).encode()
    path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Bitext of 300, monolingual text of 200, sets of 10, in a folder beside the experiment's."""
    root = tmp_path / "corpora"
    root.mkdir()
    for language in LANGUAGES:
        write(root / f"bi.{language}", lines(language, 300, 1))
        write(root / f"mono.{language}.xz", lines(language, 200, 2))
        write(root / f"valid.{language}", lines(language, 10, 3))
        write(root / f"test.{language}", lines(language, 10, 4))
    return root


def data(**changes: Any) -> Data:
    base = {
        "root": "corpora",
        "bitext": {"en-fr": "bi"},
        "mono": {"en": "mono", "fr": "mono"},
        "valid": "valid",
        "test": {"news": "test"},
    }
    return Data.model_validate({**base, **changes})


def run(corpora: Path, given: Data | None = None, name: str = "run", **options: Any) -> tuple[Manifest, Path]:
    folder = corpora.parent / name
    size = VocabConfig(size=options.pop("size", 340))
    return prepare(given or data(), size, LANGUAGES, 1, corpora.parent, folder, **options), folder


def refusal(corpora: Path, given: Data | None = None, **options: Any) -> str:
    with pytest.raises((DataError, RunError)) as error:
        run(corpora, given, **options)
    assert not (corpora.parent / "run" / "prepare.tmp").exists()
    return str(error.value)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- what is written -----------------------------------------------------------------------------------------


class RecordedLines(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_a_set_that_lacks_a_language_says_so_every_time(tiny_experiment_file: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_experiment_file.parent, tmp_path / "tiny")
    for name in ("valid", "test"):
        (folder / "text" / f"{name}.es").unlink()
    for _ in range(2):
        said = RecordedLines()
        prepare_run(TrainOptions(folder / tiny_experiment_file.name, tmp_path / "run"), said)
        unheard = "has no es: en>es, fr>es, es>en, es>fr are not"
        assert [line for line in said.lines if "has no" in line] == [
            f"the set valid (valid) {unheard} validated",
            f"the set test (test) {unheard} tested by it",
        ]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"bitext": {"en-fr": "none"}}, "data.bitext.en-fr"),
        ({"mono": {"en": "none"}}, "data.mono.en"),
        ({"valid": "none"}, "data.valid"),
        ({"test": "none"}, "data.test"),
        ({"test": {"flickr": "none"}}, "data.test.flickr"),
        ({"test": {"flickr": {"en-fr": "none"}}}, "data.test.flickr.en-fr"),
    ],
)
def test_missing_text_is_told_with_its_key(changes: dict[str, Any], key: str, corpora: Path) -> None:
    with pytest.raises(DataError) as caught:
        Inputs(data(**changes), corpora, LANGUAGES)
    assert str(caught.value).startswith(f"{key}: there is no {corpora}/none.en (nor .gz, .xz, .zst). In {corpora} ")


def test_everything_is_there(corpora: Path) -> None:
    manifest, folder = run(corpora)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "store", "vocab"]
    store, vocab = Store.open(folder / "store"), Vocab.load(folder / "vocab")
    store.verify()
    for language, side in zip(LANGUAGES, store.bitext("en", "fr"), strict=True):
        assert vocab.decode(side.rows(np.arange(300)), language) == lines(language, 300, 1)
        assert vocab.decode(store.mono(language).rows(np.arange(200)), language) == lines(language, 200, 2)
        assert store.texts("news", language) == lines(language, 10, 4)
    assert Manifest.load(folder / "manifest.json") == manifest


def test_the_manifest_counts(corpora: Path) -> None:
    manifest, folder = run(corpora)
    store = Store.open(folder / "store")
    bitext = manifest.bitext("fr", "en")
    assert bitext is not None and bitext == manifest.bitext("en", "fr")
    assert (bitext.rows, bitext.kept, set(bitext.removed.values())) == (300, 300, {0})
    assert bitext.words == {"en": 300 * 13, "fr": 300 * 13}
    english = store.bitext("en", "fr")[0]
    assert bitext.tokens["en"] == int(english.lengths().sum())
    assert bitext.lengths["en"] == np.bincount(english.lengths(), minlength=513).tolist()
    mono = manifest.mono("fr")
    assert mono is not None and mono.references == ["mono"] and mono.kept == 200
    assert manifest.mono("es") is None
    assert [(one.name, one.pair, one.rows) for one in manifest.sets] == [("valid", "", 10), ("news", "", 10)]
    files = {record.name: record for record in manifest.files}
    assert len(files) == 8 and files["mono.fr.xz"].size == (corpora / "mono.fr.xz").stat().st_size
    assert manifest.vocab.sizes == {"en": 340, "fr": 340}


def test_every_rule_is_counted_once(corpora: Path) -> None:
    english, french = lines("en", 300, 1), lines("fr", 300, 1)
    english[0], french[0] = "", "seul"
    english[1] = french[1] = "copy"
    english[2] = lines("en", 10, 3)[5]
    french[3] = " " + lines("fr", 10, 4)[5].replace(" ", "\u00a0")
    english[4] = "cat " * 201
    french[5] = "x" * 2001
    english[6] = "one"
    french[6] = "un " * 11
    for row in (7, 8):
        english[row], french[row] = english[100], french[100]
    english[9] = english[100]
    write(corpora / "bi.en", english)
    write(corpora / "bi.fr", french)
    manifest, folder = run(corpora)
    bitext = manifest.bitext("en", "fr")
    assert bitext is not None
    once = dict.fromkeys(("empty", "identical", "max_words", "max_characters", "ratio"), 1)
    assert bitext.removed == {**once, "overlap": 2, "duplicates": 2} and bitext.kept == 291
    side = Store.open(folder / "store").bitext("en", "fr")[0]
    kept = Vocab.load(folder / "vocab").decode(side.rows(np.arange(len(side))), "en")
    assert kept == [english[7], english[9], *english[10:100], *english[101:]]

    off = Clean(
        empty=False, identical=False, overlap=False, max_words=None, max_characters=None, ratio=None, duplicates=False
    )
    bitext = run(corpora, data(clean=off), name="off")[0].bitext("en", "fr")
    assert bitext is not None and bitext.removed == {} and bitext.kept == 300


def test_sets_lose_no_row(corpora: Path) -> None:
    write(corpora / "test.en", ["", "Same", "Same", "cafe\u0301\u200b  X\r", *["y" * 5000] * 6])
    store = Store.open(run(corpora, data(lowercase=True))[1] / "store")
    assert store.texts("news", "en") == ["", "Same", "Same", "café X", *["y" * 5000] * 6]


def test_sets_by_pair_and_of_some_languages(corpora: Path) -> None:
    (corpora / "pair.tsv").write_text("un\tone\ndeux\ttwo\n")
    given = data(valid={"fr-en": "pair.tsv"}, test={"a": "test[2:4]", "b": {"en-fr": "valid"}})
    store = Store.open(run(corpora, given)[1] / "store")
    assert store.pair_texts("valid", "en", "fr") == (["one", "two"], ["un", "deux"])
    assert store.texts("a", "fr") == lines("fr", 10, 4)[2:4]
    assert store.tests == ["a", "b"]


def test_references_concatenate_and_formats_mix(corpora: Path) -> None:
    (corpora / "more.tsv").write_text("one more\tun de plus\n")
    (corpora / "memory.tmx").write_text(
        '<tmx><body><tu><tuv xml:lang="fr"><seg>mémoire</seg></tuv>'
        '<tuv xml:lang="en-US"><seg>memory</seg></tuv></tu></body></tmx>'
    )
    manifest, folder = run(corpora, data(bitext={"en-fr": ["bi[:5]", "more.tsv", "memory.tmx", "bi[290:]"]}))
    english, french = Store.open(folder / "store").bitext("en", "fr")
    vocab = Vocab.load(folder / "vocab")
    assert vocab.decode(french.rows(np.arange(5, 7)), "fr") == ["un de plus", "mémoire"]
    assert len(english) == 17
    assert {"more.tsv", "memory.tmx", "bi.en"} <= {record.name for record in manifest.files}


@pytest.mark.parametrize("sharing", ["joint", "language"])
def test_moses_and_lower_case(corpora: Path, sharing: str) -> None:
    write(corpora / "bi.en", [f"The Cat's house, number {number}." for number in range(300)])
    folder = corpora.parent / "run"
    config = VocabConfig.model_validate({"size": 340, "sharing": sharing})
    prepare(data(pretokenize=True, lowercase=True), config, LANGUAGES, 1, corpora.parent, folder)
    store, vocab = Store.open(folder / "store"), Vocab.load(folder / "vocab")
    assert vocab.decode(store.bitext("en", "fr")[0].rows(np.arange(1)), "en") == ["the cat's house, number 0."]
    assert vocab.normalise(["The Cat's house, number 0."], "en") == ["the cat 's house , number 0 ."]


def test_two_processes_write_what_one_writes(corpora: Path) -> None:
    for language in LANGUAGES:
        write(corpora / f"bi.{language}", lines(language, 9000, 1))
    folders = [run(corpora, name=f"jobs{jobs}", jobs=jobs)[1] for jobs in (1, 2)]
    assert content(folders[0]) == content(folders[1])


def test_an_error_in_another_process_is_the_same_sentence(corpora: Path) -> None:
    (corpora / "bi.en").write_bytes(b"fine\n" * 5000 + b"\xff\n")
    (corpora / "bi.fr").write_bytes(b"bien\n" * 5001)
    assert "bi.en, line 5001 is not UTF-8 (byte 0xff)" in refusal(corpora, jobs=2)


def test_built_in_languages(tmp_path: Path) -> None:
    given = Data.model_validate({"world": {"pairs": {"en-fr": 60}, "mono": {"en": 80}, "valid": 7, "test": 9}})
    for _ in range(2):
        manifest = prepare(given, VocabConfig(size=400), LANGUAGES, 1, tmp_path, tmp_path / "run")
        bitext = manifest.bitext("en", "fr")
        assert bitext is not None and bitext.rows == 60 and bitext.kept > 0
    store = Store.open(tmp_path / "run" / "store")
    assert (len(store.texts("valid", "fr")), len(store.texts("test", "en"))) == (7, 9)
    assert (tmp_path / "run" / "corpora" / "bi.en-fr.en").exists()


# -- again ---------------------------------------------------------------------------------------------------


def test_a_second_call_does_nothing(corpora: Path) -> None:
    manifest, folder = run(corpora)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run(corpora)[0] == manifest
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_touched_or_moved_text_has_not_changed(corpora: Path) -> None:
    manifest, _ = run(corpora)
    os.utime(corpora / "bi.en", (1, 1))
    assert run(corpora)[0] == manifest
    shutil.rmtree(corpora)
    assert run(corpora)[0] == manifest


def test_changes_are_prepared_again_until_something_is_trained(corpora: Path) -> None:
    first, folder = run(corpora)
    write(corpora / "bi.en", lines("en", 300, 9))
    second, _ = run(corpora)
    assert second != first and run(corpora)[0] == second
    assert run(corpora, size=345)[0].vocab.asked == 345
    (folder / "stages").mkdir()
    message = refusal(corpora, data(clean=Clean(ratio=3)), size=350)
    assert not missing(message, "stages", "data.clean was the default and is")
    assert "vocab.size was 345 and is 350" in message and "give another folder with --run" in message
    write(corpora / "bi.fr", [*lines("fr", 299, 9), "autre"])
    assert "bi.fr has changed" in refusal(corpora, size=345)
    write(corpora / "bi.fr", lines("fr", 300, 1))
    assert run(corpora, size=345)[0].vocab.asked == 345


def test_what_is_missing_from_the_run_is_made_again(corpora: Path) -> None:
    manifest, folder = run(corpora)
    before = content(folder)
    (folder / "stages").mkdir()
    shutil.rmtree(folder / "store")
    assert run(corpora)[0] == manifest
    assert content(folder) == before


def test_a_damaged_manifest(corpora: Path) -> None:
    manifest, folder = run(corpora)
    (folder / "manifest.json").write_text(json.dumps({"settings": {}}))
    assert run(corpora)[0] == manifest
    (folder / "manifest.json").write_text("{")
    (folder / "stages").mkdir()
    with refused(DamagedError, "manifest.json", "Delete it", "`loopmt prepare`"):
        run(corpora)


def test_a_failure_leaves_what_was_there(corpora: Path) -> None:
    _, folder = run(corpora)
    before = content(folder)
    (corpora / "bi.en").write_bytes(b"\xff\n" * 300)
    assert "bi.en, line 1 is not UTF-8" in refusal(corpora)
    assert content(folder) == before


def test_leftovers_of_a_killed_call_are_removed(corpora: Path) -> None:
    scratch = corpora.parent / "run" / "prepare.tmp" / "store"
    scratch.mkdir(parents=True)
    (scratch / "en.tokens").write_text("half")
    _, folder = run(corpora)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "store", "vocab"]


# -- refusals ------------------------------------------------------------------------------------------------


def test_refusals(corpora: Path) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"mono": {"en": "mono"}, "bitext": {}}, "language fr has no training text; the data has mono en."),
        ({"bitext": {"en-fr": "bi", "fr-en": "bi"}}, "has both en-fr and fr-en"),
        ({"bitext": {"en-fr": []}}, "data.bitext.en-fr names no file"),
        ({"bitext": {"en-fr": "bo"}}, "there is no"),
        ({"valid": "walid"}, "walid.en (nor .gz, .xz, .zst)"),
        ({"test": {"valid": "test"}}, "a test set cannot be called"),
        ({"clean": Clean(max_words=1)}, "0 of 300 rows kept (removed: max_words 300): nothing to train on"),
    ]
    for changes, sentence in table:
        assert not lacks(refusal(corpora, data(**changes)), sentence)
    assert "vocab.size = 100 is too small" in refusal(corpora, size=100)
    write(corpora / "valid.fr", ["short"])
    assert "has 10 lines" in refusal(corpora)
    (corpora / "valid.fr").unlink()
    assert f"the set 'valid' is in en ({corpora}/valid.en) alone" in refusal(corpora)


def test_a_run_folder_that_cannot_be_written(corpora: Path) -> None:
    (corpora.parent / "run").write_text("a file")
    with pytest.raises(RunError, match="run cannot be written: "):
        run(corpora)


def test_odd_text_goes_through(corpora: Path) -> None:
    odd = ["\u202eabc\u202c", "a\x00b", "x" * 2**20, "👩\u200d🚀 ▁ ▅", "\ufeff\u200b", "a\u2028b\x85", "\x1b[3m", "q\r"]
    write(corpora / "bi.en", odd)
    write(corpora / "bi.fr", [f"numéro {number}" for number in range(8)])
    bitext = run(corpora)[0].bitext("en", "fr")
    assert bitext is not None and (bitext.rows, bitext.kept) == (8, 6)
    assert (bitext.removed["empty"], bitext.removed["max_characters"]) == (1, 1)
    everything = Clean(nfc=False, control=False, empty=False, max_characters=None, ratio=None)
    _, folder = run(corpora, data(clean=everything), name="raw")
    side = Store.open(folder / "store").bitext("en", "fr")[0]
    assert Vocab.load(folder / "vocab").decode(side.rows(np.arange(8)), "en") == [*odd[:7], "q"]


# -- resources -----------------------------------------------------------------------------------------------

SCRIPT = """
import json, resource, sys
from pathlib import Path
from loopmt.config import Data, VocabConfig
from loopmt.errors import LoopmtError
from loopmt.text.prepare import prepare

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
data = Data(bitext={"en-fr": ["bi"]}, valid="valid")
try:
    prepare(data, VocabConfig(size=340, sample=500), ["en", "fr"], 1, folder, folder / "run", jobs=1)
except LoopmtError as error:
    print(json.dumps({"error": str(error)}))
else:
    print(json.dumps({"kilobytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))
"""


def measured(folder: Path, rows: int, limit: int = 0) -> dict[str, Any]:
    folder.mkdir()
    for language in LANGUAGES:
        write(folder / f"bi.{language}", lines(language, rows))
        write(folder / f"valid.{language}", lines(language, 5, 99))
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    small, large = (measured(tmp_path / str(rows), rows)["kilobytes"] for rows in (15_000, 60_000))
    assert large < 1.1 * small


def test_a_full_disk_is_a_sentence_and_nothing_is_left(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    message = measured(tmp_path / "full", 5000, limit=200_000)["error"]
    assert "no room left on the disk of" in message and "--run" in message
    assert list((tmp_path / "full" / "run").iterdir()) == []
