"""Agreement of the implementations: trained translators on held-out text, eager, captured and with kernels.

    python -m benchmarks.agreement RUN [--stage NAME] [--set valid] [--sentences 1000] [--compiled] [--out FILE.json]

Each implementation translates the same sentences; the table has the share of equal translations and the BLEU of each.
The eager network with PyTorch's other attention, which rounds differently, shows the differences due to bfloat16.
Graphs, kernels and compiled layers need CUDA; elsewhere all are the eager network, and agree.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from benchmarks.machine import describe
from benchmarks.timing import Json, Plan
from torch.nn.attention import SDPBackend, sdpa_kernel

from loopmt.config import Fuse, Generate
from loopmt.distributed import device_of_this_process
from loopmt.evaluation.metrics import sacre_bleu
from loopmt.path import Hop
from loopmt.run import Run
from loopmt.text.store import Store
from loopmt.translate.decoder import generate
from loopmt.translate.networks import NetworkStack, stack_of
from loopmt.translate.protocol import DecodeLimits, Sentences
from loopmt.workflow.models import result_of
from loopmt.workflow.stage_choice import choose_stage


@dataclass(frozen=True)
class Way:
    """One implementation of the same network."""

    fuse: Fuse = "no"
    captured: bool = False
    plain_attention: bool = False

    def attention(self) -> AbstractContextManager[None]:
        return sdpa_kernel(SDPBackend.MATH) if self.plain_attention else nullcontext()


_WAYS = {
    "eager": Way(),
    "eager, other attention": Way(plain_attention=True),
    "captured": Way(captured=True),
    "kernels": Way("kernels", captured=True),
}
_COMPILED = {"compiled": Way("compile", captured=True)}
_SEARCHES = {"greedy": Generate(how="greedy"), "beam 4": Generate(how="beam", beam=4)}
_PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Outputs = dict[Hop, list[list[int]]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--stage")
    parser.add_argument("--set", default="valid")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--compiled", action="store_true", help="also layers compiled by torch, which takes minutes")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    device = device_of_this_process()
    ways = _WAYS | (_COMPILED if options.compiled else {})
    rows = list(compared(options.run, options.stage, options.set, options.sentences, device, ways))
    print("\n".join(map(_lines, rows)))
    if options.out:
        machine = describe(Plan(device), "benchmarks.agreement")
        options.out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def compared(
    folder: Path, name: str | None, held_out: str, most: int, device: torch.device, ways: dict[str, Way] = _WAYS
) -> Iterator[Json]:
    """One row for each search: the BLEU of each implementation, and the agreement of pairs of them."""
    run = Run.open(folder)
    translators = stack_of(result_of(run, run.experiment(), choose_stage(run, run.experiment(), name), device))
    store = Store.open(folder / "store")
    texts = {language: store.texts(held_out, language)[:most] for language in run.experiment().languages}
    precisions = _PRECISIONS if device.type == "cuda" else {"float32": torch.float32}
    for search, how in _SEARCHES.items():
        outputs = {
            f"{precision} {way}": _all(translators, texts, ways[way], dtype, how)
            for precision, dtype in precisions.items()
            for way in ways
        }
        pairs = [(f"{precision} eager", f"{precision} {way}") for precision in precisions for way in ways]
        pairs += [("float32 eager", f"bfloat16 {way}") for way in ways if len(precisions) > 1]
        yield {
            "search": search,
            "sentences": sum(map(len, outputs["float32 eager"].values())),
            "agree": {f"{one} = {other}": _same(outputs[one], outputs[other]) for one, other in pairs if one != other},
            "bleu": {way: _bleu(translators, texts, found) for way, found in outputs.items()},
        }


def _all(
    translators: NetworkStack, texts: dict[str, list[str]], way: Way, dtype: torch.dtype, how: Generate
) -> Outputs:
    kind = replace(translators, fuse=way.fuse, precision=dtype)
    kind.live = translators.live
    found: Outputs = {}
    with way.attention():
        for hop in kind.hops:
            decoder = kind.decoder(hop)
            sources = kind.source_rows(Sentences(kind.vocab, hop.source, texts=texts[hop.source]), hop)
            decoder = decoder if way.captured else replace(decoder, captured=None)
            found[hop] = [
                row.tolist() for row in generate(decoder, sources, how, DecodeLimits.on(kind.device)).ids.rows()
            ]
    return found


def _same(one: Outputs, other: Outputs) -> float:
    """The share of equal translations."""
    equal = [ids == others for hop in one for ids, others in zip(one[hop], other[hop], strict=True)]
    return sum(equal) / max(1, len(equal))


def _bleu(translators: NetworkStack, texts: dict[str, list[str]], outputs: Outputs) -> float:
    """The mean of the directions."""
    scores = [
        sacre_bleu(translators.vocab.decode(ids, hop.target), texts[hop.target]).score for hop, ids in outputs.items()
    ]
    return round(sum(scores) / len(scores), 2)


def _lines(row: Json) -> str:
    lines = [f"{row['search']}, {row['sentences']} sentences"]
    lines += [f"  {share:7.2%}  {pair}" for pair, share in row["agree"].items()]
    lines += [f"  {bleu:6.2f} BLEU  {way}" for way, bleu in row["bleu"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
