"""Reading files of every format, the sentences for those that cannot be read, and the cleaning rules."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import subprocess
import sys
import tracemalloc
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stress.checks import limited

from helpers.compressed import COMPRESS
from helpers.facts import lacks, missing
from loopmt.config import Clean
from loopmt.errors import DataError, MissingExtraError
from loopmt.text import files
from loopmt.text.clean import Cleaner, Form, Partitions, text_hash
from loopmt.text.corpus import CorpusReader, LineBlock, blocks, resolve, resolve_set
from loopmt.text.files import HashedFile
from loopmt.text.tmx import units


def read(root: Path, reference: str, *languages: str) -> list[tuple[str, ...]]:
    with CorpusReader(resolve(reference, root, languages)) as reading:
        return [row for block in blocks(reading, 0) for row in zip(*block.texts(), strict=True)]


def refusal(root: Path, reference: str, *languages: str) -> str:
    with pytest.raises(DataError) as error:
        read(root, reference, *languages)
    return str(error.value)


# -- formats -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", COMPRESS)
def test_reads_every_compression_and_hashes_the_file_as_it_lies(tmp_path: Path, ending: str) -> None:
    content = "".join(f"línea {number}\n" for number in range(9000)).encode()
    (tmp_path / f"mono.es{ending}").write_bytes(COMPRESS[ending](content))
    with CorpusReader(resolve("mono[8999:]", tmp_path, ["es"])) as reading:
        assert list(reading) == [("línea 8999".encode(),)]
        (path, sha256), *_ = reading.hashes().items()
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert len(read(tmp_path, "mono", "es")) == 9000


def test_several_zstd_frames_are_one_text(tmp_path: Path) -> None:
    (tmp_path / "mono.en.zst").write_bytes(COMPRESS[".zst"](b"one\ntw") + COMPRESS[".zst"](b"o\n"))
    assert read(tmp_path, "mono", "en") == [("one",), ("two",)]


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    odd = "a\u2028b\x0bc\x85d\x00e\x0cf\x1cg\rh"
    (tmp_path / "mono.en").write_text(f"\ufeff{odd}\r\n\nlast", encoding="utf-8", newline="")
    assert read(tmp_path, "mono", "en") == [(odd + "\r",), ("",), ("last",)]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_called_by_its_name(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "bi.en").write_bytes("\ufeffone\ntwo\nĊ\n".encode(encoding))  # the last letter has a byte 0x0a
    (tmp_path / "bi.fr").write_text("un\ndeux\ntrois\n", encoding="utf-8")
    assert refusal(tmp_path, "bi", "en", "fr") == (
        f"{tmp_path / 'bi.en'} is UTF-16. Convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW."
    )
    with pytest.raises(DataError, match=r"bi\.en is UTF-16"), (tmp_path / "bi.en").open("rb") as stream:
        list(files.read_stream(stream, "bi.en"))


@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\ufeff")), min_size=1))
def test_no_line_is_lost_or_split(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    root = tmp_path_factory.mktemp("lines")
    (root / "mono.en").write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert read(root, "mono", "en") == [(line,) for line in lines]


def test_rows_in_a_range(tmp_path: Path) -> None:
    for language in ("en", "fr"):
        (tmp_path / f"bi.{language}").write_text("".join(f"{language}{n}\n" for n in range(5)))
    table = {"bi[1:3]": [1, 2], "bi[:2]": [0, 1], "bi[3:]": [3, 4], "bi[:]": [0, 1, 2, 3, 4]}
    for reference, expected in table.items():
        assert read(tmp_path, reference, "en", "fr") == [(f"en{n}", f"fr{n}") for n in expected]


@pytest.mark.parametrize("ending", [".gz", ""])
def test_tsv_has_the_columns_of_the_pair(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"bi.tsv{ending}").write_bytes(COMPRESS[ending](b"one\tun\r\ntwo\tdeux\n"))
    assert read(tmp_path, f"bi.tsv{ending}", "en", "fr") == [("one", "un\r"), ("two", "deux")]


TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="EN-gb"><seg>one <bpt i="1">&lt;b&gt;</bpt><hi>big</hi> thing</seg></tuv>
    <tuv xml:lang="fr"><seg>une
chose</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>no French</seg></tuv><tuv xml:lang="frp"><seg>x</seg></tuv></tu>
<tu><tuv lang="fr-CA"><seg>deux</seg></tuv><tuv lang="en"><seg>two</seg></tuv></tu>
</body></tmx>"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_tmx_gives_the_units_with_both_languages(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "memory.tmx.xz").write_bytes(lzma.compress(TMX.encode(encoding)))
    assert read(tmp_path, "memory.tmx.xz", "en", "fr") == [("one big thing", "une chose"), ("two", "deux")]
    assert read(tmp_path, "memory.tmx.xz[1:]", "fr", "en") == [("deux", "two")]


@pytest.mark.parametrize(
    "root", ['<tmx xmlns="http://www.lisa.org/tmx14"', '<t:tmx xmlns:t="http://www.lisa.org/tmx14"']
)
def test_tmx_may_have_a_namespace(tmp_path: Path, root: str) -> None:
    text = TMX.replace("<tmx", root)
    if "t:tmx" in root:
        text = re.sub(r"<(/?)(tmx|tuv|tu|seg|bpt|hi|body|header)\b", r"<\1t:\2", TMX).replace("<t:tmx", root)
    (tmp_path / "memory.tmx").write_text(text)
    assert read(tmp_path, "memory.tmx", "en", "fr") == [("one big thing", "une chose"), ("two", "deux")]


def test_tmx_prefers_the_language_to_its_regions(tmp_path: Path) -> None:
    variants = "".join(f'<tuv xml:lang="{code}"><seg>{code}</seg></tuv>' for code in ("en-GB", "en", "en-US", "fr-CA"))
    (tmp_path / "memory.tmx").write_text(f"<tmx><body><tu>{variants}</tu></body></tmx>")
    assert read(tmp_path, "memory.tmx", "en", "fr") == [("en", "fr-CA")]
    assert read(tmp_path, "memory.tmx", "en_US", "fr") == [("en-US", "fr-CA")]


def test_a_multi_way_set_has_the_languages_that_have_files(tmp_path: Path) -> None:
    for language in ("en", "de"):
        (tmp_path / f"valid.{language}").write_text("x\n")
    assert resolve_set("valid", tmp_path, ["de", "fr", "en"]).languages == ("de", "en")


def test_blocks_are_bounded_by_rows_and_by_bytes(tmp_path: Path) -> None:
    lines = ["short\n"] * 5000 + ["x" * 2**21 + "\n"] * 6
    (tmp_path / "mono.en").write_text("".join(lines))
    with CorpusReader(resolve("mono", tmp_path, ["en"])) as reading:
        sizes = [(block.first, len(block.texts()[0])) for block in blocks(reading, 0)]
    assert sizes == [(0, 4096), (4096, 906), (5002, 2), (5004, 2)]


def test_tmx_of_any_size_takes_little_memory(tmp_path: Path) -> None:
    """Neither units nor what lies between them are kept."""
    unit = '<tu><prop>x</prop><tuv xml:lang="en"><seg>one</seg></tuv></tu><note/>'
    (tmp_path / "many.tmx").write_text(f"<tmx><body>{unit * 20_000}</body></tmx>")
    tracemalloc.start()
    with HashedFile(tmp_path / "many.tmx") as raw:
        assert sum(1 for _ in units(raw.content(), "many.tmx", ["en"])) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("<tmx><body><tu>" + "<hi>" * 200_000, "nested more than 100 deep"),
        ('<tmx><body><tu><tuv xml:lang="en"><seg>' + "<hi>" * 90 + "a" * 2**23, "more than 4 MiB without the end"),
        ("<tmx><header>" + "<note/>" * 2**20, "more than 4 MiB without the end"),
    ],
)
def test_tmx_has_limits(tmp_path: Path, text: str, limit: str) -> None:
    (tmp_path / "m.tmx").write_text(text)
    with limited(20):
        message = refusal(tmp_path, "m.tmx", "en")
    assert f"{tmp_path}/m.tmx" in message and limit in message


# -- sentences -----------------------------------------------------------------------------------------------


def test_files_of_different_length(tmp_path: Path) -> None:
    (tmp_path / "bi.en").write_text("a\nb\nc\nd\n")
    (tmp_path / "bi.fr").write_text("a\nb\n")
    message = refusal(tmp_path, "bi", "en", "fr")
    assert not missing(message, f"{tmp_path}/bi.en has 4 lines", f"{tmp_path}/bi.fr has 2 lines", "line 3")
    assert read(tmp_path, "bi[:2]", "en", "fr") == [("a", "a"), ("b", "b")]


RUBBISH = [b"caf\xe9", b"\xff\xfea\x00", b"\xed\xa0\x80", b"\xc0\x80", bytes(range(128, 256))]


@pytest.mark.parametrize("rubbish", RUBBISH)
def test_what_is_not_utf8_is_named_with_its_line(tmp_path: Path, rubbish: bytes) -> None:
    (tmp_path / "mono.en").write_bytes(b"fine\n" * 5000 + rubbish + b"\nfine\n")
    assert f"{tmp_path}/mono.en, line 5001 is not UTF-8 (byte 0x" in refusal(tmp_path, "mono", "en")
    assert "line 5001" in refusal(tmp_path, "mono[4990:]", "en")
    (tmp_path / "bi.tsv").write_bytes(b"one\tun\ntwo\t" + rubbish.replace(b"\t", b"") + b"\n")
    assert "bi.tsv, line 2 is not UTF-8" in refusal(tmp_path, "bi.tsv", "en", "fr")


def test_missing_files_say_what_exists(tmp_path: Path) -> None:
    (tmp_path / "train.en.gz").write_bytes(gzip.compress(b"x\n"))
    message = refusal(tmp_path, "train", "en", "fr")
    assert not missing(message, f"{tmp_path}/train.fr", ".gz, .xz, .zst", "train.en.gz")
    root = f"Names begin at {tmp_path}: that is data.root, or the experiment file's folder where it is not set."
    assert f"In {tmp_path} there is: train.en.gz. {root}" in refusal(tmp_path, "trian", "en")
    assert f"The folder {tmp_path}/nowhere does not exist either. {root}" in refusal(tmp_path, "nowhere/x", "en")
    assert "bi.tsv does not exist" in refusal(tmp_path, "bi.tsv", "en", "fr")
    (tmp_path / "train.cs.gz").write_bytes(gzip.compress(b"x\n"))
    assert {"cs", "cz", "`languages`."} <= set(refusal(tmp_path, "train", "en", "cz").split())
    assert "`languages`" not in refusal(tmp_path, "train", "en", "it")


SENTENCES: list[tuple[str, dict[str, bytes], str]] = [
    ("mono", {"mono.en": b""}, "mono.en: no rows; the file is empty"),
    ("mono", {"mono.en.gz": gzip.compress(b"")}, "mono.en.gz: no rows; the file is empty"),
    ("mono[0:9]", {"mono.en": b"a\nb\n"}, "end before that; 2 of them are in the range"),
    ("mono[9:]", {"mono.en": b"a\nb\n"}, "end before that; 0 of them are in the range"),
    ("mono[3:3]", {"mono.en": b"a\n"}, "'mono[3:3]' means no row"),
    ("mono", {"mono.en": b"a", "mono.en.xz": b"b"}, "both exist: remove all but one"),
    ("mono", {"mono.en.gz": gzip.compress(b"text\n" * 99)[:-9]}, "mono.en.gz is damaged or cut off"),
    ("mono", {"mono.en.gz": b"not compressed"}, "mono.en.gz is damaged or cut off"),
    ("mono", {"mono.en.xz": b"not compressed"}, "mono.en.xz is damaged or cut off"),
    ("mono", {"mono.en.xz": lzma.compress(b"text\n" * 99)[:-9]}, "mono.en.xz is damaged or cut off"),
    ("mono", {"mono.en.zst": b"not compressed"}, "mono.en.zst is damaged or cut off"),
    ("mono", {"mono.en.zst": COMPRESS[".zst"](b"text %d\n" * 99)[:-3]}, "mono.en.zst is damaged or cut off"),
    ("m.tsv", {"m.tsv": b"a\nb\tc\n"}, "m.tsv, line 2 has 2 columns; 1 are expected (en)"),
    ("m.tmx", {"m.tmx": b"<tmx>\n<tu>\n</tmx>"}, "m.tmx, line 3 is not well-formed TMX"),
    ("m.tmx", {"m.tmx": b""}, "m.tmx, line 1 is not well-formed TMX"),
    ("m.tmx", {"m.tmx": TMX.replace('"en"', '"de"').replace("EN-gb", "de").encode()}, "its languages are: de, fr"),
    ("m.tmx", {"m.tmx": b'<!DOCTYPE x [<!ENTITY e SYSTEM "m.tmx">]><tmx><tu>&e;</tu></tmx>'}, "m.tmx"),
]


@pytest.mark.parametrize(("reference", "content", "sentence"), SENTENCES)
def test_sentences(tmp_path: Path, reference: str, content: dict[str, bytes], sentence: str) -> None:
    for name, data in content.items():
        (tmp_path / name).write_bytes(data)
    assert not lacks(refusal(tmp_path, reference, "en"), sentence)


def test_a_file_without_line_ends_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 2**20)
    (tmp_path / "mono.en").write_bytes(b"x\n" + b"y" * (2**20 - 1) + b"\n")
    assert len(read(tmp_path, "mono", "en")) == 2
    (tmp_path / "mono.en").write_bytes(b"x\n" + b"y" * 2**20 + b"\n")
    assert not missing(refusal(tmp_path, "mono", "en"), "mono.en, line 2", "1 MiB")


def test_a_folder_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mono.en").mkdir()
    assert f"{tmp_path}/mono.en is a folder, not a file" in refusal(tmp_path, "mono", "en")


@pytest.mark.parametrize("name", ["mono.en", "bi.tsv", "mono.en.gz"])
def test_pipes_and_devices_in_place_of_a_file(tmp_path: Path, name: str) -> None:
    reference = name if name.endswith("tsv") else "mono"
    os.mkfifo(tmp_path / name)
    with limited(10):
        assert f"{tmp_path}/{name} is a named pipe, not a file" in refusal(tmp_path, reference, "en")
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with limited(10):
        assert f"{tmp_path}/{name} is a device, not a file" in refusal(tmp_path, reference, "en")
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(name)
    assert not missing(refusal(tmp_path, reference, "en"), f"{tmp_path}/{name}", "Too many levels")


def test_a_link_to_a_corpus_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"one\n")
    (tmp_path / "mono.en").symlink_to("elsewhere")
    assert read(tmp_path, "mono", "en") == [("one",)]


def test_zstd_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mono.en.zst").write_bytes(COMPRESS[".zst"](b"x\n"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'loopmt\[zstd\]'"):
        read(tmp_path, "mono", "en")


@given(data=st.binary(max_size=200), ending=st.sampled_from([".en", ".en.gz", ".en.xz", ".en.zst", ".tsv", ".tmx"]))
def test_rubbish_is_rows_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, data: bytes, ending: str) -> None:
    root = tmp_path_factory.mktemp("rubbish")
    (root / f"mono{ending}").write_bytes(data)
    try:
        rows = read(root, "mono" if ".en" in ending else f"mono{ending}", "en")
    except DataError as error:
        assert "mono" in str(error)
    else:
        assert len(rows) == data.count(b"\n") + (not data.endswith(b"\n"))


# -- normal form ---------------------------------------------------------------------------------------------

FORMS: list[tuple[Form, str, str]] = [
    (Form(), "cafe\u0301", "café"),
    (Form(nfc=False), "cafe\u0301", "cafe\u0301"),
    (Form(), "  a\t\x00b \u2028 c\u3000d\x85e\x0b", "a b c d e"),
    (Form(control=False), " a\tb ", " a\tb "),
    (Form(), "soft\u00adhyphen \u202eright\u200b\ufeff", "softhyphen right"),
    (Form(), "می\u200cخواهم 👩\u200d🚀", "می\u200cخواهم 👩\u200d🚀"),
    (Form(lowercase=True), "ÉCOLE J\u030c", "école \u01f0"),
    (Form(), "ÉCOLE", "ÉCOLE"),
]


@pytest.mark.parametrize(("form", "text", "expected"), FORMS)
def test_normal_form(form: Form, text: str, expected: str) -> None:
    assert form.normalise(text) == expected


HELD_APART = st.text(st.sampled_from("eE kΣσİ\u0301\u0327\u1100\u1161\u200b\u00ad\ufeff\u2065\u2000\x00\t\x85"))


@given(text=st.one_of(st.text(), HELD_APART), lowercase=st.booleans())
@example("e\u200b\u0301", False)
@example("\u1100\u00ad\u1161", False)
@example("ΑΣ\u2065Α", True)
def test_normal_form_is_reached_at_once(text: str, lowercase: bool) -> None:
    form = Form(lowercase=lowercase)
    normal = form.normalise(text)
    assert form.normalise(normal) == normal
    assert unicodedata.is_normalized("NFC", normal)
    assert "\n" not in normal and normal == normal.strip()


# -- rules ---------------------------------------------------------------------------------------------------

OFF = Clean(
    empty=False, identical=False, duplicates=False, overlap=False, max_words=None, max_characters=None, ratio=None
)
LONG = " ".join("word" for _ in range(20))
CHINESE = "这是一个没有空格的句子" * 4
ROWS: list[tuple[str, object, tuple[str, ...], bool]] = [
    ("empty", True, ("a", ""), True),
    ("empty", True, ("a", " \t "), True),
    ("empty", True, ("a", "b"), False),
    ("identical", True, ("same", "same"), True),
    ("identical", True, ("same ", " same"), True),
    ("identical", True, ("same", "Same"), False),
    ("identical", True, ("alone",), False),
    ("max_words", 20, (LONG, "b"), False),
    ("max_words", 19, (LONG, "b"), True),
    ("max_words", 19, ("b", LONG), True),
    ("max_characters", 5, ("12345", "b"), False),
    ("max_characters", 5, ("123456", "b"), True),
    ("ratio", 4.0, (LONG, "one two three four five"), False),
    ("ratio", 3.9, (LONG, "one two three four five"), True),
    ("ratio", 1.5, ("one two three four five six seven eight nine", "one"), False),
    ("ratio", 4.0, (CHINESE, LONG), False),
    ("ratio", 4.0, (CHINESE, "one two"), True),
    ("ratio", 4.0, (LONG,), False),
    ("overlap", True, ("held out", "b"), True),
    ("overlap", True, ("a", "retenu"), True),
    ("overlap", True, ("retenu", "held out"), False),
    ("overlap", True, (" held\u00a0out", "b"), True),
]


@pytest.mark.parametrize(("rule", "value", "row", "dropped"), ROWS)
def test_each_rule_drops_and_counts_and_can_be_switched_off(
    rule: str, value: object, row: tuple[str, ...], dropped: bool
) -> None:
    held = {"en": frozenset([text_hash("held out")]), "fr": frozenset([text_hash("retenu")])}
    block = LineBlock(0, ("en", "fr")[: len(row)], tuple(text.encode() for text in row), 0, ("a", "b"))
    on = Cleaner(Form(), OFF.model_copy(update={rule: value}), held)(block)
    assert (on.rows, on.removed, len(on.hashes)) == (1, {rule: int(dropped)}, 1 - dropped)
    off = Cleaner(Form(), OFF, held)(block)
    assert (off.removed.total(), len(off.hashes)) == (0, 1)
    assert off.sides == tuple(f"{Form().normalise(text)}\n".encode() for text in row)


def test_every_rule_of_the_schema_is_tested() -> None:
    assert {rule for rule, *_ in ROWS} | {"nfc", "control", "duplicates"} == set(Clean.model_fields)


@settings(max_examples=30)
@given(values=st.lists(st.integers(0, 30)), cut=st.integers(1, 20))
def test_duplicates_are_all_but_the_first(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], cut: int
) -> None:
    partitions = Partitions(tmp_path_factory.mktemp("partitions") / "new")
    hashes = np.array([text_hash(str(value)) for value in values], dtype=np.uint64)
    for start in range(0, len(values), cut):
        partitions.add(hashes[start : start + cut])
    found = sorted(int(row) for rows in partitions.repeats() for row in rows)
    assert found == [row for row, value in enumerate(values) if value in values[:row]]


def test_a_file_that_cannot_be_read_ends_in_its_error_only(tmp_path: Path) -> None:
    """Python 3.13 reports errors of finalizers; versions before do so only in their development mode."""
    code = "import pathlib, sys; from loopmt.text.files import HashedFile; HashedFile(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-X", "dev", "-c", code, str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "none cannot be read" in done.stderr
    assert "Exception ignored" not in done.stderr and "AttributeError" not in done.stderr
