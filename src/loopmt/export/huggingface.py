"""Export to a folder that `AutoModelForSeq2SeqLM` and `AutoTokenizer` load offline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from loopmt.config import Generate
from loopmt.errors import ConfigError
from loopmt.export.network import ExportedNetwork
from loopmt.export.readme import readme
from loopmt.export.tokenizer import write_tokenizer
from loopmt.model.transformer import positions
from loopmt.path import Hop
from loopmt.pretrained.checkpoint import load_model, load_tokenizer, transformers
from loopmt.pretrained.generator import generation_settings
from loopmt.pretrained.weight_names import to_hugging_face
from loopmt.rng import keyed_seed
from loopmt.text.ragged import EOS, PAD, UNK, Ints
from loopmt.translate.beam_search import Hypotheses, hypothesis
from loopmt.translate.decoder import padded
from loopmt.translate.networks import tagged
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences, Translations

_SHAPES = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}
_MOST_PLACES = 1024
_LONGEST_OUTPUT = 512


def check_exportable(network: ExportedNetwork) -> None:
    """Raise an error before anything is written if a package is missing or Hugging Face has no such architecture."""
    transformers()
    if network.model.norm == "pre" and not network.vocab.joint:
        raise ConfigError(
            'model.norm = "pre" with vocab.sharing = "language" has no counterpart in Hugging Face: Pegasus has one '
            'embedding table. Export with --to ct2, or train with vocab.sharing = "joint".'
        )


def write_hugging_face(network: ExportedNetwork, folder: Path) -> None:
    folder.mkdir(parents=True)
    _write_json(folder / "config.json", _config(network))
    _write_json(folder / "generation_config.json", _generation(network))
    tensors = to_hugging_face(network.model, network.weights)
    if network.model.norm == "pre":  # Marian computes its sinusoids, Pegasus reads them from the file
        places = positions(0, _MOST_PLACES, network.weights["encoder.norm.bias"])
        tensors |= {f"model.{side}.embed_positions.weight": places.clone() for side in ("encoder", "decoder")}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(network, folder)
    (folder / "README.md").write_text(readme(network, "hf"), encoding="utf-8")


class HuggingFaceModel:
    """The exported network as a translation model, loaded from its folder as a user would."""

    def __init__(self, network: ExportedNetwork, folder: Path) -> None:
        self._network = network
        self._tokenizer = load_tokenizer(folder)
        self._model = load_model(folder)
        self.device = torch.device("cpu")
        self.hops = network.hops

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        return [self._translate(one, how, limits, key, n) for one in inputs]

    def _translate(self, one: HopInput, how: Generate, limits: DecodeLimits, key: Key, n: int) -> Translations:
        sources = self._sources(one.hop, one.sources)
        with torch.random.fork_rng([]):  # `generate` uses the global generator
            torch.manual_seed(keyed_seed(*key, str(one.hop)))
            outputs = self._model.generate(
                input_ids=sources,
                attention_mask=(sources != PAD).long(),
                max_length=None,
                max_new_tokens=limits.length(sources.shape[1]),
                num_return_sequences=n,
                **generation_settings(how),
            )
        found = Hypotheses.of([hypothesis(ids[1:], np.nan) for ids in outputs.tolist()])
        counts = np.full(len(sources), n, dtype=np.int64)
        sentences = Sentences(self._network.vocab, one.hop.target, ids=found.ids)
        return Translations(sentences, found.scores, found.ended, counts)

    @torch.no_grad()
    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        labels = padded(targets.ids.rows(), self.device)
        logits = self.logits(self._sources(hop, sources), F.pad(labels[:, :-1], (1, 0), value=PAD))
        if as_generated:
            logits[..., self._network.logit_mask] = -torch.inf
        losses = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=PAD, reduction="none")
        return losses.sum(1).double().numpy(), targets.ids.lengths + 1

    def read(self, texts: Sequence[str], hop: Hop) -> list[list[int]]:
        if not self._network.self_normalising:
            texts = self._network.vocab.normalise(texts, hop.source)
        tag = f"<2{hop.target}> " if self._network.shared else ""
        return [list(ids) for ids in self._tokenizer([tag + text for text in texts]).input_ids]

    def logits(self, source_BS: Tensor, inputs_BT: Tensor) -> Tensor:
        mask = (source_BS != PAD).long()
        found = self._model(input_ids=source_BS, attention_mask=mask, decoder_input_ids=inputs_BT)
        return Tensor(found.logits.detach())

    def _sources(self, hop: Hop, sources: Sentences) -> Tensor:
        rows = tagged(self._network.vocab, self._network.shared, sources.ids, hop).rows()
        return padded(rows, self.device)


def _config(network: ExportedNetwork) -> dict[str, Any]:
    model = network.model
    kind, architecture = _SHAPES[model.norm]
    bias, embed = network.weights["output_bias"], network.weights.get("source_embed")
    return {
        "model_type": kind,
        "architectures": [architecture],
        "vocab_size": len(bias if embed is None else embed),
        "decoder_vocab_size": len(bias),
        "share_encoder_decoder_embeddings": network.vocab.joint,
        "tie_word_embeddings": True,
        "d_model": model.width,
        "encoder_layers": model.layers,
        "decoder_layers": model.num_decoder_layers,
        "encoder_attention_heads": model.heads,
        "decoder_attention_heads": model.heads,
        "encoder_ffn_dim": model.feed_forward,
        "decoder_ffn_dim": model.feed_forward,
        "activation_function": model.activation,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.activation_dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": _MOST_PLACES,
        "is_encoder_decoder": True,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "bos_token_id": None,
        "unk_token_id": UNK,
        "decoder_start_token_id": PAD,
        "forced_eos_token_id": None,
        "torch_dtype": "float32",
    }


def _generation(network: ExportedNetwork) -> dict[str, Any]:
    return {
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": PAD,
        "forced_eos_token_id": None,
        "suppress_tokens": network.logit_mask,
        "max_length": _LONGEST_OUTPUT,
        "num_beams": 4,
        "length_penalty": 1.0,
    }


def _write_json(file: Path, value: dict[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
