"""Fetching public corpora, from a server on this machine that has the originals' layout and any mischief asked for."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS

from helpers.facts import refused
from helpers.packed import tar_of, zip_of
from helpers.paths import ROOT
from loopmt.cli import main
from loopmt.config import load
from loopmt.errors import DataError
from loopmt.progress import Silent
from loopmt.text.download import RetryPolicy, download, local_name, mirrored
from loopmt.text.expected import with_expected
from loopmt.text.recipes import RECIPES, Recipe, RecipeSide, Remote, recipe
from loopmt.workflow.evaluate import EvaluateOptions, evaluate
from loopmt.workflow.fetch import FetchOptions, fetch
from loopmt.workflow.train import TrainOptions, prepare_run, train

EXAMPLES = ROOT / "examples"
HASTY = RetryPolicy(timeout=1.0, tries=3, wait=0.01)
BODY = bytes(range(256)) * 400
REMOTE = Remote("https://host.example/some/data.bin")


# -- a server ------------------------------------------------------------------------------------------------


@dataclass
class Site:
    """Files by path, and what goes wrong: each fault is met once, in order."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    seen: list[tuple[str, str | None]] = field(default_factory=list)
    ranges: bool = True
    url: str = ""
    closed: threading.Event = field(default_factory=threading.Event)

    def put(self, remote: Remote, content: bytes) -> None:
        self.files[f"/{remote.address.partition('://')[2]}"] = content


