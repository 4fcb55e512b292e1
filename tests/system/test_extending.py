"""The examples of docs/extending.md and docs/comet.md, as a reader would run them."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from sacrebleu import sentence_chrf

from helpers.digests import ONE_THREAD
from helpers.extended import PACKAGE
from helpers.paths import DOCS
from helpers.stages import ASK, records, stage
from loopmt.config import loads
from loopmt.workflow.train import TrainOptions

PAGE = "\n".join((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("extending", "comet"))
LOOPS = '["X>Y", { path = "X>Y>X", generate = { how = "greedy" } }]'
MOST_LINES = 30
COMET = """
from types import SimpleNamespace

def download_model(name):
    print("downloading", name)
    return name

def load_from_checkpoint(path):
    print("loading", path)
    return SimpleNamespace(predict=lambda data, batch_size, gpus: SimpleNamespace(
        scores=[float(row["mt"] == row["ref"]) / len(row["src"]) for row in data]
    ))
"""


def blocks(language: str, section: str = "") -> list[str]:
    """The blocks of a language on the page, or in one of its sections."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0] if section else PAGE
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(section: str) -> list[str]:
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^    (loopmt .*)$", text, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, each under the name in its first line, and text to score."""
    for block in blocks("python"):
        (tmp_path / block.split("\n")[0].removeprefix("# ")).write_text(block, encoding="utf-8")
    (tmp_path / "hypotheses.fr").write_text("le chat dort\noui\n", encoding="utf-8")
    (tmp_path / "references.fr").write_text("le chat dort bien\nnon\n", encoding="utf-8")
    return tmp_path


