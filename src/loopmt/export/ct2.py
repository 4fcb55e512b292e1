"""Export to CTranslate2 (float32, int8 or int8_float16) with subword models, and decoding with CTranslate2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import sentencepiece
import torch
from torch import Tensor

from loopmt.config import Generate
from loopmt.errors import MissingExtraError, RunError
from loopmt.export.network import ExportedNetwork
from loopmt.export.readme import readme
from loopmt.files.regular import read_bytes
from loopmt.model.transformer import positions
from loopmt.path import Hop
from loopmt.text.ragged import EOS, PAD, UNK, Ints
from loopmt.text.vocab import Subwords, Vocab
from loopmt.translate.beam_search import Hypotheses, Hypothesis, hypothesis
from loopmt.translate.networks import tagged
from loopmt.translate.protocol import DecodeLimits, Floats, HopInput, Key, Sentences, Translations

Type = Literal["float32", "int8", "int8_float16"]
_MOST_PLACES = 1024
_MANY = 16  # sentences per thread from which on one batch per thread is faster
_NEVER = -1e4  # a bias below all logits that float16 can represent


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
    (folder / "source.spm").write_bytes(read_bytes(network.source_model))
    (folder / "target.spm").write_bytes(read_bytes(network.target_model))
    (folder / "README.md").write_text(readme(network, "ct2"), encoding="utf-8")


class CTranslate2Model:
    """Exported networks as a translation model, loaded from their folders as a user would; it cannot sample."""

    def __init__(self, folders: Mapping[Hop, Path], vocab: Vocab, shared: bool, kind: Type) -> None:
        networks = {folder: _ExportedNetwork(folder, kind) for folder in set(folders.values())}
        self._networks = {hop: networks[folder] for hop, folder in folders.items()}
        self._vocab, self._shared = vocab, shared
        self.device = torch.device("cpu")
        self.hops: tuple[Hop, ...] = tuple(folders)

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        if how.how == "sample":
            raise RunError('CTranslate2 models do not sample (how = "sample"). Use --backend loopmt.')
        return [self._translate(one, how, limits, n) for one in inputs]

    def _translate(self, one: HopInput, how: Generate, limits: DecodeLimits, n: int) -> Translations:
        rows = self._read(one.hop, one.sources)
        longest = limits.lengths(np.array([len(row) for row in rows], dtype=np.int64))
        found = self._networks[one.hop].search(rows, how, n, longest, limits.batch_tokens)
        hypotheses = Hypotheses.of([hypothesis for candidates in found for hypothesis in candidates])
        counts = np.array([len(candidates) for candidates in found], dtype=np.int64)
        sentences = Sentences(self._vocab, one.hop.target, ids=hypotheses.ids)
        return Translations(sentences, hypotheses.scores, hypotheses.ended, counts)

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        """The distribution covers only ids that may be generated; others are masked in an exported network."""
        rows = [row.tolist() for row in targets.ids.rows()]
        return self._networks[hop].score(self._read(hop, sources), rows), targets.ids.lengths + 1

    def read(self, texts: Sequence[str], hop: Hop) -> list[list[int]]:
        return self._networks[hop].read(self._vocab.normalise(texts, hop.source), hop if self._shared else None)

    def logits(self, source_BS: Tensor, inputs_BT: Tensor) -> None:
        """Return None: CTranslate2 does not return logits."""

    def _read(self, hop: Hop, sources: Sentences) -> list[list[int]]:
        return [row.tolist() for row in tagged(self._vocab, self._shared, sources.ids, hop).rows()]


class _ExportedNetwork:
    """One exported network; inputs and outputs are ids."""

    def __init__(self, folder: Path, kind: Type) -> None:
        self._folder, self._threads = folder, torch.get_num_threads()
        self._kind = "float32" if kind == "float32" else "int8"  # a CPU has no float16
        self._single = self._load(1)  # all threads work on one batch: faster for a few sentences
        self._source, self._target = Subwords(folder / "source.spm"), Subwords(folder / "target.spm")
        self._processor: Any = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))

    def read(self, texts: Sequence[str], hop: Hop | None) -> list[list[int]]:
        tag = [self._source.ids[f"<2{hop.target}>"]] if hop else []
        return [[*tag, *self._processor.encode(text), EOS] for text in texts]

    def search(
        self, rows: list[list[int]], how: Generate, n: int, longest: list[int], tokens: int
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each row; those cut off at the limit compete with finished ones."""
        found = self._translate(rows, how, n, max(longest, default=1), tokens)
        for most, numbers in _too_long(found, longest).items():
            shorter = self._translate([rows[number] for number in numbers], how, n, most, tokens)
            for number, one in zip(numbers, shorter, strict=True):
                found[number] = one
        return [self._hypotheses(one, how) for one in found]

    def _translate(self, rows: list[list[int]], how: Generate, n: int, most: int, tokens: int) -> list[Any]:
        """Translate with one length limit for all rows; CTranslate2 appends EOS to sources itself."""
        beam = how.beam if how.how == "beam" else 1
        if many := self._threads > 1 and len(rows) >= _MANY * self._threads:
            longest_row = max(map(len, rows)) + 1
            tokens = min(tokens, -(-len(rows) // self._threads) * longest_row * beam)
        found: list[Any] = (self._parallel if many else self._single).translate_batch(
            self._pieces(self._source, rows),
            beam_size=beam,
            num_hypotheses=n,
            length_penalty=how.length_penalty,
            min_decoding_length=0,
            max_decoding_length=most,
            max_batch_size=tokens // beam,
            batch_type="tokens",
            return_scores=True,
            return_end_token=True,
        )
        return found

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> Floats:
        """Negative log-likelihood of each target including EOS."""
        sides = self._pieces(self._source, sources), self._pieces(self._target, targets)
        return np.array([-sum(one.log_probs) for one in self._single.score_batch(*sides)], dtype=np.float64)

    def _pieces(self, subwords: Subwords, rows: list[list[int]]) -> list[list[str]]:
        return [[subwords.pieces[one] for one in row] for row in rows]

    @cached_property
    def _parallel(self) -> Any:
        """One batch per thread, which is faster for many sentences."""
        return self._load(self._threads)

    def _load(self, batches: int) -> Any:
        import ctranslate2

        threads = {"inter_threads": batches, "intra_threads": self._threads // batches}
        return ctranslate2.Translator(str(self._folder), device="cpu", compute_type=self._kind, **threads)

    def _hypotheses(self, one: Any, how: Generate) -> list[Hypothesis]:
        """Undo the length normalization of CTranslate2, which counts EOS if there is one."""
        pairs = zip(one.hypotheses, one.scores, strict=True)
        rows = (([self._target.ids[piece] for piece in pieces], score) for pieces, score in pairs)
        return [hypothesis(ids, score * len(ids) ** how.length_penalty) for ids, score in rows]


def _too_long(found: list[Any], longest: list[int]) -> dict[int, list[int]]:
    """Rows whose outputs exceed their own length limit, grouped by limit; a batch uses its largest limit."""
    rows: dict[int, list[int]] = {}
    for number, (one, most) in enumerate(zip(found, longest, strict=True)):
        if any(len(pieces) > most for pieces in one.hypotheses):
            rows.setdefault(most, []).append(number)
    return rows


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
    """A copy, because int8 conversion scales arrays in place."""
    return np.array(tensor.numpy(), dtype=np.float32, copy=True)
