"""Do all ways to compute say the same? Trained translators on held-out text, eager, captured and with kernels.

    python -m benchmarks.agreement RUN [--stage NAME] [--set valid] [--sentences 1000] [--out FILE.json]

Every way translates the same sentences; counted is how many translations are those of the eager network, in float32 and
in bfloat16 each by itself, and how many of the bfloat16 ones are those of float32.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from benchmarks.machine import describe
from benchmarks.timing import Json, Plan

from loopmt.config import Fuse, Generate
from loopmt.model.decoding import Limits, say
from loopmt.model.translators import Translators
from loopmt.path import Hop
from loopmt.processes import device_of_this_process
from loopmt.run import Run
from loopmt.text.ragged import Ragged
from loopmt.text.store import Store
from loopmt.workflow.translate import choose_stage, load_translators

Said = list[list[int]]
_WAYS: dict[str, tuple[Fuse, bool]] = {"eager": ("no", False), "captured": ("no", True), "kernels": ("kernels", True)}
_SEARCHES = {"greedy": Generate(how="greedy"), "beam 4": Generate(how="beam", beam=4)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--stage")
    parser.add_argument("--set", default="valid")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    device = device_of_this_process()
    rows = list(compared(options.run, options.stage, options.set, options.sentences, device))
    print("\n".join(" ".join(f"{key} {value}" for key, value in row.items()) for row in rows))
    if options.out:
        machine = describe(Plan(device), "benchmarks.agreement")
        options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def compared(folder: Path, name: str | None, held_out: str, most: int, device: torch.device) -> Iterator[Json]:
    """One row for each search: sentences, and the share of them on which two ways agree."""
    run = Run.open(folder)
    translators = load_translators(run, run.experiment(), choose_stage(run, run.experiment(), name), device)
    texts = {
        hop: Store.open(folder / "store").texts(held_out, hop.source)[:most]
        for hop in translators.hops
    }  # fmt: skip
    precisions = (
        {"float32": torch.float32, "bfloat16": torch.bfloat16} if device.type == "cuda" else {"float32": torch.float32}
    )
    for search, how in _SEARCHES.items():
        said = {
            (precision, way): _all(translators, texts, way, dtype, how)
            for precision, dtype in precisions.items()
            for way in _WAYS
        }
        pairs = [
            ((precision, "eager"), (precision, way)) for precision in precisions for way in ("captured", "kernels")
        ]
        pairs += [(("float32", "eager"), ("bfloat16", "kernels"))] if len(precisions) > 1 else []
        shares = {" ".join(one + other): _same(said[one], said[other]) for one, other in pairs}
        yield {"search": search, "sentences": len(said["float32", "eager"]), **shares}


def _all(translators: Translators, texts: dict[Hop, list[str]], way: str, dtype: torch.dtype, how: Generate) -> Said:
    fuse, captured = _WAYS[way]
    kind = replace(translators, fuse=fuse)
    kind.live = translators.live
    found: Said = []
    for hop, lines in texts.items():
        speaker = kind.speaker(hop, "live", dtype)
        sources = kind.addressed(Ragged.of(kind.vocab.encode(lines, hop.source)), hop)
        outputs = say(speaker if captured else replace(speaker, captured=None), sources, how, Limits.on(kind.device))
        found += [row.tolist() for row in outputs.ids.rows()]
    return found


def _same(one: Said, other: Said) -> float:
    return sum(map(list.__eq__, one, other)) / max(1, len(one))


if __name__ == "__main__":
    main()
