"""One tiny experiment for all tests: three toy languages of a few words, each with its own word order.

`tiny_experiment_file` and `tiny_run` are made once per session, in about six seconds: read them, never write into them;
`shutil.copytree` what a test must change.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
import torch
from hypothesis import settings

from loopmt.cli import main
from loopmt.progress import Silent
from loopmt.rng import numpy_generator
from loopmt.workflow.train import TrainOptions, train

torch.set_num_threads(1)  # matrices this small lose by more
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to Ctrl-C
os.environ.pop("COLUMNS", None)  # pytest-xdist gives its workers one, and tables would come in parts

# A submission is judged on the same cases every time; anywhere else hypothesis looks for new ones. A busy machine is
# no failure, so no case has a deadline.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

WORDS = {  # nouns, adjectives, verbs, article and full stop, adverbs
    "en": "cat dog bird fish child king | red old small kind | sees hears likes finds | the . | today often never",
    "fr": "chat chien oiseau poisson enfant roi | rouge vieux petit gentil | voit entend aime trouve | le . | "
    "aujourd'hui souvent jamais",
    "es": "gato perro pájaro pez niño rey | rojo viejo pequeño amable | ve oye quiere encuentra | el . | "
    "hoy siempre nunca",
}
ORDERS = {  # of article 0, subject 1, its adjective 2, verb 3, object 4, its adjective 5, adverb 6
    "en": (0, 2, 1, 3, 0, 5, 4, 6),
    "fr": (0, 1, 2, 6, 3, 0, 4, 5),
    "es": (6, 3, 0, 1, 2, 0, 4, 5),
}
EXPERIMENT = """
languages = ["en", "fr", "es"]
seed = 1

[data]
root = "text"
bitext = { "en-fr" = "bi.en-fr", "en-es" = "bi.en-es", "fr-es" = "bi.fr-es" }
mono = { en = "mono", fr = "mono", es = "mono" }
valid = "valid"
test = "test"

[vocab]
size = 360

[model]
preset = "tiny"
layers = 1
width = 32
feed_forward = 64
heads = 2
dropout = 0.0

[train]
tokens = 512
max_length = 40
shapes = 2
round = 8
learning_rate = 0.01
warmup = 20
validate_every = 60
validate_sentences = 16
log_every = 20
continued = { learning_rate = 1e-3, warmup = 4 }

[[stage]]
name = "vanilla"
mix = ["X>Y"]
updates = 120

[[stage]]
name = "vanilla-longer"
from = "vanilla"
mix = ["X>Y"]
updates = 16

[[stage]]
name = "dual"
from = "vanilla"
mix = ["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]
updates = 16

[[compare]]
of = "dual"
against = "vanilla-longer"
"""

Meaning = tuple[int, ...]


def say(meaning: Meaning, language: str) -> str:
    """A sentence of a toy language: word by word, in the language's order."""
    nouns, adjectives, verbs, fixed, adverbs = (kind.split() for kind in WORDS[language].split("|"))
    subject, adjective, verb, thing, other, adverb = meaning
    places = [fixed[0], nouns[subject], adjectives[adjective], verbs[verb], nouns[thing], adjectives[other]]
    words = [*places, adverbs[adverb]]
    sentence = " ".join(words[place] for place in ORDERS[language])
    return sentence[0].upper() + sentence[1:] + fixed[1]


def draw_meanings(count: int) -> list[Meaning]:
    everything = list(itertools.product(range(6), range(4), range(4), range(6), range(4), range(3)))
    order = numpy_generator("toy", "meanings").permutation(len(everything))
    return [everything[place] for place in order[:count]]


def write_side(folder: Path, name: str, language: str, meanings: Sequence[Meaning]) -> None:
    text = "".join(say(meaning, language) + "\n" for meaning in meanings)
    (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def write_corpora(folder: Path) -> None:
    folder.mkdir(parents=True)
    meanings = iter(draw_meanings(2000))
    for pair in ("en-fr", "en-es", "fr-es"):
        own = list(itertools.islice(meanings, 240))
        for language in pair.split("-"):
            write_side(folder, f"bi.{pair}", language, own)
    for language in WORDS:
        write_side(folder, "mono", language, list(itertools.islice(meanings, 240)))
    for name in ("valid", "test"):
        own = list(itertools.islice(meanings, 40))
        for language in WORDS:
            write_side(folder, name, language, own)


@pytest.fixture(scope="session")
def tiny_experiment_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment file beside its text; nothing is prepared yet."""
    folder = tmp_path_factory.mktemp("tiny")
    write_corpora(folder / "text")
    file = folder / "tiny.toml"
    file.write_text(EXPERIMENT, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def tiny_run(tiny_experiment_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the tiny experiment: stages vanilla, vanilla-longer and dual."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert train(TrainOptions(tiny_experiment_file, folder), Silent())
    return folder


@pytest.fixture
def legacy(tmp_path: Path) -> Path:
    """A copy of the run that an older version trained, with new modification times, as after a checkout."""
    kept = Path(__file__).parent / "data" / "legacy-run"
    return Path(shutil.copytree(kept, tmp_path / "legacy", copy_function=shutil.copyfile))


class AskFor(Protocol):
    def __call__(self, stages: str, *overrides: str, parent: bool = True) -> TrainOptions:
        """A request to train `stages`, TOML; with `parent`, after the stage vanilla, which is there already."""


@pytest.fixture
def ask_for(tiny_experiment_file: Path, tiny_run: Path, tmp_path: Path) -> AskFor:
    """Other stages on the tiny experiment's prepared text, each test in a run folder of its own."""

    def ask(stages: str, *overrides: str, parent: bool = True) -> TrainOptions:
        folder = tmp_path / f"asked{len(list(tmp_path.iterdir()))}"
        shutil.copytree(tiny_run, folder / "run", ignore=shutil.ignore_patterns("stages", ".lock"))
        (folder / "text").symlink_to(tiny_experiment_file.parent / "text")
        head, vanilla, *_ = EXPERIMENT.split("[[stage]]")
        if parent:
            head += f"[[stage]]{vanilla}"
            shutil.copytree(tiny_run / "stages" / "vanilla", folder / "run" / "stages" / "vanilla")
        (folder / "tiny.toml").write_text(head + stages, encoding="utf-8")
        return TrainOptions(folder / "tiny.toml", folder / "run", overrides)

    return ask


@pytest.fixture(scope="module")
def references() -> dict[str, TrainOptions]:
    return {}


@pytest.fixture
def reference(request: pytest.FixtureRequest, ask_for: AskFor, references: dict[str, TrainOptions]) -> TrainOptions:
    """The STAGE of a module trained in one go, once for all its tests."""
    if "whole" not in references:
        references["whole"] = ask_for(request.module.STAGE)
        assert train(references["whole"], Silent())
    return references["whole"]


# -- verbs as typed -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cli:
    """The command line in this process: loading torch anew for each call would take seconds."""

    def call(*words: object, stdin: str | bytes = "") -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["loopmt", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capfd.readouterr()
        return Outcome(stop.value.code if isinstance(stop.value.code, int) else 0, captured.out, captured.err)

    return call


def contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
