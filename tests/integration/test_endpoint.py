"""Frozen generators behind an OpenAI-compatible endpoint: a real server process with a small model, and failures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest
import torch

from helpers.causal import make_qwen
from helpers.checkpoints import experiment_text
from helpers.facts import missing
from loopmt.config import Generate, loads
from loopmt.config.schema import Imported
from loopmt.errors import ConfigError, ExternalError, LoopmtError
from loopmt.path import Hop
from loopmt.progress import Silent
from loopmt.run import Run
from loopmt.translate import chat
from loopmt.translate.answers import Answer, AnswerFile
from loopmt.translate.endpoint import EndpointTranslator
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences, Translations
from loopmt.workflow.train import TrainOptions, train

pytest.importorskip("fastapi", reason="the server of these tests needs `fastapi`")

SECRET = "sk-not-for-the-disk-4711"
PROMPT = "Translate {source_language} to {target_language}: {text}"
TEXTS = ["The red cat sees {text}.", "Never.", "The small bird likes the kind king often."]
GREEDY, SAMPLE = Generate(how="greedy", by="frozen"), Generate(how="sample", by="frozen")
EN_FR = Hop("en", "fr")


@dataclass(frozen=True)
class RunningServer:
    """The server process, and what it has seen."""

    url: str

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url.removesuffix('/v1')}{path}", data, {"Content-Type": "application/json"})
        with build_opener(ProxyHandler({})).open(request, timeout=60) as response:
            return json.load(response)

    def fail(self, *faults: str) -> None:
        self.ask("/faults", list(faults))

    def seen(self) -> list[dict[str, Any]]:
        return list(self.ask("/seen")["requests"])


@pytest.fixture(scope="module")
def text(tiny_experiment_file: Path) -> Path:
    return tiny_experiment_file.parent / "text"


@pytest.fixture(scope="module")
def running(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = make_qwen(text, tmp_path_factory.mktemp("causal") / "tiny")
    file = Path(__file__).parents[1] / "helpers" / "chat_server.py"
    command = [sys.executable, str(file), str(folder), SECRET]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield RunningServer(f"http://127.0.0.1:{process.stdout.readline().strip()}/v1")
        finally:
            process.kill()


@pytest.fixture
def server(running: RunningServer, monkeypatch: pytest.MonkeyPatch) -> RunningServer:
    monkeypatch.setenv(chat.KEY, SECRET)
    running.fail()
    return running


def translator(server: RunningServer, folder: Path, **settings: Any) -> EndpointTranslator:
    values = {"direction": "en>fr", "use": "generator", "url": server.url, "model": "tiny", "prompt": PROMPT}
    found = Imported.model_validate({**values, "retries": 3, **settings})
    made = EndpointTranslator.of(found, AnswerFile(folder / "imported" / "answers.jsonl"), None, torch.device("cpu"))
    return replace(made, client=replace(made.client, first_wait=0.01))


def translated(
    model: EndpointTranslator, how: Generate = GREEDY, key: int = 1, n: int = 1, texts: list[str] = TEXTS
) -> Translations:
    inputs = [HopInput(EN_FR, Sentences(None, "en", texts=texts))]
    return model.generate(inputs, how, DecodeLimits(), (key,), n)[0]


# -- translating ---------------------------------------------------------------------------------------------------


def test_it_fills_the_prompt_and_asks_once(server: RunningServer, tmp_path: Path) -> None:
    model = translator(server, tmp_path, names={"fr": "French"}, options={"stop": ["\n"]})
    before = len(server.seen())
    found = translated(model, texts=[*TEXTS, *TEXTS])
    asked = server.seen()[before:]
    assert {one["messages"][0]["content"] for one in asked} == {f"Translate en to French: {text}" for text in TEXTS}
    assert [one["temperature"] for one in asked] == [0, 0, 0] and asked[0]["stop"] == ["\n"]
    assert found.sentences.texts[:3] == found.sentences.texts[3:] and all(found.sentences.texts)
    again = translated(translator(server, tmp_path, names={"fr": "French"}, options={"stop": ["\n"]}), texts=TEXTS)
    assert again.sentences.texts == found.sentences.texts[:3] and again.ended.tolist() == found.ended.tolist()[:3]
    assert len(server.seen()) == before + 3, "the answers are in the file"
    assert SECRET not in (tmp_path / "imported" / "answers.jsonl").read_text()


def test_draws_have_keys(server: RunningServer, tmp_path: Path) -> None:
    model = translator(server, tmp_path)
    found = [translated(model, SAMPLE, key, n=2) for key in (1, 1, 2)]
    assert found[0].sentences.texts == found[1].sentences.texts != found[2].sentences.texts
    assert found[0].counts.tolist() == [2, 2, 2] and len(set(found[0].sentences.texts)) > 3
    elsewhere = translated(translator(server, tmp_path / "other"), SAMPLE, 1, n=2)
    assert elsewhere.sentences.texts == found[0].sentences.texts, "this server honours seeds"


def test_several_requests_are_under_way(server: RunningServer, tmp_path: Path) -> None:
    translated(translator(server, tmp_path, parallel=8), texts=[f"The cat number {one}." for one in range(24)])
    assert server.ask("/seen")["busiest"] > 1


def test_the_endpoint_has_no_scores(server: RunningServer, tmp_path: Path) -> None:
    sentences = Sentences(None, "en", texts=TEXTS)
    with pytest.raises(ConfigError, match="en>fr"):
        translator(server, tmp_path).score(EN_FR, sentences, sentences)


# -- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("faults", [["429", "500"], ["broken"], ["page"], ["slow"], ["wait0.05", "503"]])
def test_failures_that_pass(server: RunningServer, tmp_path: Path, faults: list[str]) -> None:
    server.fail(*faults)
    before = len(server.seen())
    model = translator(server, tmp_path, timeout=1.5 if "slow" in faults else 60)
    assert translated(model, texts=TEXTS[:1]).sentences.texts[0]
    assert len(server.seen()) == before + len(faults) + 1


@pytest.mark.parametrize(
    ("settings", "faults", "facts"),
    [
        ({"model": "other"}, [], ["404", "other", "model"]),
        ({}, ["500"] * 9, ["500", "4 attempts", "retries", "same command"]),
        ({}, ["broken"] * 9, ["chat completion", "4 attempts"]),
        ({"retries": 0, "timeout": 0.5}, ["slow"], ["timeout", "0.5"]),
        ({}, ["elsewhere"], ["307", "127.0.0.1:9", "url"]),
        ({"url": "http://127.0.0.1:9/v1", "retries": 1}, [], ["127.0.0.1:9", "2 attempts", "server running"]),
    ],
)
def test_failures_that_stay(
    server: RunningServer, tmp_path: Path, settings: dict[str, Any], faults: list[str], facts: list[str]
) -> None:
    server.fail(*faults)
    with pytest.raises(ExternalError) as caught:
        translated(translator(server, tmp_path, **settings), texts=TEXTS[:1])
    assert not missing(caught.value, *facts)


def test_a_wrong_key_is_named_but_not_shown(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(chat.KEY, "sk-wrong-0815")
    before = len(server.seen())
    with pytest.raises(ExternalError) as caught:
        translated(translator(server, tmp_path), texts=TEXTS[:1])
    assert not missing(caught.value, "401", chat.KEY, "refused") and "0815" not in str(caught.value)
    assert len(server.seen()) == before + 1, "it is not asked again"
    monkeypatch.delenv(chat.KEY)
    with pytest.raises(ExternalError, match=chat.KEY):
        translated(translator(server, tmp_path), texts=TEXTS[:1])


def test_the_key_is_sent_encrypted_or_within_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(chat.KEY, SECRET)
    with pytest.raises(ConfigError) as caught:
        chat.api_key("http://models.example.org/v1")
    assert not missing(caught.value, chat.KEY, "https") and SECRET not in str(caught.value)
    assert chat.api_key("https://models.example.org/v1") == SECRET == chat.api_key("http://localhost:8000/v1")


def test_one_failure_ends_the_waiting_of_others(server: RunningServer, tmp_path: Path) -> None:
    made = translator(server, tmp_path, retries=20, url="http://127.0.0.1:9/v1")
    waiting = replace(made, client=replace(made.client, first_wait=60.0))
    began = time.monotonic()
    waiting.client.stopping.set()
    with pytest.raises(ExternalError, match="1 attempt"):
        waiting.client.ask({"model": "tiny"})
    assert time.monotonic() - began < 30, "one wait would take at least 30 seconds"


def test_a_refusal_is_an_incomplete_translation(server: RunningServer, tmp_path: Path) -> None:
    server.fail("refusal")
    found = translated(translator(server, tmp_path), texts=TEXTS[:1])
    assert (found.sentences.texts, found.ended.tolist()) == ([""], [False])


# -- the file of answers ---------------------------------------------------------------------------------------------


def test_the_first_answer_counts_whoever_writes_it(tmp_path: Path) -> None:
    one, other = (AnswerFile(tmp_path / "folder" / "answers.jsonl") for _ in range(2))
    one.add("key", Answer("first\u2028line", True))
    other.add("key", Answer("second", True))
    assert one.find(["key"]) == other.find(["key"]) == {"key": Answer("first\u2028line", True)}
    with one.file.open("ab") as stream:
        stream.write(b'{"key": "torn", "te')
    other.add("last", Answer("", False))
    assert AnswerFile(one.file).find(["key", "torn", "last"]).keys() == {"key", "last"}
    with one.file.open("ab") as stream:
        stream.write(b'[1]\n{"key": 1, "text": "", "ended": true}\n{"key": "k", "text": "t", "ended": 1}\n')
    assert AnswerFile(one.file).find(["key", "k", "1"]).keys() == {"key"}


# -- training --------------------------------------------------------------------------------------------------------


@pytest.fixture
def loop(text: Path, tmp_path: Path) -> Callable[..., TrainOptions]:
    """A loop home over the endpoint."""

    def make(url: str, name: str = "run") -> TrainOptions:
        entry = f'[[imported]]\ndirection = "en>fr"\nuse = "generator"\nurl = "{url}"\nmodel = "tiny"\n'
        entry += f'prompt = "{PROMPT}"\nretries = 1\n[guards]\nfilters = []\n'
        mix = '{ path = "en>fr>en", generate = { by = "frozen" } }'
        file = tmp_path / f"{name}.toml"
        file.write_text(experiment_text(text, imported=entry, mix=mix).replace('"bi.en-fr" }', '"bi.en-fr[0:40]" }'))
        return TrainOptions(file, tmp_path / name)

    return make


def weights(request: TrainOptions) -> dict[str, torch.Tensor]:
    assert request.run
    return dict(Run(request.run).stage("first").result().tensors["weights"])


def test_a_loop_over_an_endpoint_resumes_to_the_same_bits(
    server: RunningServer, loop: Callable[..., TrainOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, cut = len(server.seen()), loop(server.url)
    while not train(replace(cut, stop_after=0.0), Silent()):
        pass
    assert cut.run
    asked = [json.dumps(one, sort_keys=True) for one in server.seen()[before:]]
    assert len(set(asked)) == len(asked) > 20, "no question is asked twice"
    found = weights(cut)
    monkeypatch.delenv(chat.KEY)
    stage = Run(cut.run).stage("first")
    assert {"en>fr>en"} == {path for one in stage.records() if one["kind"] == "train" for path in one["loss"]}
    shutil.rmtree(stage.folder)
    whole = loop("http://127.0.0.1:9/v1")  # the address may change, and all answers are in the run
    assert train(whole, Silent())
    expected = weights(whole)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    for file in cut.run.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_an_endpoint_that_fails_is_refused_before_any_work(
    loop: Callable[..., TrainOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(chat.KEY, raising=False)
    request = loop("http://127.0.0.1:9/v1")
    with pytest.raises(ExternalError) as caught:
        train(request, Silent())
    assert not missing(caught.value, "127.0.0.1:9") and request.run
    assert not (request.run / "store").exists()


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "facts"),
    [
        ({"url": "ftp://host/v1"}, ["url", "ftp://host/v1", "http://"]),
        ({"url": "http://me:sesame@host/v1"}, ["url", chat.KEY]),
        ({"url": "http://host/v1?api_key=abc"}, ["url", chat.KEY]),
        ({"url": "http://host:port/v1"}, ["url", "port"]),
        ({"model": None}, ["model"]),
        ({"prompt": "Translate"}, ["prompt", "{text}"]),
        ({"prompt": None}, ["prompt", "{text}"]),
        ({"use": "start"}, ["endpoint", "generator"]),
        ({"url": None}, ["model", "url"]),
        ({"options": {"messages": []}}, ["options.messages", "prompt"]),
        ({"options": {"api_key": "abc"}}, ["options.api_key", chat.KEY]),
    ],
)
def test_settings_that_cannot_be(text: Path, entry: dict[str, Any], facts: list[str]) -> None:
    values = {"direction": "en>fr", "use": "generator", "url": "http://host/v1", "model": "m", "prompt": PROMPT}
    lines = [f"{key} = {_toml(value)}" for key, value in {**values, **entry}.items() if value is not None]
    mix = '{ path = "en>fr>en", generate = { by = "frozen" } }'
    with pytest.raises(LoopmtError) as caught:
        loads(experiment_text(text, mix=mix, imported="[[imported]]\n" + "\n".join(lines)))
    assert not missing(caught.value, *facts)
    assert "sesame" not in str(caught.value) and "abc" not in str(caught.value)


def test_an_endpoint_has_no_beam(text: Path) -> None:
    entry = '[[imported]]\ndirection = "en>fr"\nuse = "generator"\nurl = "http://host/v1"\nmodel = "m"\n'
    mix = '{ path = "en>fr>en", generate = { by = "frozen", how = "beam" } }'
    with pytest.raises(ConfigError) as caught:
        loads(experiment_text(text, mix=mix, imported=f'{entry}prompt = "{PROMPT}"'))
    assert not missing(caught.value, "en>fr", "beam", "greedy", "sample")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_toml(one)}' for key, one in value.items())} }}"
    return json.dumps(value)
