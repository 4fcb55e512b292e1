"""Formats of corpus files: JSON Lines, Parquet, formats of other modules, and what is said of a file that is wrong."""

from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from stress.checks import limited

from helpers.compressed import COMPRESS
from loopmt.config import Data
from loopmt.errors import ConfigError, DataError, ExternalError, LoopmtError
from loopmt.text import format as format_module
from loopmt.text.corpus import CorpusReader, blocks, resolve, resolve_set
from loopmt.text.format import FORMATS

Objects = Sequence[Any]
HUGGING_FACE = [
    {"id": "0", "translation": {"en": "one", "fr": "un"}},
    {"id": "1", "translation": {"en": "2", "fr": ""}},
]


def read(root: Path, name: str, *languages: str, data: Data | None = None) -> list[tuple[str, ...]]:
    with CorpusReader(resolve(name, root, languages, data or Data())) as reading:
        return [row for block in blocks(reading, 0) for row in zip(*block.texts(), strict=True)]


def refusal(root: Path, name: str, *languages: str, data: Data | None = None) -> str:
    with pytest.raises(LoopmtError) as error:
        read(root, name, *languages, data=data)
    return str(error.value)


def write_jsonl(file: Path, rows: Objects) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_parquet(file: Path, rows: Objects) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows)), file, row_group_size=2)


WRITE: dict[str, Callable[[Path, Objects], None]] = {"jsonl": write_jsonl, "parquet": write_parquet}
BOTH = pytest.mark.parametrize("format", WRITE)


# -- what is read --------------------------------------------------------------------------------------------


@BOTH
def test_keys_are_language_codes(tmp_path: Path, format: str) -> None:
    rows = [{"fr": f"né {number}", "extra": number, "en": f"a\nb {number}"} for number in range(5)]
    WRITE[format](tmp_path / f"bi.{format}", rows)
    expected = [(f"a b {number}", f"né {number}") for number in range(5)]
    assert read(tmp_path, f"bi.{format}", "en", "fr") == expected, "a line end within a text is a space"
    assert read(tmp_path, f"bi.{format}[1:3]", "en", "fr") == expected[1:3]
    assert resolve_set(f"bi.{format}", tmp_path, ["fr", "en"]).languages == ("fr", "en")


@BOTH
def test_texts_may_lie_within_translation(tmp_path: Path, format: str) -> None:
    WRITE[format](tmp_path / f"bi.{format}", HUGGING_FACE)
    assert read(tmp_path, f"bi.{format}", "fr", "en") == [("un", "one"), ("", "2")]


def test_texts_within_translation_of_many_row_groups(tmp_path: Path) -> None:
    rows = [{"translation": {"en": f"en {number}", "fr": f"fr {number}"}} for number in range(1000)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "bi.parquet", row_group_size=7)
    assert read(tmp_path, "bi.parquet[990:]", "fr", "en") == [(f"fr {n}", f"en {n}") for n in range(990, 1000)]


@BOTH
def test_data_keys_names_other_keys(tmp_path: Path, format: str) -> None:
    """Files without them are read by language code all the same."""
    data = Data(keys={"en": "source"})
    WRITE[format](tmp_path / f"a.{format}", [{"source": "one", "en": "no", "fr": "un"}])
    WRITE[format](tmp_path / f"b.{format}", [{"translation": {"source": "one", "fr": "un"}}])
    WRITE[format](tmp_path / f"c.{format}", [{"en": "one", "fr": "un"}])
    for name in "abc":
        assert read(tmp_path, f"{name}.{format}", "en", "fr", data=data) == [("one", "un")]


@BOTH
def test_monolingual_text_may_be_called_text(tmp_path: Path, format: str) -> None:
    WRITE[format](tmp_path / f"mono.{format}", [{"text": "one"}, {"text": "two"}])
    assert read(tmp_path, f"mono.{format}", "en") == [("one",), ("two",)]
    message = refusal(tmp_path, f"mono.{format}", "en", "fr")
    assert f"mono.{format}" in message and '"en"' in message and "its keys are: text" in message


def test_numbers_beside_the_text_may_be_anything(tmp_path: Path) -> None:
    (tmp_path / "mono.jsonl").write_text(f'{{"en": "fine", "score": NaN, "id": {"1" * 5000}}}\n')
    assert read(tmp_path, "mono.jsonl", "en") == [("fine",)]


