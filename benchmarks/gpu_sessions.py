"""Several sessions in parallel on one GPU, in calls of limited duration.

    python -m benchmarks.gpu_sessions sessions.toml --seconds 560 --out results
    python -m benchmarks.gpu_sessions sessions.toml --seconds 440 --out results --last

The file names them; `options` are those of `benchmarks.gpu_session`:

    [[session]]
    experiment = "examples/europarl-48k.toml"
    name = "europarl-48k-2"
    options = ["--seed", "2", "--until", "back-translation", "--jobs", "3", "--judge", "decode"]

Each has its run in runs/NAME. With NVIDIA MPS, if the machine has it, they compute concurrently. In the last call
finished stages are decoded during training. DIR gets NAME.run.tar.xz and NAME.loops.tar.xz, split into parts (.1, .2,
...; `cat` joins them) if they are larger than `--part`, and logs.tar.gz.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu_session import parse as parse_session

PACKING = 35.0  # seconds of a call reserved for archives
_RUNS = Path("runs")


@dataclass(frozen=True)
class SessionRun:
    """One of several GPU sessions."""

    experiment: str
    name: str
    options: tuple[str, ...]

    @property
    def run(self) -> Path:
        return _RUNS / self.name

    @property
    def results(self) -> Path:
        return _RUNS / "home" / self.name

    @property
    def parsed(self) -> argparse.Namespace:
        return parse_session([self.experiment, "--run", str(self.run), "--out", str(self.results), *self.options])

    @property
    def can_decode(self) -> bool:
        return "decode" in self.parsed.judge and any(self.run.glob("stages/*/result"))

    def start(self, seconds: float, last: bool) -> subprocess.Popen[bytes]:
        minutes = ["--call-minutes", f"{max(0.0, seconds - PACKING) / 60:.3f}", *["--last"] * last]
        words = [self.experiment, "--run", str(self.run), "--out", str(self.results), *self.options, *minutes]
        return self._start("benchmarks.gpu_session", words, self.log)

    def decode(self) -> subprocess.Popen[bytes]:
        """Decode the finished stages; the session finds their translations later."""
        options = self.parsed
        paths = [word for path in options.path for word in ("--path", path)]
        words = [str(self.run), "--beam", str(options.beam), "--sentences", str(options.sentences), *paths]
        return self._start("benchmarks.decoding", words, self.log.with_suffix(".early.log"))

    @property
    def log(self) -> Path:
        return _RUNS / f"{self.name}.log"

    def _start(self, module: str, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen([sys.executable, "-m", module, *words], stdout=output, stderr=subprocess.STDOUT)

    def hand_over(self, out: Path, part: int) -> None:
        for archive in sorted(self.results.glob("*.tar.xz")):
            data = archive.read_bytes()
            for number, begin in enumerate(range(0, len(data), part)):
                suffix = f".{number}" if number else ""
                (out / f"{self.name}.{archive.name}{suffix}").write_bytes(data[begin : begin + part])


def session_runs_of(file: Path) -> list[SessionRun]:
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return [SessionRun(one["experiment"], one["name"], tuple(one["options"])) for one in document["session"]]


def share_the_gpu() -> None:
    """Start NVIDIA MPS if it is installed and not running."""
    if shutil.which("nvidia-cuda-mps-control"):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], capture_output=True, check=False)


def start(session_runs: Sequence[SessionRun], seconds: float, last: bool) -> None:
    """Start all sessions and wait for them; each session observes its own time limit."""
    sessions = [one.start(seconds, last) for one in session_runs]
    early = [one.decode() for one in session_runs if last and one.can_decode]
    for process in sessions:
        process.wait()
    for process in early:
        process.kill()
        process.wait()


def pack_logs(session_runs: Sequence[SessionRun], out: Path) -> None:
    """Pack the output of commands and the training logs."""
    with tarfile.open(out / "logs.tar.gz", "w:gz") as packed:
        for one in session_runs:
            files = [*one.results.glob("*.txt"), *one.results.glob("*.json"), *one.run.glob("stages/*/metrics.jsonl")]
            for file in [*_RUNS.glob(f"{one.name}*.log"), *files]:
                packed.add(file, file.relative_to(_RUNS))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, required=True, help="duration of this call")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--part", type=float, default=15.9, metavar="MIB", help="largest size of a file")
    parser.add_argument("--last", action="store_true", help="evaluate in this call, even if training is unfinished")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    options.out.mkdir(parents=True, exist_ok=True)
    session_runs = session_runs_of(options.file)
    share_the_gpu()
    start(session_runs, options.seconds, options.last)
    for one in session_runs:
        print(f"== {one.name}\n{one.log.read_text(encoding='utf-8')[-1500:]}")
        one.hand_over(options.out, int(options.part * 2**20))
    pack_logs(session_runs, options.out)


if __name__ == "__main__":
    main()
