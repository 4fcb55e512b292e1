"""Fuzzing: `python -m stress.fuzz --cases 10000 --out docs/results/stress/fuzz.json`.

It feeds experiment files, overrides, patterns, corpora, text to translate, files to score, runs, theory cases and
requests to the server; most in this process, some in processes. Hypothesis draws the cases from a seed.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from stress.checks import attempt
from stress.kinds import Kind, kinds, train_a_run

_MOST_CHARACTERS = 600  # characters of a failure, and of its case
_PACKAGES = ("loopmt", "hypothesis", "torch", "pydantic", "typer", "fastapi", "uvicorn", "sentencepiece")


def feed(kind: Kind, cases: int, number: int) -> tuple[int, list[str]]:
    """Run cases of one kind. Return their number and the failures."""
    count = 0
    failures: dict[str, str] = {}

    @seed(number)
    @settings(
        max_examples=cases, database=None, deadline=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck]
    )
    @given(kind.cases)
    def check(case: Any) -> None:
        nonlocal count
        count += 1
        if wrong := attempt(kind.check, case):
            failures.setdefault(wrong[-_MOST_CHARACTERS:], repr(case))

    check()
    return count, [f"{wrong} <- {case[-_MOST_CHARACTERS:]}" for wrong, case in failures.items()]


def stress(cases: int, number: int, only: Sequence[str], jobs: int, folder: Path) -> dict[str, Any]:
    """Run each kind's share of the cases, with `jobs` kinds in parallel."""
    run = train_a_run(folder)
    names = [kind.name for kind in kinds(folder, run) if not only or kind.name in only]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        found = pool.map(_stress_kind, names, repeat(cases), repeat(number), repeat(folder), repeat(run))
        return dict(zip(names, found, strict=True))


def _stress_kind(name: str, cases: int, number: int, folder: Path, run: Path) -> dict[str, Any]:
    own = folder / name
    own.mkdir()
    (kind,) = (kind for kind in kinds(own, run) if kind.name == name)
    began = time.monotonic()
    with kind.ready():
        count, failures = feed(kind, max(1, round(cases * kind.share)), number)
    seconds = round(time.monotonic() - began, 1)
    print(*failures, sep="\n", end="", file=sys.stderr)
    print(f"{name}: {count:,} cases, {len(failures)} failures, {seconds} s", file=sys.stderr, flush=True)
    return {"cases": count, "failures": failures, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="a kind of case; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="kinds in parallel")
    parser.add_argument("--machine", default="2 shared cores")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="loopmt-fuzz-") as folder:
        found = stress(options.cases, options.seed, options.only, options.jobs, Path(folder))
    failures = sum(len(kind["failures"]) for kind in found.values())
    record = {
        "command": " ".join(["python -m stress.fuzz", *sys.argv[1:]]),
        "machine": options.machine,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        "seed": options.seed,
        "cases": sum(kind["cases"] for kind in found.values()),
        "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
        "kinds": found,
    }
    text = json.dumps(record, indent=1, ensure_ascii=True) + "\n"
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