@pytest.mark.parametrize("ending", COMPRESS)
def test_jsonl_may_be_compressed_and_has_empty_lines(tmp_path: Path, ending: str) -> None:
    content = b'\xef\xbb\xbf{"en": "one\\u2028", "fr": "un"}\r\n\n{"en": "two", "fr": "deux"}'
    (tmp_path / f"bi.JSONL{ending}").write_bytes(COMPRESS[ending](content))
    assert read(tmp_path, f"bi.JSONL{ending}", "en", "fr") == [("one\u2028", "un"), ("two", "deux")]


# -- what is refused -----------------------------------------------------------------------------------------


JSONL: list[tuple[bytes, list[str]]] = [
    (b'{"de": "eins", "x": 1}', ['"en"', "de, x", "keys = {", "[data]"]),
    (b'{"translation": {"de": "x"}}', ['"en"', "translation.de"]),
    (b'{"translation": "x"}', ['"en"', "translation"]),
    (b'{"en": null}', ['key "en"', "null"]),
    (b'{"en": 3}', ['key "en"', "number"]),
    (b'{"translation": {"en": ["x"]}}', ['key "translation.en"', "list"]),
    (b'{"en": "\\ud800"}', ['key "en"', "U+D800"]),
    (b'["one"]', ["no JSON object"]),
    (b'{"en": "on', ["not JSON", "cut off"]),
    (b"caf\xe9", ["not UTF-8", "0xe9"]),
    (b'{"en": ' + b"[" * 200_000, ["nested more than 100 deep"]),
    (b'{"en": ' + b"1" * 5000 + b"}", ['"en"', "number", "string"]),
    (b'{"en": 1e999}', ['"en"', "number", "string"]),
    (b'{"' + b"k" * 10_000 + b'": 1}', ["kkk..."]),
]


@pytest.mark.parametrize(("line", "facts"), JSONL)
def test_jsonl_errors_name_file_line_and_key(tmp_path: Path, line: bytes, facts: list[str]) -> None:
    (tmp_path / "mono.jsonl").write_bytes(b'{"en": "fine"}\n' * 3000 + line + b'\n{"en": "fine"}\n')
    with limited(10):
        message = refusal(tmp_path, "mono.jsonl", "en")
    assert f"{tmp_path / 'mono.jsonl'}, line 3001" in message and len(message) < 1000
    assert all(fact in message for fact in facts), message


PARQUET: list[tuple[Objects, list[str]]] = [
    ([{"de": "eins", "x": 1}], ['"en"', "de, x", "keys = {"]),
    ([{"translation": {"de": "eins"}}], ['"en"', "translation.de"]),
    ([{"en": 1}], ['key "en"', "int64", "string"]),
    ([{"en": {"a": "b"}}], ['key "en"', "struct", "string"]),
    ([{"en": "one"}, {"en": None}], ["row 2", 'key "en"', "null"]),
    ([{"translation": {"en": "one"}}, {"translation": None}], ["row 2", "translation.en", "null"]),
    ([{"en": b"one"}], ['key "en"', "binary", "string"]),
    ([{"translation": {"en": {"a": "b"}}}], ['key "translation.en"', "struct", "string"]),
]


@pytest.mark.parametrize(("rows", "facts"), PARQUET)
def test_parquet_errors_name_file_row_and_key(tmp_path: Path, rows: Objects, facts: list[str]) -> None:
    write_parquet(tmp_path / "mono.parquet", rows)
    message = refusal(tmp_path, "mono.parquet", "en")
    assert all(fact in message for fact in [str(tmp_path / "mono.parquet"), *facts]), message


def test_parquet_that_is_not_utf_8(tmp_path: Path) -> None:
    buffers = pa.array([b"caf\xe9"]).buffers()
    table = pa.table({"en": pa.Array.from_buffers(pa.string(), 1, buffers)})
    pq.write_table(table, tmp_path / "mono.parquet")
    message = refusal(tmp_path, "mono.parquet", "en")
    assert "mono.parquet" in message and "UTF-8" in message and "0xe9" in message


