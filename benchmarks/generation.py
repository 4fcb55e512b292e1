"""Generation of the same number of tokens from the same sources, compared with `generate` and CTranslate2."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import ctranslate, hugging_face, ours
from benchmarks.timing import Measurement, Plan, Systems, Work, compare

from loopmt.config import Generate
from loopmt.export.ct2 import Type
from loopmt.path import Hop
from loopmt.translate.networks import NetworkStack

_HOP = Hop("en", "fr")
_SETTING = ours.Setting("base", 32_000)


def greedy(plan: Plan, folder: Path) -> list[Measurement]:
    return _sizes(Generate(how="greedy"), "greedy", plan, folder)


def sampling(plan: Plan, folder: Path) -> list[Measurement]:
    return _sizes(Generate(how="sample", temperature=1.0, top_k=0), "sampling", plan, folder)


def beam(plan: Plan, folder: Path) -> list[Measurement]:
    """20 words are about 26 subwords."""
    return [_measure(Generate(how="beam", beam=4), "beam 4", plan.pick(2000, 16, 3), 26, plan, folder)]


def _sizes(how: Generate, name: str, plan: Plan, folder: Path) -> list[Measurement]:
    sizes = (256, 1024, 4096) if plan.cuda and not plan.tiny else (plan.pick(0, 32, 4),)
    return [_measure(how, name, size, plan.pick(32, 32, 6), plan, folder) for size in sizes]


def _measure(how: Generate, name: str, rows: int, length: int, plan: Plan, folder: Path) -> Measurement:
    translators = _SETTING.build(folder, plan, [_HOP])
    shape = (
        f"transformer_base, {translators.layout.target_size:,} subwords, {rows} sentences, {length} tokens in and out"
    )
    measurement = Measurement(f"{name}, {rows} sentences", "tokens/s", rows * length, shape)
    systems = _systems(translators, how, rows, length, plan, folder)
    return compare(measurement, systems, plan)


def _systems(translators: NetworkStack, how: Generate, rows: int, length: int, plan: Plan, folder: Path) -> Systems:
    sources = ours.random_ids(translators.vocab, [length - 1] * rows, "sources")  # plus EOS

    def ct2(kind: Type) -> Work:
        return ctranslate.greedy(translators, sources, length, plan, kind, folder)

    hf = partial(hugging_face.generation, translators, sources, how, length, plan)
    systems: dict[str, Callable[[], Work]] = {
        "loopmt": partial(ours.decode, translators, _HOP, sources, how, length, plan),
        "HF generate": hf,
    }
    if plan.cuda and how.how == "greedy":
        systems["HF generate, static cache"] = partial(hf, static=True)
    if not plan.cuda and how.how == "greedy":
        systems |= {"CTranslate2 float32": partial(ct2, "float32"), "CTranslate2 int8": partial(ct2, "int8")}
    return systems
