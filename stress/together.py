"""Every pair of verbs at the same time on one run: `python -m stress.together --out docs/results/stress/together.json`.

Two processes begin at the same moment, and every access to a file of the run is slowed down. What each verb prints must
be what it prints alone or after the other one, and every file of the run must be as after one of the two orders. One of
the two may also be refused: exit code 2 and a line that says why.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import platform
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import httpx
import torch

from loopmt.cli import main as main_of_loopmt
from stress.checks import run_verb
from stress.kills import TIMED

HERE = Path(__file__).parent
EXPERIMENT = HERE / "together.toml"
LAST = "dual"  # the stage that is still to be trained
TEXT = "The small child hears the kind cat.\nThe old king sees the red house.\n"
_TIMEOUT = 600.0  # seconds of a verb
_SERVED = 2.0  # seconds that a server answers requests
_ACCESS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir", "shutil.rmtree"}
_LONGEST = 0.005  # seconds that an access waits
_ADDRESS = re.compile(r"at (http://\S+?)/? ")
_CHANGING = {*TIMED, "metrics_bytes", "process", "run", "next"}  # keys of JSON that differ between equal executions
_REFUSED = re.compile(r"^loopmt: .* in use by another process \(pid (\d+|unknown)\)|^loopmt: .*exists already")
Facts = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """What a verb printed, or the problem that it had."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        last = self.err.splitlines()[-1:]
        return self.code == 2 and "Traceback" not in self.err and bool(last and _REFUSED.search(last[0]))


# -- verbs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verb:
    """A command, and what it tells."""

    words: str
    stdin: str = ""
    result: Callable[[str, Path], Any] = lambda out, folder: without_times(json.loads(out))


def _page(out: str, folder: Path) -> str:
    """A report tells what it found at one moment; here it must be whole."""
    return (folder / "page.html").read_text(encoding="utf-8").rstrip()[-7:]


def _overview(out: str, folder: Path) -> Facts:
    """By stage. A stage that is being trained is anywhere between its first and its last update."""
    found = without_times(json.loads(out))
    stages = {f"stage {one['name']}": one for one in found.pop("stages")}
    under_way = [name for name, one in stages.items() if one["state"] == "begun" and one["update"] <= one["updates"]]
    return {**found, **{name: one for name, one in stages.items() if name not in under_way}}


def _files(out: str, folder: Path) -> Facts:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != ".lock"]
    return {str(file.relative_to(folder)): _digest(file) for file in files}


VERBS = {
    "train": Verb("train {file} --run {run}", result=lambda out, folder: out.startswith("finished")),
    "evaluate": Verb("evaluate {run} --beam 1 --samples 10 --json"),
    "analyze": Verb("analyze {run} --beam 1 --sentences 12 --json"),
    "plan": Verb("plan {run} --beam 1 --sentences 12 --json"),
    "report": Verb("report {run} --beam 1 --sentences 6 --out {out}/page.html", result=_page),
    "show": Verb("show {run} --json", result=_overview),
    "generate": Verb("generate {run} en>fr>en --limit 40 --chunk 10 --out {out}/rows", result=_files),
    "export": Verb("export {run} --to hf --out {out}/exported --sentences 4", result=_files),
    "serve": Verb("serve {run} --port 0 --backend loopmt --beam 1", result=lambda out, folder: json.loads(out)),
    "translate": Verb("translate {run} en>fr --beam 1", TEXT, result=lambda out, folder: out),
}


def words_of(verb: str, file: Path, run: Path, out: Path) -> list[str]:
    return [part.format(file=file, run=run, out=out) for part in VERBS[verb].words.split()]


# -- processes -----------------------------------------------------------------------------------------------------


class Process:
    """A verb in a process of its own. It is forked, so that two of them begin their work at the same moment."""

    def __init__(self, verb: str, file: Path, run: Path, out: Path) -> None:
        out.mkdir(exist_ok=True)
        self._streams = Path(tempfile.mkdtemp(dir=out.parent))
        (self._streams / "0").write_text(VERBS[verb].stdin, encoding="utf-8")
        self.id = os.fork()
        if not self.id:
            self._become(words_of(verb, file, run, out), run)

    def _become(self, words: Sequence[str], run: Path) -> None:
        code = 1
        try:
            for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)):
                os.dup2(os.open(self._streams / str(number), mode), number)
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
            sys.argv = ["loopmt", *words]
            random.seed(os.getpid())
            sys.addaudithook(functools.partial(_wait, str(run)))
            main_of_loopmt()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)

    @property
    def err(self) -> str:
        file = self._streams / "2"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @functools.cached_property
    def code(self) -> int:
        """Waits for the end."""
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            found, status = os.waitpid(self.id, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)
        os.kill(self.id, signal.SIGKILL)
        os.waitpid(self.id, 0)
        return -signal.SIGKILL

    def end(self) -> Ended:
        code = self.code
        return Ended(code, (self._streams / "1").read_text(encoding="utf-8"), self.err)


