"""Speed of training, decoding, preparing and serving."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid, points
from benchmarks.pages.raw import RESULTS, Json, content
from benchmarks.table import merged, table

AGREE = {
    "float32: captured against eager": "float32 eager = float32 captured",
    "float32: kernels against eager": "float32 eager = float32 kernels",
    "float32: other attention against eager": "float32 eager = float32 eager, other attention",
    "bfloat16: captured against eager": "bfloat16 eager = bfloat16 captured",
    "bfloat16: kernels against eager": "bfloat16 eager = bfloat16 kernels",
    "bfloat16: eager against eager, other attention": "bfloat16 eager = bfloat16 eager, other attention",
    "bfloat16 kernels against float32 eager": "float32 eager = bfloat16 kernels",
}


def machines() -> list[Json]:
    """The measurements of each machine, parts together."""
    files = sorted((RESULTS / "bench").glob("*.json"))
    found = [content(f"bench/{file.stem}") for file in files]
    return merged([one for one in found if "measurements" in one])


def _machine(cuda: bool) -> str:
    return table(next(one for one in machines() if bool(one["machine"]["cuda"]) == cuda), title=False)


def _agreement() -> str:
    greedy, beam = content("bench/agreement-7k")["rows"]
    rows = [[label, *(f"{one['agree'][key]:.1%}" for one in (greedy, beam))] for label, key in AGREE.items()]
    return grid(["same translation", "greedy", "beam 4"], rows)


def _agreement_bleu() -> str:
    greedy, beam = content("bench/agreement-7k")["rows"]
    rows = [[name, points(greedy["bleu"][name]), points(beam["bleu"][name])] for name in greedy["bleu"]]
    return grid(["BLEU", "greedy", "beam 4"], rows)


def _preparing() -> str:
    rows = [
        [f"{one['lines']:,}", str(one["jobs"]), f"{one['lines_per_second']:,}", str(one["peak_megabytes"])]
        for one in content("prepare")["prepare"]
    ]
    return grid(["lines", "processes", "lines/s", "peak MB of the main process"], rows)


def _host() -> str:
    parts = content("bench/host")
    mixes = {label: one["microseconds_per_update"] for label, one in parts.items() if label.startswith("six")}
    rows = [[label, f"{one['host']:,.0f}", f"{one['decoding']:,.0f}"] for label, one in mixes.items()]
    return grid(["one update", "work of the host, µs", "decoding, µs"], rows)


def _serving() -> str:
    rows = [
        [one["backend"], way.replace("_", " "), *_load(one[way])]
        for one in content("serve")["load"]
        for way in ("one_by_one", "64_clients")
    ]
    beyond = content("serve")["beyond_the_queue"]
    rows.append(["loopmt on cpu", f"{beyond['clients']} clients, queue of {beyond['queue']}", *_load(beyond)])
    return grid(["backend", "requests", "answers/s", "p50 ms", "p99 ms", "statuses"], rows)


def _load(one: Json) -> Iterator[str]:
    yield from (f"{one[key]:,}" for key in ("answers_per_second", "p50_ms", "p99_ms"))
    yield ", ".join(f"{count} × {status}" for status, count in one["statuses"].items())


def _short() -> str:
    """The rows that the README quotes."""
    found = {(bool(one["machine"]["cuda"]), part["name"]): part for one in machines() for part in one["measurements"]}
    rows = [[label, *_beside(found[key], peers)] for label, (key, peers) in QUOTED.items()]
    return grid(["work", "loopmt", "beside its peers in the same run"], rows)


QUOTED = {
    "training, transformer base, one H200": (
        (True, "training"),
        {"HF eager": "Hugging Face eager", "HF compiled": "compiled"},
    ),
    "greedy decoding, base, 256 sentences, one H200": (
        (True, "greedy, 256 sentences"),
        {"HF generate": "Hugging Face `generate`"},
    ),
    "beam 4, base, 2,000 sentences, one H200": (
        (True, "beam 4, 2000 sentences"),
        {"HF generate": "Hugging Face `generate`"},
    ),
    "training, preset small, two CPU cores": (
        (False, "training, preset small"),
        {"HF eager": "Hugging Face eager", "JoeyNMT": "JoeyNMT"},
    ),
}


def _beside(part: Json, peers: dict[str, str]) -> list[str]:
    systems = part["systems"]
    rate = systems["loopmt"]["rate"]
    times = [f"{rate / systems[name]['rate']:.3g} times {label}" for name, label in peers.items()]
    return [f"{float(f'{rate:.3g}'):,.0f} {part['unit']}", ", ".join(times)]


TABLES: dict[str, Table] = {
    "speed-gpu": lambda: _machine(True),
    "speed-cpu": lambda: _machine(False),
    "speed": _short,
    "agreement": _agreement,
    "agreement-bleu": _agreement_bleu,
    "preparing": _preparing,
    "host": _host,
    "serving": _serving,
}
