"""Before training, a checkpoint must translate the same through loopmt and through Hugging Face alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from helpers.pretrained_runs import EN_FR, TEXTS, Make, modules_in
from loopmt.errors import DataError
from loopmt.pretrained.tokens import ModelTokens
from loopmt.pretrained.verify import verify
from loopmt.progress import Silent
from loopmt.workflow.train import prepare_run


class Kept(Silent):
    """Records progress lines."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, sentence: str) -> None:
        self.said.append(sentence)


def test_it_is_checked_once(triangle: Make) -> None:
    request, first, again = triangle(), Kept(), Kept()
    prepare_run(request, first)
    prepare_run(request, again)
    assert [one for one in first.said if "24 sentences" in one and "all" in one]
    assert not [one for one in again.said if "Hugging Face alone" in one]
    assert request.run
    assert json.loads((request.run / "pretrained" / "pretrained.json").read_text(encoding="utf-8"))["verified"]


class WrongTokens(ModelTokens):
    """Tokens that select another language than requested."""

    def read(self, texts, hop, synthetic=False):  # type: ignore[no-untyped-def]
        return super().read([f"{text} {text}" for text in texts], hop, synthetic)


def test_different_translations_are_refused_with_both_texts(dual: Make) -> None:
    request = dual()
    prepare_run(request, Silent())
    network = modules_in(request).of(EN_FR)
    assert verify(network, EN_FR, TEXTS) == len(TEXTS)
    tokens = WrongTokens(network.tokens.folder, network.tokens.tokenizer)
    with torch.no_grad():
        for tensor in network.trainable.values():
            tensor.add_(0.3 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1)))
    with pytest.raises(DataError) as caught:
        verify(replace(network, tokens=tokens), EN_FR, TEXTS)
    assert all(fact in str(caught.value) for fact in (str(tokens.folder), "Hugging Face", "generator"))