def test_parquet_that_is_something_else(tmp_path: Path) -> None:
    write_parquet(tmp_path / "whole.parquet", [{"en": "one"}] * 50)
    whole = (tmp_path / "whole.parquet").read_bytes()
    for content in (b"", b"PAR1", b"text", whole[:-40], whole[40:], whole[:-8] + b"\xff\xff\xff\x7fPAR1"):
        (tmp_path / "mono.parquet").write_bytes(content)
        assert f"{tmp_path / 'mono.parquet'}" in refusal(tmp_path, "mono.parquet", "en")
    (tmp_path / "mono.parquet.gz").write_bytes(COMPRESS[".gz"](whole))
    assert "Unpack" in refusal(tmp_path, "mono.parquet.gz", "en")


@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.booleans())
@example(place=4, byte=0, cut=False)
def test_damaged_parquet_is_rows_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, cut: bool
) -> None:
    root = tmp_path_factory.mktemp("damaged")
    write_parquet(root / "m.parquet", HUGGING_FACE * 20)
    content = bytearray((root / "m.parquet").read_bytes())
    place %= len(content)
    content[place : None if cut else place + 1] = b"" if cut else bytes([byte])
    (root / "m.parquet").write_bytes(content)
    try:
        rows = read(root, "m.parquet", "en", "fr")
    except DataError as error:
        assert str(root / "m.parquet") in str(error)
    else:
        assert all(isinstance(text, str) for row in rows for text in row)


DAMAGED = """
import sys
from pathlib import Path
from loopmt.errors import DataError
from loopmt.text.corpus import CorpusReader, resolve

for file in sorted(Path(sys.argv[1]).iterdir()):
    try:
        with CorpusReader(resolve(file.name, file.parent, ["en"])) as reading:
            list(reading)
    except DataError as error:
        assert str(file) in str(error)
    print(file.name)
"""


