"""One training update of JoeyNMT for every line read from stdin; runs in JoeyNMT's own environment, without loopmt."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
from joeynmt.builders import build_gradient_clipper, build_optimizer  # type: ignore[import-not-found]
from joeynmt.model import build_model  # type: ignore[import-not-found]
from joeynmt.vocabulary import Vocabulary  # type: ignore[import-not-found]

SPECIALS = SimpleNamespace(
    unk_token="<unk>",
    pad_token="<pad>",
    bos_token="<s>",
    eos_token="</s>",
    sep_token=None,
    lang_tags=[],
    unk_id=0,
    pad_id=1,
    bos_id=2,
    eos_id=3,
)
TRAINING = {
    "optimizer": "adam",
    "learning_rate": 1e-4,
    "adam_betas": [0.9, 0.98],
    "clip_grad_norm": 1.0,
    "clip_grad_val": None,
}


def build(setting: dict[str, Any]) -> Any:
    block = {
        "type": "transformer",
        "num_layers": setting["layers"],
        "num_heads": setting["heads"],
        "hidden_size": setting["width"],
        "ff_size": setting["feed_forward"],
        "dropout": setting["dropout"],
        "embeddings": {"embedding_dim": setting["width"], "scale": True, "dropout": setting["dropout"]},
        "layer_norm": "post",
    }
    vocab = Vocabulary([str(number) for number in range(setting["vocabulary"] - 4)], SPECIALS)
    config = {"encoder": block, "decoder": dict(block), "tied_embeddings": True, "tied_softmax": True}
    model = build_model(config, vocab, vocab)
    model.loss_function = ("crossentropy", 0.1)
    return model.train()


def inputs(setting: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Full of tokens, as loopmt's batch is."""
    rows, length = setting["rows"], setting["length"]
    torch.manual_seed(1)
    source, target = torch.randint(4, setting["vocabulary"], (2, rows, length))
    source[:, -1] = target[:, -1] = SPECIALS.eos_id
    begun = torch.cat([torch.full((rows, 1), SPECIALS.bos_id), target[:, :-1]], 1)
    return {
        "src": source,
        "src_mask": torch.ones(rows, 1, length, dtype=torch.bool),
        "src_length": torch.full((rows,), length),
        "trg_input": begun,
        "trg": target,
        "trg_mask": torch.ones(rows, 1, length, dtype=torch.bool),
    }


def main() -> None:
    setting = json.loads(sys.argv[1])
    torch.set_num_threads(setting["threads"])
    model, batch = build(setting), inputs(setting)
    optimizer = build_optimizer(TRAINING, model.parameters())
    clip = build_gradient_clipper(TRAINING)
    for _ in sys.stdin:
        loss, *_rest = model(return_type="loss", **batch)
        (loss / batch["trg"].numel()).backward()
        clip(parameters=model.parameters())
        optimizer.step()
        model.zero_grad()
        print("done", flush=True)


if __name__ == "__main__":
    main()
