"""Several sessions at once at one GPU, in calls of so many seconds.

    python -m benchmarks.gpu_sessions sessions.toml --seconds 560 --out results
    python -m benchmarks.gpu_sessions sessions.toml --seconds 440 --out results --last

The file names them; `options` are those of `benchmarks.gpu_session`:

    [[session]]
    experiment = "examples/europarl-48k.toml"
    name = "europarl-48k-2"
    options = ["--seed", "2", "--until", "back-translation", "--jobs", "3", "--judge", "decode"]

Each has its run in runs/NAME. Under NVIDIA MPS, where the machine has it, they compute side by side and do not take
turns. In the last call what is finished is decoded beside the training. DIR gets NAME.run.tar.xz and NAME.loops.tar.xz,
cut into parts (.1, .2, ...; `cat` joins them) where a file may not be larger than `--part`, and logs.tar.gz.
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

PACKING = 35.0  # seconds of a call in which archives are made
_RUNS = Path("runs")


@dataclass(frozen=True)
class Place:
    """A GPU session among several."""

    experiment: str
    name: str
    options: tuple[str, ...]

    @property
    def run(self) -> Path:
        return _RUNS / self.name

    @property
    def home(self) -> Path:
        return _RUNS / "home" / self.name

    @property
    def wish(self) -> argparse.Namespace:
        return parse_session([self.experiment, "--run", str(self.run), "--out", str(self.home), *self.options])

    @property
    def can_decode(self) -> bool:
        return "decode" in self.wish.judge and any(self.run.glob("stages/*/result"))

    def start(self, seconds: float, last: bool) -> subprocess.Popen[bytes]:
        minutes = ["--call-minutes", f"{max(0.0, seconds - PACKING) / 60:.3f}", *["--last"] * last]
        words = [self.experiment, "--run", str(self.run), "--out", str(self.home), *self.options, *minutes]
        return self._start("benchmarks.gpu_session", words, self.log)

    def decode(self) -> subprocess.Popen[bytes]:
        """What is finished; the session finds it said when it comes to decoding."""
        wish = self.wish
        paths = [word for path in wish.path for word in ("--path", path)]
        words = [str(self.run), "--beam", str(wish.beam), "--sentences", str(wish.sentences), *paths]
        return self._start("benchmarks.decoding", words, self.log.with_suffix(".early.log"))

    @property
    def log(self) -> Path:
        return _RUNS / f"{self.name}.log"

    def _start(self, module: str, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen([sys.executable, "-m", module, *words], stdout=output, stderr=subprocess.STDOUT)

    def hand_over(self, out: Path, part: int) -> None:
        for archive in sorted(self.home.glob("*.tar.xz")):
            data = archive.read_bytes()
            for number, begin in enumerate(range(0, len(data), part)):
                suffix = f".{number}" if number else ""
                (out / f"{self.name}.{archive.name}{suffix}").write_bytes(data[begin : begin + part])


def places(file: Path) -> list[Place]:
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return [Place(one["experiment"], one["name"], tuple(one["options"])) for one in document["session"]]


def share_the_gpu() -> None:
    """Start NVIDIA's MPS; where it is missing or runs already, nothing happens."""
    if shutil.which("nvidia-cuda-mps-control"):
        subprocess.run(["nvidia-cuda-mps-control", "-d"], capture_output=True, check=False)


def start(all_places: Sequence[Place], seconds: float, last: bool) -> None:
    """All at once, and until all have got up: a GPU session keeps its time by itself."""
    sessions = [place.start(seconds, last) for place in all_places]
    early = [place.decode() for place in all_places if last and place.can_decode]
    for process in sessions:
        process.wait()
    for process in early:
        process.kill()
        process.wait()


def pack_logs(all_places: Sequence[Place], out: Path) -> None:
    """What was printed, and what was measured while training."""
    with tarfile.open(out / "logs.tar.gz", "w:gz") as packed:
        for place in all_places:
            files = [*place.home.glob("*.txt"), *place.home.glob("*.json"), *place.run.glob("stages/*/metrics.jsonl")]
            for file in [*_RUNS.glob(f"{place.name}*.log"), *files]:
                packed.add(file, file.relative_to(_RUNS))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, required=True, help="of this call")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--part", type=float, default=15.9, metavar="MIB", help="that a file may be large")
    parser.add_argument("--last", action="store_true", help="judge in this call, whether or not all is trained")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    options.out.mkdir(parents=True, exist_ok=True)
    all_places = places(options.file)
    share_the_gpu()
    start(all_places, options.seconds, options.last)
    for place in all_places:
        print(f"== {place.name}\n{place.log.read_text(encoding='utf-8')[-1500:]}")
        place.hand_over(options.out, int(options.part * 2**20))
    pack_logs(all_places, options.out)


if __name__ == "__main__":
    main()
