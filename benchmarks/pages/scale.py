"""Cost by the amount of text and the number of languages, and what stress tests saw."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import scale_paper
from benchmarks.pages.blocks import Table
from benchmarks.pages.cells import grid
from benchmarks.pages.raw import DOCS, Json, content

from loopmt.config import load

Line = tuple[str, Callable[[Json], str]]
PREPARED: list[Line] = [
    ("lines read (pairs count twice)", lambda one: f"{one['lines_read']:,}"),
    ("CPU-seconds", lambda one: f"{one['cpu_seconds']:,}"),
    ("lines a CPU-second, learning the vocabulary included", lambda one: f"{one['lines_per_cpu_second']:,}"),
    ("seconds (busy machine)", lambda one: f"{one['seconds']:,}"),
    (
        "peak memory cleaning / learning the vocabulary / encoding, MB",
        lambda one: " / ".join(map(str, one["peak_resident_megabytes"].values())),
    ),
    ("subwords", lambda one: f"{one['tokens'] / 1e6:,.1f}M"),
    (
        "store, MB (2 bytes a token + 8 a row)",
        lambda one: f"{one['store_bytes'] / 1e6:,.1f} ({one['store_bytes_by_design'] / 1e6:,.1f})",
    ),
    ("bytes a token", lambda one: str(one["store_bytes_per_token"])),
    (
        "to find / to fetch a thousand random rows, microseconds",
        lambda one: " / ".join(map(str, one["thousand_rows"].values())),
    ),
]
HOSTILE: list[Line] = [
    ("honest requests", lambda one: f"{one['honest']['requests']:,}"),
    ("answered with 200", lambda one: f"{one['honest']['succeeded']:.2%}"),
    (
        "seconds to the answer: median, 99th percentile, slowest",
        lambda one: ", ".join(f"{one['honest'][key]:.2f}" for key in ("p50_seconds", "p99_seconds", "slowest_seconds")),
    ),
    ("hostile connections that were cut off", lambda one: f"{sum(one['cut_off'].values()):,}"),
    (
        "memory of the server in MB: at the start, most in the first half, most in the second half",
        lambda one: ", ".join(f"{value:.0f}" for value in one["server"]["memory_mb"].values()),
    ),
    ("most open files", lambda one: str(one["server"]["files"]["most"])),
    ("bytes of log before the stop", lambda one: str(one["server"]["log_bytes"])),
    ("seconds to stop in the middle of it", lambda one: str(one["server"]["seconds_to_stop"])),
]


def _prepared() -> str:
    runs = content("scale")["prepare"]
    sizes = [f"{run['monolingual_lines'] / 1e6:.0f}M lines" for run in runs]
    return grid(["`loopmt prepare`", *sizes], [[label, *map(cell, runs)] for label, cell in PREPARED])


def _trained() -> str:
    """Three runs on each size, in turns."""
    found = content("scale")
    sizes = list(dict.fromkeys(run["monolingual_lines"] for run in found["train"]))
    alone = {name: ", ".join(str(one[name]) for one in found["import_torch"]) for name in ("seconds", "cpu_seconds")}
    lines: dict[str, Callable[[Json], str]] = {
        f"seconds until the first update (`import torch` alone: {alone['seconds']})": lambda run: (
            f"{run['first_update_seconds']:.2f}"
        ),
        f"CPU-seconds until the first update (`import torch` alone: {alone['cpu_seconds']})": lambda run: (
            f"{run['first_update_cpu_seconds']:.2f}"
        ),
        "CPU-seconds an update": lambda run: str(run["cpu_seconds_per_update"]),
        "resident memory, MB": lambda run: str(run["peak_resident_megabytes"]["whole"]),
    }
    runs = {size: [run for run in found["train"] if run["monolingual_lines"] == size] for size in sizes}
    rows = [[label, *(", ".join(map(cell, mine)) for mine in runs.values())] for label, cell in lines.items()]
    return grid(["`loopmt train`", *(f"{size / 1e6:.0f}M lines" for size in sizes)], rows)


def _languages() -> str:
    head = ["languages, longest loop", "directions", "routes", "load, check", "set up", "one round and update"]
    rows = [
        [
            f"{one['languages']}, `{one['loops']}`",
            *(f"{one[key]:,}" for key in ("directions", "routes")),
            *_seconds(one["cpu_seconds"]),
            f"{one['peak_megabytes']:,}",
            *(f"{one[key] / 1e6:.1f}" for key in ("log_bytes", "state_bytes")),
        ]
        for one in content("languages")
    ]
    return grid([*head, "memory, MB", "log, MB", "state, MB"], rows)


def _seconds(found: Json) -> list[str]:
    loading = found["load and check the experiment"] + found["expand the paths"]
    last = "one round, one update, validation, checkpoints"
    return [f"{value:.1f} s" for value in (loading, found["set the stage up"], found[last])]


def _paper() -> str:
    experiment = load(DOCS.parent / "examples" / "paper-wmt14.toml")
    return "\n".join(scale_paper.report(scale_paper.Cost(experiment, scale_paper.rates({}), 8)))


def _fuzz() -> str:
    rows = [
        [kind, f"{found['cases']:,}", str(len(found["failures"]))]
        for kind, found in content("stress/fuzz")["kinds"].items()
    ]
    return grid(["kind", "cases", "failures"], rows)


def _hostile() -> str:
    found = content("serve/hostile")
    head = [f"in {found['size']['seconds']:.0f} seconds", ""]
    return grid(head, [[label, cell(found)] for label, cell in HOSTILE])


TABLES: dict[str, Table] = {
    "scale-prepare": _prepared,
    "scale-train": _trained,
    "scale-languages": _languages,
    "scale-paper": _paper,
    "fuzz": _fuzz,
    "hostile": _hostile,
}
