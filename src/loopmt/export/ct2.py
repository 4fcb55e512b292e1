"""A network as a CTranslate2 model: float32, int8 or int8_float16, with its subwords beside it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import sentencepiece
from torch import Tensor

from loopmt.errors import MissingExtraError
from loopmt.export.network import ExportedNetwork
from loopmt.export.readme import readme
from loopmt.model.transformer import positions
from loopmt.path import Hop
from loopmt.text.ragged import EOS, PAD, UNK
from loopmt.text.vocab import Subwords

Type = Literal["float32", "int8", "int8_float16"]
_MOST_PLACES = 1024
_NEVER = -1e4  # a bias that no logit overcomes and float16 can hold


def check_installed() -> None:
    try:
        import ctranslate2  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "CTranslate2 models need the package ctranslate2. Install it: pip install 'loopmt[export]'."
        ) from None


def write_ct2(network: ExportedNetwork, folder: Path, kind: Type) -> None:
    spec = _specification(network)
    spec.validate()
    spec.optimize(quantization=None if kind == "float32" else kind)
    folder.mkdir(parents=True)
    spec.save(str(folder))
    shutil.copyfile(network.source_model, folder / "source.spm")
    shutil.copyfile(network.target_model, folder / "target.spm")
    (folder / "README.md").write_text(readme(network, "ct2"), encoding="utf-8")


class CTranslate2Model:
    """The exported network, loaded from its folder as a user would."""

    def __init__(self, network: ExportedNetwork, folder: Path, kind: Type) -> None:
        import ctranslate2

        self._network = network
        computed = "float32" if kind == "float32" else "int8"  # a CPU has no float16
        self._translator = ctranslate2.Translator(str(folder), device="cpu", compute_type=computed)
        self._source, self._target = Subwords(folder / "source.spm"), Subwords(folder / "target.spm")
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))

    def read(self, texts: Sequence[str], hop: Hop) -> list[list[int]]:
        tag = [self._source.ids[f"<2{hop.target}>"]] if self._network.shared else []
        normal = self._network.vocab.normalise(texts, hop.source)
        return [[*tag, *self._processor.encode(text), EOS] for text in normal]

    def say(self, source_BS: Tensor, longest: int) -> list[list[int]]:
        """CTranslate2 puts the end itself."""
        sources = [[self._source.pieces[one] for one in row if one not in (PAD, EOS)] for row in source_BS.tolist()]
        found = self._translator.translate_batch(
            sources, beam_size=1, min_decoding_length=0, max_decoding_length=longest
        )
        return [[self._target.ids[piece] for piece in one.hypotheses[0]] for one in found]

    def logits(self, source_BS: Tensor, inputs_BT: Tensor) -> None:
        """It does not show them."""


# -- weights -----------------------------------------------------------------------------------------------------


def _specification(network: ExportedNetwork) -> Any:
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    model = network.model
    spec = TransformerSpec.from_config(
        (model.layers, model.num_decoder_layers),
        model.heads,
        pre_norm=model.norm == "pre",
        activation=getattr(Activation, model.activation.upper()),
    )
    _set_side(spec.encoder, network, "encoder", "source_embed")
    _set_side(spec.decoder, network, "decoder", "target_embed")
    spec.decoder.projection.weight = _embedding(network, "target_embed")
    spec.decoder.projection.bias = _array(network.weights["output_bias"])
    spec.decoder.projection.bias[network.logit_mask] = _NEVER
    source, target = Subwords(network.source_model).pieces, Subwords(network.target_model).pieces
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.add_source_eos = True
    spec.config.unk_token, spec.config.eos_token = target[UNK], target[EOS]
    spec.config.bos_token = spec.config.decoder_start_token = target[PAD]
    return spec


def _set_side(spec: Any, network: ExportedNetwork, side: str, embedding: str) -> None:
    embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
    embeddings.weight = _embedding(network, embedding)
    spec.scale_embeddings = True
    spec.position_encodings.encodings = _array(positions(0, _MOST_PLACES, network.weights[f"{side}.0.self.norm.bias"]))
    for number, layer in enumerate(spec.layer):
        _set_layer(layer, network, f"{side}.{number}")
    if network.model.norm == "pre":
        _set_norm(spec.layer_norm, network, f"{side}.norm")


def _set_layer(layer: Any, network: ExportedNetwork, name: str) -> None:
    attentions: list[tuple[Any, str, tuple[str, ...]]] = [(layer.self_attention, "self", ("qkv", "out"))]
    if f"{name}.cross.q.weight" in network.weights:
        attentions.append((layer.attention, "cross", ("q", "kv", "out")))
    for attention, kind, parts in attentions:
        for linear, part in zip(attention.linear, parts, strict=True):
            _set_linear(linear, network, f"{name}.{kind}.{part}")
        _set_norm(attention.layer_norm, network, f"{name}.{kind}.norm")
    _set_linear(layer.ffn.linear_0, network, f"{name}.ffn.up")
    _set_linear(layer.ffn.linear_1, network, f"{name}.ffn.down")
    _set_norm(layer.ffn.layer_norm, network, f"{name}.ffn.norm")


def _set_linear(spec: Any, network: ExportedNetwork, name: str) -> None:
    spec.weight = _array(network.weights[f"{name}.weight"])
    spec.bias = _array(network.weights[f"{name}.bias"])


def _set_norm(spec: Any, network: ExportedNetwork, name: str) -> None:
    spec.gamma = _array(network.weights[f"{name}.weight"])
    spec.beta = _array(network.weights[f"{name}.bias"])


def _embedding(network: ExportedNetwork, name: str) -> npt.NDArray[np.float32]:
    return _array(network.weights["embed" if network.vocab.joint else name])


def _array(tensor: Tensor) -> npt.NDArray[np.float32]:
    """A copy: int8 conversion scales arrays in place."""
    return np.array(tensor.numpy(), dtype=np.float32, copy=True)
