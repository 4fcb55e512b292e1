"""The server on a real socket: responses, refused requests, watching training, and the stop."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import loopmt
from helpers.facts import refused
from helpers.serving import SENTENCE, SMALL, ask, running, service_of
from loopmt.errors import ConfigError, DamagedError, ExhaustedError, MissingExtraError, RunError
from loopmt.progress import Silent
from loopmt.run import Run, StageFolder
from loopmt.serve.watch import new_records
from loopmt.text.word_diff import similarity
from loopmt.workflow.samples import Samples
from loopmt.workflow.serve import LoadedEngine, ServeOptions, load_engine, serve


@pytest.fixture(scope="module")
def engine(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> LoadedEngine:
    return load_engine(ServeOptions(tiny_run, backend="loopmt"), tmp_path_factory.mktemp("unused"), Silent())


@pytest.fixture(scope="module")
def client(tiny_run: Path, engine: LoadedEngine) -> Iterator[httpx.Client]:
    with running(service_of(tiny_run, engine)) as found:
        yield found


# -- translating -------------------------------------------------------------------------------------------------


def test_a_text_is_translated_as_the_library_does(client: httpx.Client, tiny_run: Path) -> None:
    translator = loopmt.load(tiny_run)
    answer = ask(client, "en > fr>es", [SENTENCE, "The dog sees the cat."]).json()
    assert answer["path"] == "en>fr>es"
    said = [one["text"] for one in answer["translations"]]
    assert said == translator.translate([SENTENCE, "The dog sees the cat."], "en>fr>es")
    first = answer["translations"][0]
    assert [step["language"] for step in first["steps"]] == ["fr", "es"]
    assert first["steps"][0]["text"] == translator.translate([SENTENCE], "en>fr")[0]
    assert first["steps"][1]["text"] == first["text"]
    assert first["score"] == pytest.approx(translator.nbest([SENTENCE], "en>fr>es", 1)[0][0].score, abs=1e-3)
    assert first["loops"] is first["ways"] is first["confidence"] is None


def test_nbest(client: httpx.Client, tiny_run: Path) -> None:
    (told,) = ask(client, nbest=3).json()["translations"]
    assert [one["text"] for one in told["nbest"]] == [
        one.text for one in loopmt.load(tiny_run).nbest([SENTENCE], "en>fr", 3)[0]
    ]
    assert told["text"] == told["nbest"][0]["text"]


def test_loops_and_ways(client: httpx.Client, tiny_run: Path) -> None:
    translator = loopmt.load(tiny_run)
    (told,) = ask(client, loops=True).json()["translations"]
    assert [loop["path"] for loop in told["loops"]] == ["en>fr>en", "en>fr>es>en"]
    for loop in told["loops"]:
        home = translator.translate([SENTENCE], loop["path"])[0]
        assert loop["steps"][-1] == {"language": "en", "text": home}
        assert loop["likeness"] == similarity(SENTENCE, home)
    (way,) = told["ways"]
    assert way["path"] == "en>es>fr"
    assert way["steps"][-1]["text"] == translator.translate([SENTENCE], "en>es>fr")[0]
    assert told["confidence"] == way["likeness"] == similarity(told["text"], way["steps"][-1]["text"])


def test_a_closed_path_is_its_own_loop(client: httpx.Client) -> None:
    (told,) = ask(client, "en>fr>en", loops=True).json()["translations"]
    assert [loop["path"] for loop in told["loops"]] == ["en>fr>en"]
    assert told["ways"] == []
    assert told["confidence"] is None


def test_an_empty_text_has_an_empty_translation(client: httpx.Client) -> None:
    answer = ask(client, texts=["", " \n "], loops=True)
    assert [one["text"] for one in answer.json()["translations"]] == ["", ""]


def test_serving_needs_its_extra(tiny_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with refused(MissingExtraError, "fastapi", "pip install 'loopmt[serve]'"):
        serve(ServeOptions(tiny_run), Silent())


# -- refusing ----------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Any, int, str]] = [
    ({"path": "en>de", "texts": ["a"]}, 400, "path en>de: the run has no language 'de'"),
    ({"path": "en", "texts": ["a"]}, 400, "has no hop"),
    ({"path": "X>Y", "texts": ["a"]}, 400, "is a pattern, not a path"),
    ({"path": "en>fr>en>fr>en", "texts": ["a"]}, 400, "the path has 4 hops; at most 3."),
    ({"path": "../../etc/passwd", "texts": ["a"]}, 400, "'../../etc/passwd' is not a language"),
    ({"path": "en>fr", "texts": ["a" * 61]}, 413, "text 1 has 61 characters; at most 60. Send it in parts."),
    ({"path": "en>fr", "texts": ["a"] * 5}, 413, "5 texts; at most 4 in one request."),
    ({"path": "en>fr", "texts": ["a"] * 3, "loops": True}, 413, "3 texts with loops; at most 2"),
    ({"path": "en>fr", "texts": []}, 422, "texts: List should have at least 1 item"),
    ({"path": "en>fr", "texts": [1]}, 422, "texts.0: Input should be a valid string"),
    ({"path": "en>fr", "texts": "a"}, 422, "texts: Input should be a valid list"),
    ({"path": "en>fr", "texts": ["a"], "nbest": 9}, 422, "nbest: Input should be less than or equal to 8"),
    ({"path": "en>fr", "texts": ["a"], "beem": 1}, 422, "beem: Extra inputs are not permitted"),
    ({"path": "e" * 201, "texts": ["a"]}, 422, "path: String should have at most 200 characters"),
    (["en>fr"], 422, "the request: "),
]


@pytest.mark.parametrize(("body", "status", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_invalid_requests_are_refused_with_a_message(
    client: httpx.Client, body: Any, status: int, sentence: str
) -> None:
    answer = client.post("/translate", json=body)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_invalid_json_is_refused(client: httpx.Client) -> None:
    for content in (b"", b"{", b"\xff\xfe", b"[" * 5000 + b"]" * 5000):
        answer = client.post("/translate", content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)
        assert answer.json()["error"].endswith("/docs.")
    broken = client.post("/translate", content=b"{'a'}", headers={"content-type": "application/json"})
    assert broken.json()["error"].startswith("the request is not valid JSON: Expecting")
    plain = client.post("/translate", content=b"{}", headers={"content-type": "text/plain"})
    assert (plain.status_code, plain.json()["error"][:9]) == (415, "send JSON")


def test_oversized_bodies_are_not_kept(client: httpx.Client) -> None:
    body = b" " * (SMALL.body + 1)
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert f"{SMALL.body:,} bytes" in answer.json()["error"]


def test_a_body_in_chunks_is_refused(client: httpx.Client) -> None:
    """Chunks of a byte cost the server forty times as much as the client."""
    pieces = (b" " * 10_000 for _ in range(4))
    answer = client.post("/translate", content=pieces, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.headers["connection"]) == (411, "close")
    assert "content-length" in answer.json()["error"]


TEXTS = [
    "<2es> the dog",
    "</s><pad><unk>",
    "\x00\x01\x1f\u2028",
    "'; DROP TABLE runs; --",
    "{{7*7}} ${7*7} %s %n",
    "<script>alert(1)</script>",
    "\U0010fffd \u2581 \u202e \ufeff",
    "e\u0301" * 20,
    "../../../../etc/passwd",
    "😀" * 20,
]


def test_texts_are_not_interpreted(client: httpx.Client, tiny_run: Path) -> None:
    translator = loopmt.load(tiny_run)
    for text in TEXTS:
        answer = ask(client, texts=[text])
        assert answer.status_code == 200, text
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["translations"][0]["text"] == translator.translate([text], "en>fr")[0]


def test_a_lone_surrogate_breaks_nothing(client: httpx.Client) -> None:
    """Neither in a text that the response quotes, nor in a path or a key that an error quotes."""
    for body, status in (
        (rb'{"path": "en>fr", "texts": ["the \ud800 dog"], "loops": true}', 200),
        (rb'{"path": "en>\ud800", "texts": ["a"]}', 422),
        (rb'{"path": "en>fr", "texts": ["a"], "\ud800": 1}', 422),
    ):
        answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == status, answer.text
    assert ask(client).status_code == 200


def test_the_file_system_is_not_served(client: httpx.Client) -> None:
    for place in ("/etc/passwd", "/../app.py", "/%2e%2e/%2e%2e/etc/passwd", "/page.js/../app.py", "//etc/passwd",
                  "/static/page.js", "/..%5capp.py", "/experiment.json", "/page.html"):  # fmt: skip
        answer = client.send(client.build_request("GET", client.base_url.copy_with(raw_path=place.encode())))
        assert answer.status_code == 404, place
        assert "root:" not in answer.text
    for stage in ("../vanilla", "/etc", "vanilla/../dual", "..", "vanilla\0"):
        answer = client.get("/watch", params={"stage": stage})
        assert (answer.status_code, answer.json()["error"]) == (
            404,
            "there is no such stage. The stages are vanilla, vanilla-longer, dual.",
        )


def test_other_names_and_methods(client: httpx.Client) -> None:
    """A host name of another site that resolves to this server is refused (DNS rebinding)."""
    assert client.get("/health", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/health", headers={"host": "LOCALHOST:99"}).status_code == 200
    assert client.get("/health", headers={"host": "[::1]:99"}).status_code == 200
    wrong = client.get("/translate")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert client.delete("/health").json()["error"].startswith("Method Not Allowed")


# -- pages -------------------------------------------------------------------------------------------------------


def test_pages_are_self_contained(client: httpx.Client) -> None:
    for place in ("/", "/page.css", "/page.js", "/watch.js", "/docs"):
        answer = client.get(place)
        assert answer.status_code == 200
        assert not re.findall(r"(?:src|href|url\(|import)\W{0,3}(?:https?:)?//", answer.text)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "innerHTML" not in answer.text, "text goes into the page as text"


def test_interface_is_described(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {"/translate", "/watch", "/health"}
    assert set(described["paths"]["/translate"]["post"]["responses"]) == {
        "200", "400", "401", "408", "411", "413", "415", "421", "422", "429", "503",
    }  # fmt: skip
    page = client.get("/docs").text
    for name in (
        "POST /translate",
        "GET /watch",
        "GET /health",
        *described["components"]["schemas"]["TranslateRequest"]["properties"],
    ):
        assert name in page


def test_health(client: httpx.Client) -> None:
    told = client.get("/health").json()
    assert told["status"] == "ready"
    assert told["backend"] == "loopmt on cpu"
    assert told["stage"] == "dual"
    assert told["directions"] == ["en>fr", "en>es", "fr>en", "fr>es", "es>en", "es>fr"]
    assert told["limits"]["queue"] == 40
    assert told["waiting"] == 0


# -- watching ----------------------------------------------------------------------------------------------------


def test_watching_a_finished_run(client: httpx.Client) -> None:
    told = client.get("/watch").json()
    assert [(stage["name"], stage["state"]) for stage in told["stages"]] == [
        ("vanilla", "finished"), ("vanilla-longer", "finished"), ("dual", "finished"),
    ]  # fmt: skip
    assert told["stage"] == "dual"
    assert {record["kind"] for record in told["records"]} >= {"train", "valid", "end"}
    again = client.get("/watch", params={"stage": "dual", "offset": told["offset"]}).json()
    assert (again["records"], again["offset"], again["restarted"]) == ([], told["offset"], False)


def test_samples_follow(client: httpx.Client, tiny_run: Path) -> None:
    client.get("/watch", params={"stage": "vanilla"})
    for _ in range(100):
        if samples := client.get("/watch", params={"stage": "vanilla"}).json()["samples"]:
            break
        time.sleep(0.1)
    assert samples["update"] == 120
    assert [row["direction"] for row in samples["rows"]][:2] == ["en>fr", "en>es"]
    row = samples["rows"][0]
    assert row["said"] == loopmt.load(tiny_run, "vanilla").translate([row["source"]], "en>fr", beam=1)[0]


def test_samples_of_a_running_stage(tiny_run: Path, tmp_path: Path) -> None:
    run = Run(Path(shutil.copytree(tiny_run, tmp_path / "run")))
    samples = Samples(run)
    shutil.rmtree(run.stage("dual").folder)
    assert samples("dual") is None
    place = run.stage("dual").checkpoints
    place.mkdir(parents=True)
    shutil.copytree(run.stage("vanilla").folder / "result", place / "00000008")
    found = samples("dual")
    assert found is not None
    assert found["update"] == 8
    (place / "00000008" / "weights.safetensors").unlink()
    assert samples("dual") == found, "the same weights are not asked twice"
    (place / "00000008").rename(place / "00000016")
    assert samples("dual") is None


def test_the_log_continues_at_the_offset(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path)
    assert new_records(folder, 5) == {"offset": 0, "restarted": True, "more": False, "records": []}
    folder.log({"kind": "train", "update": 1, "loss": {"en>fr": float("nan")}, "guards": []})
    first = new_records(folder, 0)
    assert first["records"] == [{"kind": "train", "update": 1, "loss": {"en>fr": None}}]
    folder.log({"kind": "choice", "update": 2})
    folder.log({"kind": "alarm", "update": 2, "path": "en>fr>en", "hop": "en>fr", "what": "it copies", "route": 3})
    with folder.metrics.open("a") as file:
        file.write('{"kind": "train", "upd')  # a line that is being written
    second = new_records(folder, first["offset"])
    assert [record["kind"] for record in second["records"]] == ["alarm"]
    assert new_records(folder, second["offset"])["records"] == []
    folder.cut_log(first["offset"])
    again = new_records(folder, second["offset"])
    assert (again["restarted"], len(again["records"])) == (True, 1)


@pytest.mark.parametrize("number", ["1e999", "-Infinity", "NaN", "1" * 400, "1" * 5_000])
def test_a_logged_number_that_is_not_finite(tiny_run: Path, engine: LoadedEngine, tmp_path: Path, number: str) -> None:
    """In a table of directions it is a gap; a record whose own fields are not finite is passed over."""
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    with (run / "stages" / "dual" / "metrics.jsonl").open("w") as log:
        log.write(f'{{"kind": "train", "update": 1, "loss": {{"en>fr": {number}}}, "seconds": 1}}\n')
        log.write(f'{{"kind": "train", "update": {number}, "loss": {{}}}}\n')
        log.write(f'{{"kind": "valid", "update": 2, "mean_bleu": {number}}}\n')
    with running(service_of(run, engine)) as client:
        answer = client.get("/watch", params={"stage": "dual"})
    assert answer.status_code == 200
    assert answer.json()["records"] == [{"kind": "train", "update": 1, "loss": {"en>fr": None}, "seconds": 1}]


def test_lines_of_any_length_are_sent(tmp_path: Path) -> None:
    folder = StageFolder(tmp_path)
    for update in (1, 2):
        folder.log({"kind": "valid", "update": update, "loss": {"en>fr": 1.0}, "said": "x" * 2**20})
    first = new_records(folder, 0)
    assert ([record["update"] for record in first["records"]], first["more"]) == ([1], True)
    second = new_records(folder, first["offset"])
    assert ([record["update"] for record in second["records"]], second["more"]) == ([2], False)
    with folder.metrics.open("a") as file:
        file.write("x" * 2**21)  # a line that is being written
    assert new_records(folder, second["offset"]) == {**second, "records": []}


# -- start and stop ------------------------------------------------------------------------------------------------


def test_a_run_without_a_finished_stage_can_be_watched(tiny_run: Path, engine: LoadedEngine) -> None:
    service = service_of(tiny_run, None)
    with running(service) as client:
        early = ask(client)
        assert (early.status_code, early.headers["retry-after"]) == (503, "10")
        assert "no stage of the run is finished" in early.json()["error"]
        assert client.get("/health").json()["status"] == "waiting for a finished stage"
        assert client.get("/watch").status_code == 200
        service.load = lambda: engine
        wait_until(lambda: client.get("/health").json()["status"] == "ready")
        assert ask(client).status_code == 200


@pytest.mark.parametrize(
    ("error", "told", "logged"),
    [
        (
            DamagedError("/x/result is damaged."),
            "a file of the run is damaged; see the server's log.",
            "/x/result",
        ),
        (ExhaustedError("out of memory. Free some."), "out of memory. Free some.", "out of memory. Free some."),
        (ValueError("nobody foresaw this"), "see the server's log.", "ValueError: nobody foresaw this"),
    ],
    ids=["damaged", "foreseen", "unforeseen"],
)
def test_a_stage_that_cannot_be_loaded_is_reported_and_tried_again(
    tiny_run: Path,
    engine: LoadedEngine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    told: str,
    logged: str,
) -> None:
    monkeypatch.setattr("loopmt.serve.app._LOOK_EVERY", 0.01)
    monkeypatch.setattr("loopmt.serve.app._LOAD_EVERY", 0.01)
    service = service_of(tiny_run, None)
    tries: list[float] = []

    def fail() -> None:
        tries.append(time.monotonic())
        raise error

    service.load = fail
    with running(service) as client:
        wait_until(lambda: len(tries) > 3)
        health = client.get("/health").json()
        assert (health["status"], health["problem"]) == ("the finished stage cannot be loaded", told)
        refusal = ask(client)
        assert (refusal.status_code, refusal.headers["retry-after"]) == (503, "10")
        assert refusal.json()["error"] == f"the finished stage cannot be loaded: {told}"
        service.load = lambda: engine
        wait_until(lambda: client.get("/health").json()["status"] == "ready")
        assert client.get("/health").json()["problem"] is None and ask(client).status_code == 200
    log = capsys.readouterr().err
    assert log.count("the finished stage cannot be loaded") == 1 and logged in log


def test_a_damaged_result_is_reported_when_it_appears(tiny_run: Path, tmp_path: Path) -> None:
    """The server as typed: it waits, a stage ends whose weights are damaged, a copy of them is put back."""
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    results = [Path(shutil.move(one, tmp_path / one.parent.name)) for one in run.glob("stages/*/result")]
    assert results
    weights = tmp_path / "vanilla" / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "loopmt", "serve", str(run), "--port", str(port), "--backend", "loopmt"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process, process.stderr:
        assert "no stage is finished yet" in next(line for line in process.stderr if "Ctrl-C" in line)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            wait_until(lambda: client.get("/health").json()["status"] == "waiting for a finished stage")
            shutil.move(tmp_path / "vanilla", run / "stages/vanilla/result")
            wait_until(lambda: "damaged" in (client.get("/health").json()["problem"] or ""))
            (run / "stages/vanilla/result/weights.safetensors").write_bytes(whole)
            wait_until(lambda: client.get("/health").json()["status"] == "ready")
        process.send_signal(signal.SIGINT)
        assert "weights.safetensors is damaged" in process.stderr.read()


def wait_until(arrived: Callable[[], bool]) -> None:
    for _ in range(300):
        if arrived():
            return
        time.sleep(0.1)
    pytest.fail("it did not come to that")


@pytest.mark.parametrize(("number", "backend"), [(signal.SIGINT, "loopmt"), (signal.SIGTERM, "auto")])
def test_the_command_serves_and_stops(tiny_run: Path, tmp_path: Path, number: signal.Signals, backend: str) -> None:
    """What is under way is answered, nothing is left behind, and the exit is clean."""
    command = [sys.executable, "-m", "loopmt", "serve", str(tiny_run), "--port", "0", "--stage", "vanilla"]
    command += ["--backend", backend]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None and process.stdout is not None
    with process, process.stderr, process.stdout:
        line = next(line for line in process.stderr if "stop with Ctrl-C" in line)
        found = re.search(r"\(stage vanilla, decoded by (.+)\) at (http://127\.0\.0\.1:\d+/) ", line)
        assert found, line
        body = {"path": "en>fr", "texts": [SENTENCE]}
        answer = httpx.post(f"{found[2]}translate", json=body, timeout=120, trust_env=False)
        assert answer.status_code == 200
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stderr.read().splitlines() == ["stopped"]
    assert list(tmp_path.iterdir()) == []


def test_refused_at_the_start(tiny_run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        serve(ServeOptions(tmp_path), Silent())
    with refused(ConfigError, "'duel'", "vanilla"):
        serve(ServeOptions(tiny_run, "duel", port=0), Silent())