def run(folder: Path, command: str, **environment: str) -> str:
    """What a command prints that is typed in a folder."""
    words = command.replace("loopmt ", f"{sys.executable} -m loopmt ", 1)
    done = subprocess.run(
        ["bash", "-c", words],
        cwd=folder,
        env={**ONE_THREAD, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(folder: Path, ask_for: ASK, settings: str) -> TrainOptions:
    """Train loops on the tiny experiment with a table of the page, from the page's folder."""
    request: TrainOptions = ask_for(stage(LOOPS, tokens=1024))
    request.file.write_text(request.file.read_text(encoding="utf-8") + settings, encoding="utf-8")
    run(folder, f"loopmt train {request.file} --run {request.run}")
    return request


def test_examples_are_short_and_say_their_file() -> None:
    found = blocks("python")
    assert len(found) >= 4
    assert all(re.fullmatch(r"# \w+\.py", block.split("\n")[0]) for block in found)
    assert all(block.count("\n") <= MOST_LINES for block in found)


def test_every_table_can_be_read() -> None:
    head, data = (
        'languages = ["en", "fr"]\n',
        '[data]\nbitext = { "en-fr" = "x" }\nmono = { en = "m", fr = "m" }\nvalid = "v"\n',
    )
    one = '[[stage]]\nname = "one"\nmix = ["X>Y"]\nupdates = 1\n'
    tables = [block if "[data]" in block else data + block for block in blocks("toml")]
    assert [loads(head + table + ("" if "[[stage]]" in table else one)) for table in tables]


def test_a_metric(folder: Path) -> None:
    typed, evaluated = commands("A metric")
    scored = json.loads(run(folder, f"{typed} --json"))
    assert scored["length_error"]["score"] == 2.5
    assert "length error" in run(folder, typed) and "--metric my_metrics:length_error" in evaluated


def test_a_metric_of_an_experiment(folder: Path, ask_for: ASK) -> None:
    request = train(folder, ask_for, *blocks("toml", "A metric"))
    printed = run(folder, f"loopmt evaluate {request.run} --verbose --beam 1 --samples 20", LOOPMT_ALLOW_CODE="1")
    assert "length error ↓" in printed and "p (chrF2)" not in printed, "there is no comparison here"
    assert request.run is not None
    card = json.loads((request.run / "scorecard.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in card["metrics"]] == ["chrf", "multi_bleu", "length_error"]
    assert "test chrF2" in run(folder, f"loopmt show {request.run}"), "no code is run to show it"


def test_comet_in_its_own_environment(folder: Path) -> None:
    """A stand-in for the package, since its models weigh gigabytes; it prints as the real one does."""
    (folder / "comet.py").write_text(COMET, encoding="utf-8")
    (table,) = blocks("toml", "Run it as a program")
    use = re.search(r'use = "([^"]+)"', table)
    assert use
    program = use[1].replace("~/comet/bin/python", sys.executable)
    (folder / "sources.en").write_text("cat\nyes\n", encoding="utf-8")
    (folder / "hypotheses.fr").write_text("le chat\nnon\n", encoding="utf-8")
    words = f'loopmt score hypotheses.fr references.fr --sources sources.en --metric "{program}" --json'
    found: dict[str, Any] = json.loads(run(folder, words))
    assert found[program]["score"] == pytest.approx(1 / 3 / 2)


def test_other_programs(folder: Path) -> None:
    chrf, counted = commands("A metric that is a program")
    for typed, expected in ((counted, (12 + 3) / 2), (chrf, None)):
        found = json.loads(run(folder, f"{typed.replace('python ', sys.executable + ' ')} --json"))
        (score,) = [one["score"] for name, one in found.items() if name.startswith("command:")]
        pairs = [("le chat dort", "le chat dort bien"), ("oui", "non")]
        mean = sum(sentence_chrf(given, [wanted]).score for given, wanted in pairs) / 2
        assert score == pytest.approx(mean if expected is None else expected)


def test_a_filter(folder: Path, ask_for: ASK) -> None:
    source = (folder / "my_filters.py").read_text(encoding="utf-8")
    assert "output.isupper()" in source
    (folder / "my_filters.py").write_text(source.replace("output.isupper()", '"a" in output'), encoding="utf-8")
    request = train(folder, ask_for, *blocks("toml", "A filter"))
    watched = [watch for record in records(request) for watch in record["guards"]]
    assert list(watched[0]["dropped"])[-2:] == ["repetition", "my_filters:shouting"]
    assert sum(watch["dropped"]["my_filters:shouting"] for watch in watched) > 0


def test_an_alarm(folder: Path, ask_for: ASK) -> None:
    settings = blocks("toml", "An alarm")[0].replace("[guards]", '[guards]\nfilters = ["my_filters:everything"]')
    text = (
        "import numpy as np\ndef everything(sources, outputs, *rest):\n    return np.ones(len(outputs), dtype=bool)\n"
    )
    (folder / "my_filters.py").write_text(text, encoding="utf-8")
    settings = settings.replace('"dropped", ', "")
    request = train(folder, ask_for, settings)
    alarms = records(request, "alarm")
    assert alarms and all("only 0% of the generated subwords are kept" in alarm["what"] for alarm in alarms)


def test_a_utility_of_candidates(folder: Path, ask_for: ASK) -> None:
    (table,) = blocks("toml", "A utility of candidates")
    (mix,) = re.findall(r"^mix = (.*)$", table, re.MULTILINE)
    request: TrainOptions = ask_for(stage(mix, tokens=128, updates=2))
    run(folder, f"loopmt train {request.file} --run {request.run}")
    assert records(request)[0]["generated_tokens"] > 0
    words = f"loopmt translate {request.run} 'en>fr' hypotheses.fr --rerank my_utilities:same_length"
    assert len(run(folder, words).splitlines()) == 2


def test_an_objective(folder: Path, ask_for: ASK) -> None:
    """It flattens the distributions that are learnt, unless its weight is 0."""
    (table,) = blocks("toml", "An objective")
    source = (folder / "my_objectives.py").read_text(encoding="utf-8")
    (folder / "my_free_objectives.py").write_text(source.replace("(0.1)", "(0.0)"), encoding="utf-8")
    found = []
    for module in ("my_objectives", "my_free_objectives"):
        key = table.removeprefix("[train]\n").strip().replace("my_objectives", module)
        request: TrainOptions = ask_for(stage('["X>Y"]', tokens=128).replace("train = {", f"train = {{ {key},"))
        run(folder, f"loopmt train {request.file} --run {request.run}")
        found.append(records(request)[-1]["loss"])
    penalised, free = found
    assert penalised.keys() == free.keys() and penalised != free


def test_a_translator(folder: Path, ask_for: ASK) -> None:
    """Its translations are learnt from as those of a network are."""
    for source, target in permutations(("en", "fr", "es"), 2):
        (folder / f"words.{source}-{target}").write_text(f"The\tLe\ncat\t{target}ZQ\n", encoding="utf-8")
    (table,) = blocks("toml", "A translator")
    (mix,) = re.findall(r"^mix = (.*)$", table, re.MULTILINE)
    request: TrainOptions = ask_for(stage(mix, tokens=128, updates=2))
    run(folder, f"loopmt train {request.file} --run {request.run}")
    (record,) = records(request)
    assert record["generated_tokens"] > 0 and {watch["hop"] for watch in record["guards"]} >= {"en>fr", "fr>en"}


def test_a_tracker(folder: Path, ask_for: ASK) -> None:
    (table,) = blocks("toml", "A tracker")
    key = table.removeprefix("[train]\n").strip()
    request: TrainOptions = ask_for(stage('["X>Y"]', tokens=64, updates=4).replace("train = {", f"train = {{ {key},"))
    run(folder, f"loopmt train {request.file} --run {request.run}")
    written = [json.loads(line) for line in (folder / "loops.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [one["update"] for one in written] == [4, 4] and "loss/en>fr" in written[0]
    assert request.run is not None and list((request.run / "tensorboard" / "loops").iterdir())


def test_a_corpus_format(folder: Path) -> None:
    rows = [("The cat sleeps.", "Le chat dort."), ("A dog, a bird.", "Un chien, un oiseau."), ("Yes.", "Oui.")]
    text = "fr,id,en\n" + "".join(f'"{fr}",{number},"{en}"\n' for number, (en, fr) in enumerate(rows))
    (folder / "bi.csv.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "valid.csv").write_text(text + '"Non.",4,"No."\n')
    (table,) = blocks("toml", "A corpus format")
    stages = 'languages = ["en", "fr"]\nvocab.size = 320\nstage = [{ name = "one", mix = ["X>Y"], updates = 1 }]\n'
    (folder / "exp.toml").write_text(stages + table + "clean.overlap = false\n")
    run(folder, "loopmt prepare exp.toml --run run")
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert [(one["rows"], one["kept"]) for one in manifest["corpora"]] == [(3, 3)]
    (valid,) = (folder / "run" / "store").glob("set*.fr.txt")
    assert valid.read_text().splitlines() == [*(fr for _, fr in rows), "Non."]
    (folder / "valid.csv").write_text("en,de\nYes.,Ja.\n")
    done = subprocess.run(
        [sys.executable, "-m", "loopmt", "prepare", "exp.toml", "--run", "other"],
        cwd=folder,
        env=ONE_THREAD,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "valid.csv, line 2 has no fr" in done.stderr and "Traceback" not in done.stderr


ADDED = {  # where the new file lies, what it registers, and the file that imports it
    "evaluation/added.py": ("from loopmt.evaluation.metric import metric\n@metric('added')\n", "evaluation/metrics.py"),
    "translate/added.py": (
        "from loopmt.translate.filters import text_filter\n@text_filter('added')\n",
        "translate/filters.py",
    ),
    "text/added.py": ("from loopmt.text.format import corpus_format\n@corpus_format('added')\n", "text/formats.py"),
    "learn/added.py": ("from loopmt.learn.alarms import alarm\n@alarm('added')\n", "learn/alarms.py"),
}


def test_a_name_of_its_own_needs_a_file_and_its_import(tmp_path: Path) -> None:
    """In a copy of the package; each is then among the names that an unknown one lists."""
    package = tmp_path / "loopmt"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for new, (text, importer) in ADDED.items():
        (package / new).write_text(f"{text}def added(*values):\n    return None\n", encoding="utf-8")
        with (package / importer).open("a", encoding="utf-8") as file:
            file.write(f"\nimport loopmt.{new.removesuffix('.py').replace('/', '.')}\n")
    names = "FILTERS, ALARMS, METRICS, FORMATS"
    code = (
        "from loopmt.translate.filters import FILTERS; from loopmt.learn.alarms import ALARMS; "
        "from loopmt.text.formats import FORMATS; "
        f"from loopmt.evaluation.metrics import METRICS; print([list(one)[-1] for one in ({names})])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**ONE_THREAD, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.stdout.strip() == str(["added"] * 4), done.stderr
