"""CTranslate2 with the weights of one of our networks, exported as by `loopmt export`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.timing import Plan

from loopmt.export.ct2 import Type, check_installed, write_ct2
from loopmt.export.network import networks
from loopmt.text.vocab import Subwords
from loopmt.translate.networks import NetworkStack


def pieces_of(translators: NetworkStack) -> list[str]:
    """Subwords in the order of their ids."""
    return Subwords(networks(translators, "bpe", 512)[0].source_model).pieces


def greedy(
    translators: NetworkStack, sources: Sequence[Sequence[int]], length: int, plan: Plan, kind: Type, folder: Path
) -> Callable[[], Any]:
    check_installed()
    import ctranslate2

    network = networks(translators, "bpe", 512)[0]
    place = folder / f"ct2-{kind}"
    if not place.exists():
        write_ct2(network, place, kind)
    translator = ctranslate2.Translator(
        str(place), device="cpu", compute_type=kind, intra_threads=1, inter_threads=plan.threads
    )
    pieces = pieces_of(translators)
    tokens = [[pieces[one] for one in source] for source in sources]
    rows = -(-len(tokens) // plan.threads)  # one part per thread is faster than all threads on one part

    def translate() -> Any:
        return translator.translate_batch(
            tokens, beam_size=1, min_decoding_length=length, max_decoding_length=length, max_batch_size=rows
        )

    return translate