def _wait(run: str, event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: every access to a file of the run takes some milliseconds. loopmt knows nothing of it."""
    if event in _ACCESS and arguments and str(arguments[0]).startswith(run):
        time.sleep(random.random() * _LONGEST)


def end(verb: str, process: Process) -> Ended:
    return _served(process) if verb == "serve" else process.end()


def _served(process: Process) -> Ended:
    """Ask a server for some seconds, then stop it. What it tells are its translations, which are always the same."""
    address, deadline = None, time.monotonic() + _TIMEOUT
    while not address and "loopmt: " not in process.err and time.monotonic() < deadline:
        time.sleep(0.02)
        address = _ADDRESS.search(process.err)
    answers = set()
    if address:
        with httpx.Client(base_url=address[1], timeout=60, trust_env=False) as client:
            over = time.monotonic() + _SERVED
            while time.monotonic() < over:
                answers.add(_asked(client))
    os.kill(process.id, signal.SIGTERM)
    return replace(process.end(), out=json.dumps(sorted(answers)))


def _asked(client: httpx.Client) -> str:
    found = client.post("/translate", json={"path": "en>fr", "texts": TEXT.splitlines()})
    others = [client.get(f"/watch?stage={LAST}"), client.get("/health")]
    states = {one.status_code for one in (found, *others)}
    return json.dumps([one["text"] for one in found.json()["translations"]]) if states == {200} else str(states)


# -- what is compared ----------------------------------------------------------------------------------------------


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items() if key not in _CHANGING}
    return [without_times(item) for item in value] if isinstance(value, list) else value


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def facts_of(run: Path) -> Facts:
    """Every file of a run, without what differs between equal executions."""
    files = {str(file.relative_to(run)): file for file in sorted(run.rglob("*")) if file.is_file()}
    return {name: _fact(file) for name, file in files.items() if file.name != ".lock"}


def _fact(file: Path) -> Any:
    if file.suffix == ".json":
        return without_times(json.loads(file.read_text(encoding="utf-8")))
    if file.suffix == ".jsonl":
        return [without_times(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    return "a page" if file.name == "report.html" else _digest(file)


@dataclass(frozen=True)
class Reference:
    """A verb that ran alone, what it told, and the run that it left."""

    result: Any
    run: Path
    facts: Facts


class Sequences:
    """What verbs tell, and leave, one after another."""

    def __init__(self, file: Path, run: Path, scratch: Path) -> None:
        self.file, self.run, self.scratch = file, run, scratch
        self.before = facts_of(run)

    @functools.cache  # noqa: B019 - as long as the process
    def alone(self, verb: str) -> Reference:
        return self._run(verb, self.run, self.scratch / verb)

    @functools.cache  # noqa: B019
    def after(self, first: str, second: str) -> Reference:
        """A verb that left the run as it was has no effect on others."""
        begun = self.alone(first)
        if begun.facts == self.before and first != second:
            return self.alone(second)
        return self._run(second, begun.run, self.scratch / f"{first}-{second}", first)

    def _run(self, verb: str, run: Path, folder: Path, first: str = "") -> Reference:
        copy = Path(shutil.copytree(run, folder / "run"))
        ended = self._ended(verb, copy, folder)
        if ended.code:
            raise RuntimeError(f"{verb} {f'after {first} ' if first else ''}ended with {ended.code}: {ended.err}")
        return Reference(VERBS[verb].result(ended.out, folder), copy, facts_of(copy))

    def _ended(self, verb: str, run: Path, folder: Path) -> Ended:
        if verb == "serve":
            return end(verb, Process(verb, self.file, run, folder))
        done = run_verb(words_of(verb, self.file, run, folder), VERBS[verb].stdin.encode())
        return Ended(done.code, done.out.decode(), done.err)


# -- pairs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two verbs that ran at the same time, and everything that no sequence of them explains."""

    verbs: tuple[str, str]
    refused: bool
    problems: list[str]
    seconds: float


def together(sequences: Sequences, one: str, other: str, folder: Path) -> Pair:
    """Equal verbs also have the same --out."""
    run = Path(shutil.copytree(sequences.run, folder / "run"))
    outs = [folder / "one", folder / ("one" if one == other else "other")]
    began = time.monotonic()
    processes = [Process(verb, sequences.file, run, out) for verb, out in zip((one, other), outs, strict=True)]
    with ThreadPoolExecutor() as pool:
        ended = list(pool.map(end, (one, other), processes))
    seconds = time.monotonic() - began
    refused = [found.refused for found in ended]
    problems = list(_problems(sequences, (one, other), ended, outs))
    problems += _files_unexplained(sequences, (one, other), facts_of(run))
    return Pair((one, other), any(refused), problems, round(seconds, 1))


def _problems(
    sequences: Sequences, verbs: tuple[str, str], ended: Sequence[Ended], outs: Sequence[Path]
) -> Iterator[str]:
    if all(found.refused for found in ended):
        yield f"both were refused: {ended[0].err}"
    for verb, other, found, out in zip(verbs, verbs[::-1], ended, outs, strict=True):
        if found.refused:
            continue
        if found.code or "Traceback" in found.err:
            yield f"{verb} ended with {found.code}: {found.err[-500:]}"
            continue
        result, options = VERBS[verb].result(found.out, out), [sequences.alone(verb).result]
        options.append(sequences.after(other, verb).result)
        if not explained(result, options):
            yield f"{verb} told what it tells neither alone nor after {other}: {json.dumps(result)[:300]}"


def explained(found: Any, options: Sequence[Any]) -> bool:
    """Whether it is one of the options; of a table each entry by itself."""
    if found in options:
        return True
    if not all(isinstance(one, dict) for one in (found, *options)):
        return False
    return all(any(key in one and one[key] == value for one in options) for key, value in found.items())


def _files_unexplained(sequences: Sequences, verbs: tuple[str, str], found: Facts) -> Iterator[str]:
    """Files that are not as after one of the two orders, and files that each of these has and the run has not."""
    orders = [sequences.after(*verbs).facts, sequences.after(*verbs[::-1]).facts]
    if verbs[0] == verbs[1]:
        orders.append(sequences.alone(verbs[0]).facts)
    for name, fact in found.items():
        there = [facts[name] for facts in orders if name in facts]
        kept = name.startswith("analysis/") and there and _subset(fact, there)
        if fact not in there and not kept:
            yield f"{name} is as after neither order: {json.dumps(fact)[:300]}"
    yield from (f"{name} is missing" for name in orders[0] if name not in found and all(name in one for one in orders))


def _subset(fact: Mapping[str, Any], options: Sequence[Mapping[str, Any]]) -> bool:
    """Kept translations of two verbs: one may have written without those of the other, which are made again."""
    known = [one["translations"].items() for one in options]
    return all(any(item in one for one in known) for item in fact["translations"].items())


# -- all of them ---------------------------------------------------------------------------------------------------


def make_run(scratch: Path, file: Path = EXPERIMENT) -> Path:
    """A run in which every stage but the last one is finished."""
    done = run_verb(["train", str(file), "--run", str(scratch / "run"), "--only", "vanilla", "--only", "control"])
    if done.code:
        raise RuntimeError(done.err)
    return scratch / "run"


def all_pairs(sequences: Sequences, verbs: Sequence[str], rounds: int) -> Iterator[Pair]:
    for one, other in [*combinations_with_replacement(verbs, 2)] * rounds:
        with tempfile.TemporaryDirectory(dir=sequences.scratch) as folder:
            yield together(sequences, one, other, Path(folder))


def summary(pairs: Sequence[Pair], command: str) -> dict[str, Any]:
    return {
        "command": command,
        "machine": f"{os.cpu_count()} shared cores, one thread per process, load {os.getloadavg()[0]:.1f}",
        "versions": {"python": platform.python_version(), "torch": version("torch"), "loopmt": version("loopmt")},
        "date": datetime.now(UTC).date().isoformat(),
        "pairs": len(pairs),
        "as_in_sequence": sum(not pair.problems for pair in pairs),
        "one_refused": sum(pair.refused for pair in pairs),
        "each": [vars(pair) for pair in pairs],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbs", nargs="+", choices=list(VERBS), default=list(VERBS))
    parser.add_argument("--rounds", type=int, default=1, help="how often each pair")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory() as scratch:
        sequences = Sequences(EXPERIMENT, make_run(Path(scratch)), Path(scratch))
        for pair in all_pairs(sequences, asked.verbs, asked.rounds):
            pairs.append(pair)
            state = "DIFFERENT" if pair.problems else "one refused" if pair.refused else "as in sequence"
            print(f"{state:<15}{' and '.join(pair.verbs)} ({pair.seconds} s)", *pair.problems, sep="\n  ", flush=True)
            if asked.out:
                result = summary(pairs, f"python -m stress.together --rounds {asked.rounds}")
                asked.out.parent.mkdir(parents=True, exist_ok=True)
                asked.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(pair.problems for pair in pairs))


if __name__ == "__main__":
    main()