def test_no_byte_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    """Where sizes of columns are damaged, pyarrow aborts if it is asked for them."""
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{"en": "one"}]), content, store_schema=False, write_statistics=False)
    whole = content.getvalue()
    footer = int.from_bytes(whole[-8:-4], "little")
    for place in range(8, 8 + footer):
        damaged = whole[: -place - 1] + b"Q" + whole[len(whole) - place :]
        (tmp_path / f"{place}.parquet").write_bytes(damaged)
    done = subprocess.run([sys.executable, "-c", DAMAGED, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == footer > 100


def test_long_texts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_module, "MAX_LINE", 2**10)
    for format, write in WRITE.items():
        write(tmp_path / f"mono.{format}", [{"en": "fine"}, {"en": "é" * 2**9}])
        message = refusal(tmp_path, f"mono.{format}", "en")
        assert f"mono.{format}" in message and 'key "en"' in message and "longer than" in message


def test_parquet_that_repeats_a_long_text_takes_little_memory(tmp_path: Path) -> None:
    """A dictionary page of a megabyte may stand for any number of rows."""
    pool, text = pa.default_memory_pool(), "x" * 2**20
    tracemalloc.start()
    table = pa.table({"en": pa.array([text]).dictionary_encode().take(pa.array([0] * 300))})
    pq.write_table(table, tmp_path / "mono.parquet")
    assert (tmp_path / "mono.parquet").stat().st_size < 2**20
    before = pool.bytes_allocated()
    with CorpusReader(resolve("mono.parquet", tmp_path, ["en"])) as reading:
        assert sum(1 for _ in reading) == 300
        assert pool.bytes_allocated() - before < 32 * 2**20
    assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    tracemalloc.stop()


def test_a_large_row_group_takes_little_memory(tmp_path: Path) -> None:
    pool, rows = pa.default_memory_pool(), 200_000
    pairs = [(f"sentence {number} and more", f"phrase {number} et plus") for number in range(rows)]
    texts = dict(zip(("en", "fr"), map(list, zip(*pairs, strict=True)), strict=True))
    pq.write_table(pa.table(texts), tmp_path / "bi.parquet", row_group_size=rows)
    del pairs, texts
    before, most = pool.bytes_allocated(), 0
    with CorpusReader(resolve("bi.parquet", tmp_path, ["en", "fr"])) as reading:
        for _ in itertools.islice(reading, 0, None, 1000):
            most = max(most, pool.bytes_allocated() - before)
    assert reading.rows == rows and most < 8 * 2**20


# -- formats of other modules --------------------------------------------------------------------------------

MODULE = """
def fields(file, languages):
    for line in file.lines():
        yield tuple(line.split("|"))

def single(file, languages):
    return file.lines()

def failing(file, languages):
    yield ("one", "un")
    raise KeyError("oops")

def wrong(file, languages):
    return [("one", "un"), ("two", 2)]

def nothing(file, languages):
    return None

def hole(file, languages):
    yield ("one", "un")
    yield None
    yield ("two", "deux")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "their_formats.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "their_formats"


def test_a_function_reads_the_files_of_an_ending(tmp_path: Path, module: str) -> None:
    data = Data(formats={".bar": f"{module}:fields", ".list": f"{module}:single", ".txt": "text", ".tab": "tsv"})
    (tmp_path / "bi.bar.gz").write_bytes(COMPRESS[".gz"](b"one|un\ntwo|deux\n"))
    assert read(tmp_path, "bi.bar.gz[1:]", "en", "fr", data=data) == [("two", "deux")]
    (tmp_path / "bi.tab").write_bytes(b"one\tun\n")
    assert read(tmp_path, "bi.tab", "en", "fr", data=data) == [("one", "un")]
    for ending in ("list", "txt"):
        (tmp_path / f"mono.{ending}").write_bytes(b"one\ntwo\n")
        assert read(tmp_path, f"mono.{ending}", "en", data=data) == [("one",), ("two",)]


@pytest.mark.parametrize(
    ("function", "facts"),
    [
        ("failing", ["KeyError", "oops"]),
        ("wrong", ["row 2", "en, fr"]),
        ("nothing", ["TypeError"]),
        ("hole", ["row 2", "None", "en, fr"]),
        ("single", ["row 1", "en, fr"]),
    ],
)
def test_a_function_that_fails_is_named(tmp_path: Path, module: str, function: str, facts: list[str]) -> None:
    (tmp_path / "bi.bar").write_bytes(b"one\n")
    with pytest.raises(ExternalError) as error:
        read(tmp_path, "bi.bar", "en", "fr", data=Data(formats={".bar": f"{module}:{function}"}))
    assert all(fact in str(error.value) for fact in [f"{module}:{function}", "bi.bar", *facts]), error.value


def test_an_error_of_a_file_passes_through_its_reader(tmp_path: Path, module: str) -> None:
    (tmp_path / "bi.bar").write_bytes(b"one|un\ncaf\xe9|x\n")
    message = refusal(tmp_path, "bi.bar", "en", "fr", data=Data(formats={".bar": f"{module}:fields"}))
    assert message.startswith(f"{tmp_path / 'bi.bar'}, line 2 is not UTF-8")


def test_an_unknown_format_lists_those_there_are() -> None:
    with pytest.raises(ConfigError) as error:
        FORMATS.check("jsnl")
    assert all(name in str(error.value) for name in ("text", "tsv", "tmx", "jsonl", "parquet", "module:function"))


def test_a_file_without_a_format_says_how_to_name_one(tmp_path: Path) -> None:
    (tmp_path / "bi.csv").write_text("one,un\n")
    message = refusal(tmp_path, "bi.csv", "en", "fr")
    for fact in (str(tmp_path / "bi.csv"), ".tsv", ".tmx", ".jsonl", ".parquet", "PREFIX.LANG", 'formats = { ".csv"'):
        assert fact in message
    (tmp_path / "news.en").write_text("one\n")
    assert 'prefix, "news"' in refusal(tmp_path, "news.en", "en")


def test_plain_text_has_one_language(tmp_path: Path) -> None:
    (tmp_path / "bi.txt").write_text("one\n")
    message = refusal(tmp_path, "bi.txt", "en", "fr", data=Data(formats={".txt": "text"}))
    assert "bi.txt" in message and "en, fr" in message and "prefix" in message


@pytest.mark.parametrize("ending", ["csv", ".csv.gz", "", ".", ".a/b"])
def test_an_ending_is_a_dot_and_letters(ending: str) -> None:
    with pytest.raises(ValueError, match="ending"):
        Data(formats={ending: "tsv"})
