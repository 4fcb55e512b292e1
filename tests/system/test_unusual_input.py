"""Links, pipes, devices, folders and sparse, deep, cut or binary files in place of those that a user names.

Links are followed, for they are the user's own. Everything else ends at once in one line that names the file.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from stress.checks import limited

from helpers.commands import Cli, Outcome

SOON = 20.0  # seconds; a verb that waits for a pipe never ends
EXPERIMENT = """
languages = ["en", "fr"]
vocab = {{ size = 300 }}
[data]
root = "{root}"
bitext = {{ "en-fr" = "{bitext}" }}
mono = {{ en = "{mono}" }}
valid = "valid"
[[stage]]
name = "one"
mix = ["X>Y"]
updates = 1
"""
EXPERIMENTS = {  # by the file that is looked at: what names it
    "bi.en": ("bi", "mono"),
    "bi.tsv": ("bi.tsv", "mono"),
    "bi.tmx": ("bi.tmx", "mono"),
    "bi.jsonl": ("bi.jsonl", "mono"),
    "bi.parquet": ("bi.parquet", "mono"),
    "gz.en.gz": ("bi", "gz"),
    "xz.en.xz": ("bi", "xz"),
    "zst.en.zst": ("bi", "zst"),
}
INPUTS = {  # by the file: how a verb is told of it
    **dict.fromkeys(EXPERIMENTS, "prepare {place}/exp.toml --run {place}/new"),
    "exp.toml": "train {place}/exp.toml --run {place}/new --dry-run",
    "text": "translate {run} en>fr {place}/text --beam 1",
    "hyp": "score {place}/hyp {place}/ref",
    "cases.json": "theory {place}/cases.json",
    "page.html": "report {run} --sentences 0 --out {place}/page.html",
    "run": "show {place}/run",
    "gen/generate.json": "generate {run} en>fr>en --out {place}/gen",
    "gen/synthetic.en": "generate {run} en>fr>en --out {place}/gen",
    "out": "export {run} --to ct2 --out {place}/out --sentences 2",
}
WRITTEN = {"page.html", "gen/generate.json", "gen/synthetic.en", "out"}


PACK: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.compress}


def _socket(path: Path, kept: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        folder = os.open(path.parent, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")  # its own name may be too long for a socket
        os.close(folder)


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, kept: path.symlink_to(kept),
    "link loop": lambda path, kept: path.symlink_to(path.name),
    "device": lambda path, kept: path.symlink_to("/dev/zero"),
    "pipe": lambda path, kept: os.mkfifo(path),
    "socket": _socket,
    "folder": lambda path, kept: (path / "inside").mkdir(parents=True),
}


def _huge(path: Path) -> None:
    with path.open("ab") as stream:
        stream.truncate(2**40)  # sparse: it takes no room


DEEP, DEEPER = {".tmx": b"<tmx><tu>", ".jsonl": b'{"en": '}, {".tmx": b"<hi>"}
CONTENTS: dict[str, Callable[[Path], object]] = {
    "huge": _huge,
    "nested": lambda path: path.write_bytes(DEEP.get(path.suffix, b"a = ") + DEEPER.get(path.suffix, b"[") * 200_000),
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2 - 5),
    "not UTF-8": lambda path: path.write_bytes(bytes(range(1, 256)) * 8),
}
NESTED = {"exp.toml", "bi.tmx", "bi.jsonl", "bi.parquet", "cases.json"}  # elsewhere brackets are text
TAKEN = {  # a shorter text, and a page of ours
    ("bi.tsv", "truncated"),
    ("text", "truncated"),
    ("page.html", "huge"),
    ("page.html", "truncated"),
}


@pytest.fixture
def place(tiny_experiment_file: Path, tmp_path: Path) -> Path:
    """A folder with good input of every kind."""
    folder = tmp_path / "place"
    (folder / "gen").mkdir(parents=True)
    text = tiny_experiment_file.parent / "text"
    for name in ("valid.en", "valid.fr", "mono.en"):
        shutil.copy(text / name, folder)
    sides = {language: (text / f"bi.en-fr.{language}").read_text().splitlines() for language in ("en", "fr")}
    for language, lines in sides.items():
        (folder / f"bi.{language}").write_text("".join(f"{line}\n" for line in lines))
    rows = list(zip(*sides.values(), strict=True))
    (folder / "bi.tsv").write_text("".join(f"{en}\t{fr}\n" for en, fr in rows))
    unit = '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="fr"><seg>{}</seg></tuv></tu>'
    (folder / "bi.tmx").write_text(f"<tmx><body>{''.join(unit.format(*row) for row in rows)}</body></tmx>")
    records = [{"translation": {"en": en, "fr": fr}} for en, fr in rows]
    (folder / "bi.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    pq.write_table(pa.Table.from_pylist(records), folder / "bi.parquet")
    for ending, pack in PACK.items():
        (folder / f"{ending}.en.{ending}").write_bytes(pack((folder / "mono.en").read_bytes()))
    for name in ("text", "hyp", "ref"):
        (folder / name).write_text("The cat sees the dog.\nThe dog sees the cat.\n")
    (folder / "cases.json").write_text('{"cases": []}')
    (folder / "page.html").write_text("<!doctype html><title>loopmt report</title>" + " " * 200)
    (folder / "exp.toml").write_text(EXPERIMENT.format(root=folder, bitext="bi", mono="mono"))
    return folder


@pytest.fixture
def type_verb(cli: Cli, tiny_run: Path, place: Path) -> Callable[[str], Outcome]:
    def call(name: str) -> Outcome:
        if name in EXPERIMENTS:
            bitext, mono = EXPERIMENTS[name]
            (place / "exp.toml").write_text(EXPERIMENT.format(root=place, bitext=bitext, mono=mono))
        with limited(SOON):
            return cli(*INPUTS[name].format(place=place, run=tiny_run).split())

    return call


def assert_refused(outcome: Outcome, file: Path) -> None:
    assert (outcome.code, outcome.out) == (2, ""), outcome
    (line,) = [line for line in outcome.err.splitlines() if not line.startswith("loopmt: stage ")]  # which one is used
    assert line.startswith("loopmt: ") and str(file) in line, outcome


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INPUTS)
def test_in_place_of_a_file(
    type_verb: Callable[[str], Outcome], tiny_run: Path, place: Path, tmp_path: Path, name: str, kind: str
) -> None:
    file, kept = place / name, tmp_path / "kept"
    if name == "run":
        kept = tiny_run
    elif file.exists():
        file.rename(kept)
    KINDS[kind](file, kept)
    outcome = type_verb(name)
    if kind == "link" and name not in WRITTEN:
        assert outcome.code == 0, outcome
    else:
        assert_refused(outcome, file)


@pytest.mark.parametrize("kind", CONTENTS)
@pytest.mark.parametrize("name", [name for name in INPUTS if name == "page.html" or name not in WRITTEN | {"run"}])
def test_what_is_in_a_file(type_verb: Callable[[str], Outcome], place: Path, name: str, kind: str) -> None:
    if kind == "nested" and name not in NESTED:
        pytest.skip("brackets are text there")
    CONTENTS[kind](place / name)
    if kind == "nested" and name == "cases.json":
        (place / name).write_bytes(b"[" * 200_000)
    outcome = type_verb(name)
    if (name, kind) in TAKEN:
        assert outcome.code == 0, outcome
    else:
        assert_refused(outcome, place / name)