class Handler(BaseHTTPRequestHandler):
    site: Site

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        site = self.site
        asked = self.headers["Range"]
        site.seen.append((self.path, asked))
        fault = site.faults.pop(0) if site.faults else ""
        if self.path not in site.files or fault.isdigit():
            self.send_error(int(fault or 404))
            return
        body = site.files[self.path]
        tag = f'"{hashlib.md5(body).hexdigest()}"'
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and site.ranges else 0
        if self.headers["If-Range"] not in (None, tag):
            start = 0
        if start >= len(body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._send(body, start, tag, fault)

    def _send(self, body: bytes, start: int, tag: str, fault: str) -> None:
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(10**18 if fault == "vast" else len(body) - start))
        self.send_header("ETag", tag)
        self.end_headers()
        if fault == "slow":
            self._trickle(body[start:])
            return
        half = (start + len(body)) // 2
        self.wfile.write(body[start : half if fault else len(body)])
        if fault == "stall":
            self.wfile.flush()
            self.site.closed.wait(60)

    def _trickle(self, body: bytes) -> None:
        """For longer than a dead line is waited for, but never silent for as long."""
        step = -(-len(body) // 8)
        for begin in range(0, len(body), step):
            self.wfile.write(body[begin : begin + step])
            self.wfile.flush()
            self.site.closed.wait(HASTY.timeout / 5)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("no_proxy", "*")
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    site.closed.set()
    server.shutdown()
    thread.join()
    server.server_close()


def get(site: Site, folder: Path, remote: Remote = REMOTE) -> bytes:
    file = download(remote, folder, Silent(), site.url, HASTY)
    assert [path.name for path in folder.iterdir()] == [file.name], "no .part is left"
    return file.read_bytes()


# -- downloads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["cut", "stall"])
def test_a_download_goes_on_where_it_broke_off(site: Site, tmp_path: Path, fault: str) -> None:
    site.put(REMOTE, BODY)
    site.faults = [fault, fault]
    assert get(site, tmp_path) == BODY
    half, three_quarters = len(BODY) // 2, len(BODY) * 3 // 4
    assert [asked for _, asked in site.seen] == [None, f"bytes={half}-", f"bytes={three_quarters}-"]


def test_a_slow_line_is_no_dead_one(site: Site, tmp_path: Path) -> None:
    site.put(REMOTE, BODY)
    site.faults = ["slow"]
    began = time.monotonic()
    assert get(site, tmp_path) == BODY
    assert time.monotonic() - began > HASTY.timeout and len(site.seen) == 1


def test_another_process_goes_on(site: Site, tmp_path: Path) -> None:
    site.put(REMOTE, BODY)
    site.faults = ["cut", "503", "503", "503"]
    with refused(DataError, "503", "51,200", "same command"):
        get(site, tmp_path)
    assert get(site, tmp_path) == BODY
    assert site.seen[-1][1] == "bytes=51200-"


def test_a_file_that_has_changed_is_fetched_whole(site: Site, tmp_path: Path) -> None:
    site.put(REMOTE, BODY)
    site.faults = ["cut", "503", "503", "503"]
    with pytest.raises(DataError):
        get(site, tmp_path)
    site.put(REMOTE, BODY[::-1])
    assert get(site, tmp_path) == BODY[::-1]


def test_a_server_without_ranges(site: Site, tmp_path: Path) -> None:
    site.put(REMOTE, BODY)
    site.ranges, site.faults = False, ["cut"]
    assert get(site, tmp_path) == BODY


@pytest.mark.parametrize("extra", [b"", b"too much"])
def test_a_part_that_is_whole_or_longer(site: Site, tmp_path: Path, extra: bytes) -> None:
    site.put(REMOTE, BODY)
    (tmp_path / f"{local_name(REMOTE)}.part").write_bytes(BODY + extra)
    assert get(site, tmp_path) == BODY


def test_what_is_there_is_not_fetched_again(site: Site, tmp_path: Path) -> None:
    site.put(REMOTE, BODY)
    assert get(site, tmp_path) == get(site, tmp_path) == BODY
    assert len(site.seen) == 1


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_right_checksum(site: Site, tmp_path: Path, kind: str) -> None:
    site.put(REMOTE, BODY)
    assert get(site, tmp_path, replace(REMOTE, checksum=f"{kind}:{hashlib.new(kind, BODY).hexdigest()}")) == BODY


def test_a_wrong_checksum_loses_nothing(site: Site, tmp_path: Path) -> None:
    site.put(REMOTE, BODY)
    wrong = replace(REMOTE, checksum=f"sha256:{'0' * 64}")
    seen = hashlib.sha256(BODY).hexdigest()
    refused = tmp_path / f"{local_name(REMOTE)}.refused"
    for _ in range(2):
        with pytest.raises(DataError, match=rf"data.bin: .*{seen}.*0{{64}}.*{refused.name}.*--checksums"):
            get(site, tmp_path, wrong)
        assert [file.name for file in tmp_path.iterdir()] == [refused.name] and refused.read_bytes() == BODY
    assert len(site.seen) == 2, "the same command fetches it again"
    own = tmp_path / local_name(REMOTE)
    own.write_bytes(BODY)
    with pytest.raises(DataError, match=rf"{own.name}: .*{seen}.*0{{64}}.*Move it away.*--checksums"):
        get(site, tmp_path, wrong)
    assert own.read_bytes() == BODY, "what the user put there is the user's"


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_checksums_that_the_user_expects(site: Site, tmp_path: Path, kind: str) -> None:
    wanted = served(site, recipe("tatoeba"), 100)
    first, second = wanted.remotes()
    bodies = {remote: site.files[f"/{remote.address.partition('://')[2]}"] for remote in (first, second)}
    lines = [f"{hashlib.new(kind, body).hexdigest()}  ./{local_name(remote)}\n" for remote, body in bodies.items()]
    file = tmp_path / "SUMS"
    file.write_text("".join(lines))
    options = FetchOptions(with_expected(wanted, file), tmp_path / "right", 1, 0.01, site.url, HASTY)
    assert fetch(options, Silent()).fresh
    file.write_text(lines[0].replace(local_name(first), local_name(second)))
    wrong = replace(options, recipe=with_expected(wanted, file), folder=tmp_path / "wrong")
    with pytest.raises(DataError, match=f"{second.address}: the {kind} is"):
        fetch(wrong, Silent())


def test_another_fetch_is_compared_by_its_record(site: Site, tmp_path: Path) -> None:
    wanted = served(site, recipe("tatoeba"), 100)
    options = FetchOptions(wanted, tmp_path / "one", 1, 0.01, site.url, HASTY)
    fetch(options, Silent())
    same = with_expected(wanted, tmp_path / "one" / "fetched.json")
    assert fetch(replace(options, recipe=same, folder=tmp_path / "two"), Silent()).fresh
    other = served(site, recipe("tatoeba"), 101)
    fetch(replace(options, recipe=other, folder=tmp_path / "three"), Silent())
    with pytest.raises(DataError, match=rf"three was made from {wanted.remotes()[0].address}.*--out"):
        fetch(replace(options, recipe=same, folder=tmp_path / "three"), Silent())


@pytest.mark.parametrize("text", ["nonsense", '{"tatoeba": {"files": {"a": {"sha256": "0"}}}}', '{"a": 1}', "[", "{"])
def test_a_file_that_holds_no_checksums(tmp_path: Path, text: str) -> None:
    file = tmp_path / "SUMS"
    file.write_text(text)
    with pytest.raises(DataError, match=r"SUMS does not hold checksums.*sha256sum.*fetched\.json"):
        with_expected(recipe("tatoeba"), file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="SUMS does not hold checksums"):
        with_expected(recipe("tatoeba"), file)
    with refused(DataError, "none", "no such file", "fetched.json"):
        with_expected(recipe("tatoeba"), tmp_path / "none")


def test_checksums_of_other_files(tmp_path: Path) -> None:
    file = tmp_path / "SUMS"
    file.write_text(f"{'0' * 64}  other.zip\n")
    names = ", ".join(local_name(remote) for remote in recipe("tatoeba").remotes())
    with refused(DataError, "SUMS", "tatoeba", names):
        with_expected(recipe("tatoeba"), file)


def test_the_checksums_of_test_sets_are_those_of_sacrebleu() -> None:
    published = {
        address.partition("://")[2].removeprefix("www."): f"md5:{checksum}"
        for entry in DATASETS.values()
        for address, checksum in zip(entry.data or (), entry.md5 or (), strict=False)
    }
    checked = [remote for remote in recipe("wmt14").remotes() if (remote.checksum or "").startswith("md5:")]
    assert len(checked) == 3
    for remote in checked:
        assert published[remote.address.partition("://www.")[2]] == remote.checksum
    assert all(
        re.fullmatch(r"(sha256:\w{64}|md5:\w{32})", remote.checksum or "") for remote in recipe("wmt14").remotes()
    )


def test_a_file_that_is_not_there(site: Site, tmp_path: Path) -> None:
    with refused(DataError, "404", "data.bin"):
        get(site, tmp_path)
    assert len(site.seen) == 1, "asking again would not help"


def test_no_room_on_the_disk(site: Site, tmp_path: Path) -> None:
    site.put(REMOTE, BODY)
    site.faults = ["vast"]
    with refused(DataError, "1000000000.0 GB", " GB left"):
        get(site, tmp_path)


def test_without_network(site: Site, tmp_path: Path) -> None:
    nowhere = replace(site, url="http://127.0.0.1:1")
    with refused(DataError, "Connection refused", "--mirror"):
        get(nowhere, tmp_path)


def test_mirrors() -> None:
    assert mirrored(REMOTE, None) == REMOTE.address
    assert mirrored(REMOTE, "http://near/here/") == "http://near/here/host.example/some/data.bin"
    with pytest.raises(DataError, match="begins with http://"):
        mirrored(REMOTE, "file:///etc")


# -- recipes, each from a sample in the true format ------------------------------------------------------------

TINY = [
    "vocab.size=400",
    "model.preset=tiny",
    "train.tokens=256",
    "train.accumulate=1",
    "train.shapes=2",
    "train.round=1",
    "train.max_updates=2",
    "train.validate_every=2",
    "train.validate_sentences=4",
]

WORDS = ["rain", "wind", "house", "river", "bread", "stone", "light", "garden", "winter", "morning", "city", "letter"]


def sentence(language: str, number: int) -> str:
    words = [WORDS[(number // 12**place) % 12] for place in range(4)]
    return f"{' '.join(f'{word}{language}' for word in words)} {language} ."


def lines_of(language: str, first: int, count: int) -> bytes:
    return "".join(sentence(language, first + row) + "\n" for row in range(count)).encode()


def sgm_of(text: bytes) -> bytes:
    rows = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(text.decode().splitlines(), 1)]
    return "\n".join(["<srcset>", "<doc>", "<p>", *rows, "</p>", "</doc>", "</srcset>"]).encode()


def sample(side: RecipeSide, language: str, first: int, rows: int) -> bytes:
    text = lines_of(language, first, rows)
    return sgm_of(text) if side.member and side.member.endswith(".sgm") else text


def served(site: Site, wanted: Recipe, rows: int) -> Recipe:
    """Put a sample of every file of a recipe on the site; the recipe with the samples' checksums."""
    contents: dict[Remote, dict[str, bytes]] = {}
    first = 0
    for part in wanted.parts:
        for piece in part.pieces:
            for language, side in piece.items():
                text = sample(side, language, first, rows)
                contents.setdefault(side.remote, {})[side.member or ""] = text
            first += 0 if part.through else rows
    checked = {}
    for remote, members in contents.items():
        kind = Path(remote.address).suffix
        body = gzip.compress(members[""]) if kind == ".gz" else (zip_of if kind == ".zip" else tar_of)(members)
        site.put(remote, body)
        known = f"sha256:{hashlib.sha256(body).hexdigest()}" if remote.checksum else None
        checked[remote] = replace(remote, checksum=known)
    return wanted.with_remotes(checked)


def fetched(site: Site, name: str, folder: Path, rows: int, scale: float) -> dict[str, int]:
    done = fetch(FetchOptions(served(site, recipe(name), rows), folder, 1, scale, site.url, HASTY), Silent())
    assert done.fresh
    for file, count in done.rows.items():
        assert len((folder / file).read_text().splitlines()) == count
    assert not {"draft", "unpacked"} & {path.name for path in folder.iterdir()}
    return done.rows


def followed(example: str, corpora: Path, run: Path, *overrides: str) -> dict[str, int]:
    """Prepare, train up to loops and evaluate, as the example says but tiny; the rows that were kept."""
    file = EXAMPLES / example
    stages = load(file).stages
    only = [stage.name for stage in stages if stage.name == "dual"]
    updates = [f"stage.{stage.name}.updates=1" for stage in stages if stage.updates]
    request = TrainOptions(file, run, [f"data.root={corpora}", *TINY, *updates, *overrides], only=only)
    _, manifest = prepare_run(request, Silent())
    assert train(request, Silent())
    card = evaluate([run], EvaluateOptions(beam=2, samples=10), Silent())
    assert list(card["stages"]) == ["vanilla", *only]
    for stage in card["stages"].values():
        assert all(scores["mean"]["multi_bleu"] >= 0 for scores in stage["sets"].values())
    return {f"{corpus.kind} {corpus.name}": corpus.kept for corpus in manifest.corpora}


def few(rows: dict[str, str]) -> list[str]:
    return [f'data.{"bitext" if "-" in name else "mono"}.{name}="{part}"' for name, part in rows.items()]


def test_wmt14_and_news_crawl(site: Site, tmp_path: Path) -> None:
    corpora = tmp_path / "wmt14"
    expected = {"train": 120, "valid": 80, "test": 40}
    assert fetched(site, "wmt14", corpora, 40, 1.0) == {
        f"{name}.{language}": rows for name, rows in expected.items() for language in ("en", "de")
    }
    assert (corpora / "valid.de").read_bytes() == lines_of("de", 120, 80), "newstest2012, then newstest2013"
    assert fetched(site, "news-crawl", corpora, 40, 1e-6) == {"mono.en": 40, "mono.de": 40}
    record = json.loads((corpora / "fetched.json").read_text())
    assert set(record) == {"wmt14", "news-crawl"}
    address = "https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"
    body = site.files["/www.statmt.org/wmt13/training-parallel-europarl-v7.tgz"]
    seen = {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest(), "checked": True}
    assert record["wmt14"]["files"][address] == seen
    kept = followed("paper-wmt14.toml", corpora, tmp_path / "run")
    assert kept["bitext en-de"] == 120 and kept["mono en"] > 0


def test_multiun_serves_both_sizes(site: Site, tmp_path: Path) -> None:
    corpora = tmp_path / "multiun"
    rows = fetched(site, "multiun", corpora, 400, 1e-4)
    assert rows["bitext-02m.es-fr.fr"] == 20 and rows["bitext-18m.en-fr.en"] == 180
    assert {name for name in rows if name.startswith("mono")} == {"mono.en", "mono.fr", "mono.es"}
    blocks = [(corpora / f"{name}.en").read_text().splitlines() for name in ("bitext-02m.en-fr", "bitext-18m.en-fr")]
    blocks += [(corpora / f"{name}.en").read_text().splitlines() for name in ("valid.en-fr", "test.en-fr", "mono")]
    assert len(set().union(*blocks)) == sum(map(len, blocks)) == 302, "no row is in two of them"
    small = followed("paper-multiun-02m.toml", corpora, tmp_path / "small")
    large = followed("paper-multiun-2m.toml", corpora, tmp_path / "large")
    assert (small["bitext en-es"], large["bitext en-es"]) == (20, 200)
    assert small["mono fr"] == large["mono fr"] == 100


def test_europarl(site: Site, tmp_path: Path) -> None:
    corpora = tmp_path / "europarl"
    rows = fetched(site, "europarl", corpora, 200, 1e-3 / 5)
    assert rows["mono.es"] == 100 and rows["valid.en-fr.fr"] == rows["test.es-fr.es"] == 1
    assert rows["bitext.en-es.en"] == 200 - 102
    sets = few({pair: f"bitext.{pair}[:90]" for pair in ("en-fr", "en-es", "es-fr")})
    sets += few(dict.fromkeys(("en", "fr", "es"), "mono[:95]"))
    kept = followed("europarl-opus.toml", corpora, tmp_path / "run", *sets)
    assert kept["bitext es-fr"] == 90 and kept["mono en"] == 95


@pytest.mark.parametrize("example", ["tatoeba-star.toml", "tatoeba-symmetric.toml"])
def test_tatoeba_is_followed_by_its_files(site: Site, tmp_path: Path, example: str) -> None:
    fetched(site, "tatoeba", tmp_path / "corpora", 300, 0.01)
    pairs = {"en-fr": "train[:80]", "en-es": "train[80:160]", "fr-es": "train[160:170]"}
    texts = {"en": "train[170:200]", "fr": "train[200:230]", "es": "train[230:]"}
    kept = followed(example, tmp_path / "corpora", tmp_path / "run", *few(pairs | texts))
    assert (kept["bitext en-es"], kept["mono en"], kept["mono es"]) == (80, 30, 40)


def test_tatoeba_is_joined_by_its_english(site: Site, tmp_path: Path) -> None:
    rows = fetched(site, "tatoeba", tmp_path, 300, 0.01)
    assert (rows["valid.fr"], rows["test.fr"], rows["train.fr"]) == (10, 20, 270)
    for name in ("valid", "test", "train"):
        english, *others = ((tmp_path / f"{name}.{language}").read_text() for language in ("en", "fr", "es"))
        for language, text in zip(("fr", "es"), others, strict=True):
            assert text == english.replace("en ", f"{language} ")
    train = (tmp_path / "train.en").read_text().splitlines()
    assert train != sorted(train, key=[sentence("en", row) for row in range(300)].index), "shuffled"


def test_multi30k(site: Site, tmp_path: Path) -> None:
    corpora = tmp_path / "multi30k"
    rows = fetched(site, "multi30k", corpora, 60, 1.0)
    assert {name: rows.pop(name) for name in ("mono.en", "mono.de")} == {"mono.en": 300, "mono.de": 300}
    assert len(rows) == 9 and set(rows.values()) == {60}
    assert (corpora / "train.de").read_bytes() == lines_of("de", 0, 60)
    assert followed("multi30k.toml", corpora, tmp_path / "run") == {"bitext en-de": 60}
    kept = followed("multi30k-dual.toml", corpora, tmp_path / "dual")
    assert kept == {"bitext en-de": 60, "mono en": 300, "mono de": 300}


def test_a_recipe_that_has_grown_is_fetched_again(site: Site, tmp_path: Path) -> None:
    wanted = served(site, recipe("multi30k"), 20)
    small = replace(wanted, parts=wanted.parts[:3])
    orders = [FetchOptions(one, tmp_path, 1, 1.0, site.url, HASTY) for one in (small, small, wanted, wanted)]
    assert [fetch(order, Silent()).fresh for order in orders] == [True, False, True, False]
    assert (tmp_path / "mono.de").is_file()


def test_every_recipe_is_served_over_https_and_known() -> None:
    for name in RECIPES:
        wanted = recipe(name)
        assert wanted.name == name and all(remote.address.startswith("https://") for remote in wanted.remotes())
        names = [local_name(remote) for remote in wanted.remotes()]
        assert len(set(names)) == len(names)
        assert all((EXAMPLES.parent / experiment).is_file() for experiment in wanted.experiments)
    with refused(DataError, "'wmt15'", "wmt14", "news-crawl", "multiun"):
        recipe("wmt15")


# -- the whole order -------------------------------------------------------------------------------------------


def test_an_order_is_done_once_and_not_mixed_with_another(site: Site, tmp_path: Path) -> None:
    order = FetchOptions(served(site, recipe("multi30k"), 20), tmp_path, 1, 1.0, site.url, HASTY)
    first = fetch(order, Silent())
    asked = len(site.seen)
    again = fetch(order, Silent())
    assert first.fresh and not again.fresh and again.rows == first.rows
    (tmp_path / "train.de").unlink()
    assert fetch(order, Silent()).fresh and (tmp_path / "train.de").exists()
    assert len(site.seen) == asked, "the downloads are kept"
    with refused(DataError, "multi30k", "seed 1", "--out"):
        fetch(replace(order, seed=2), Silent())
    (tmp_path / "fetched.json").write_text("nonsense")
    with refused(DataError, "`loopmt fetch`"):
        fetch(order, Silent())


def test_a_folder_of_somebody_s_own_files_is_left_alone(site: Site, tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("mine\n")
    with refused(DataError, "train.en", "another folder"):
        fetch(FetchOptions(served(site, recipe("tatoeba"), 20), tmp_path, 1, 1.0, site.url, HASTY), Silent())
    assert [file.name for file in tmp_path.iterdir()] == ["train.en"]


def test_without_network_all_that_is_missing_is_named(site: Site, tmp_path: Path) -> None:
    wanted = served(site, recipe("multi30k"), 20)
    first, second, *others = wanted.remotes()
    download(second, tmp_path / "downloads", Silent(), site.url, HASTY)
    with pytest.raises(DataError, match="cannot be fetched: Connection refused") as caught:
        fetch(FetchOptions(wanted, tmp_path, 1, 1.0, "http://127.0.0.1:1", HASTY), Silent())
    said, _, listed = str(caught.value).partition("\n")
    assert said.endswith(f"{len(others) + 1} of {len(others) + 2} files are missing:")
    assert listed.split("\n") == [
        f"  {remote.address} at {tmp_path / 'downloads' / local_name(remote)}" for remote in (first, *others)
    ]


def test_sides_of_different_length(site: Site, tmp_path: Path) -> None:
    wanted = served(site, recipe("multi30k"), 20)
    site.put(wanted.remotes()[0], gzip.compress(lines_of("en", 0, 19)))
    with pytest.raises(DataError, match="line 20 has no counterpart"):
        fetch(FetchOptions(wanted, tmp_path, 1, 1.0, site.url, HASTY), Silent())
    assert {path.name for path in tmp_path.iterdir()} == {"downloads"}, "half a corpus is none"


def test_a_download_that_is_no_text(site: Site, tmp_path: Path) -> None:
    wanted = served(site, recipe("multi30k"), 20)
    site.put(wanted.remotes()[0], gzip.compress(b"\x7fELF\0\0"))
    with refused(DataError, "train.en.gz", "plain text"):
        fetch(FetchOptions(wanted, tmp_path, 1, 1.0, site.url, HASTY), Silent())


def test_as_typed(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served(site, recipe("tatoeba"), 100)
    monkeypatch.setenv("LOOPMT_MIRROR", site.url)
    monkeypatch.chdir(tmp_path)
    said = {}
    for words in ("", "tatoeba --scale 0.01", "multi30k", "wmt"):
        monkeypatch.setattr(sys, "argv", ["loopmt", "fetch", *words.split()])
        with pytest.raises(SystemExit):
            main()
        captured = capsys.readouterr()
        said[words] = captured.out + captured.err
    assert "multiun     en, fr, es: 0.2M + 1.8M pairs" in said[""]
    assert "corpora/tatoeba/train.es: 70 rows\n" in said["tatoeba --scale 0.01"]
    root = tmp_path / "corpora" / "tatoeba"
    assert f"next: loopmt train examples/tatoeba-star.toml --set data.root={root}\n" in said["tatoeba --scale 0.01"]
    assert "train.en.gz: the server answers 404 Not Found" in said["multi30k"]
    assert said["wmt"].startswith("loopmt: there is no recipe 'wmt'; there are")
