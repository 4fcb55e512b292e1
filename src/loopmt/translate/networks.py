"""The networks of an experiment: their directions, and their live, frozen and averaged weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from loopmt.config import Fuse, Generate, Model
from loopmt.errors import PathError
from loopmt.model.backend import transformer_kind
from loopmt.model.transformer import Transformer
from loopmt.model.weights import Layout
from loopmt.path import Hop
from loopmt.rng import torch_generator
from loopmt.text.ragged import PAD, UNK, Ints, Ragged
from loopmt.text.store import Store
from loopmt.text.vocab import Vocab
from loopmt.translate.beam_search import Hypotheses
from loopmt.translate.captured_decoder import CapturedDecoder
from loopmt.translate.decoder import Decoder, generate_up_to
from loopmt.translate.protocol import (
    By,
    DecodeLimits,
    Floats,
    HopInput,
    Key,
    Sentences,
    TranslationModel,
    Translations,
    own_weights,
)
from loopmt.translate.scoring import drawn_scores, negative_log_likelihood

_DECODERS: dict[object, CapturedDecoder] = {}  # one per architecture in a process


@dataclass
class NetworkStack:
    """All networks of one architecture as one tensor with a flat row each, and their directions."""

    model: Model
    vocab: Vocab
    hops: tuple[Hop, ...]
    device: torch.device
    fuse: Fuse = "kernels"
    size: int | None = None  # rows of each embedding table; by default the size of the largest vocabulary
    precision: torch.dtype = torch.float32  # of decoding and scoring; weights are float32
    live: Tensor = field(init=False)  # (N, P), float32
    learner: ClassVar[str] = "networks"
    copies: dict[By, Tensor] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.live = torch.zeros(self.num_networks, self.layout.num_places, device=self.device)

    # -- which network ---------------------------------------------------------------------------------------

    @property
    def shared(self) -> bool:
        return self.model.sharing == "all"

    @property
    def num_networks(self) -> int:
        return 1 if self.shared else len(self.hops)

    def network(self, hop: Hop) -> int:
        """The row of the weights that serves a direction."""
        if hop not in self._rows:
            raise PathError(f"there is no translator {hop}. The translators are {', '.join(map(str, self.hops))}.")
        return self._rows[hop]

    @cached_property
    def _rows(self) -> dict[Hop, int]:
        return {hop: 0 if self.shared else row for row, hop in enumerate(self.hops)}

    def names(self) -> list[str]:
        """The name of each network in files and logs."""
        return ["all"] if self.shared else [str(hop) for hop in self.hops]

    @cached_property
    def layout(self) -> Layout:
        """One layout for all networks, sized for the largest vocabulary.

        Vocabularies of all languages count, also without a direction, so that a later stage may add directions.
        """
        size = self.size or max(map(self.vocab.size, self.vocab.languages))
        return Layout(self.model, size, size, self.vocab.joint)

    @cached_property
    def transformer(self) -> Transformer:
        kind = transformer_kind(self.model, self.device, self.fuse)
        return kind(self.model, self.vocab.joint)

    # -- weights ---------------------------------------------------------------------------------------------

    def start_fresh(self, seed: int) -> None:
        """Initialize the weights; they depend only on the seed and the network's name."""
        self.live.copy_(self.layout.initial(*((seed, "weights", name) for name in self.names())))

    def copy(self, by: By) -> None:
        """Copy the live weights, as the frozen copy or as the start of the average."""
        self.copies[by] = self.live.clone()

    @torch.no_grad()
    def follow(self, decay: float) -> None:
        """Move the averaged copy, if there is one, towards the live weights."""
        if "ema" in self.copies:
            self.copies["ema"].lerp_(self.live, 1 - decay)

    def named(self, flat_NP: Tensor | None = None) -> dict[str, Tensor]:
        """Every weight of every network under the name `network/weight`, for files."""
        views = self.layout.unpack(self.live if flat_NP is None else flat_NP)
        return {f"{name}/{key}": view[row] for row, name in enumerate(self.names()) for key, view in views.items()}

    def load(self, tensors: Mapping[str, Tensor], strict: bool = True) -> list[str]:
        """Load weights by name. Return the networks without weights there; they keep their own.

        Smaller tables, written by older versions that counted only the languages with directions, fill the first rows.
        """
        places = self.named()
        missing = sorted({key.partition("/")[0] for key in places if key not in tensors})
        if strict and missing:
            found = sorted({key.partition("/")[0] for key in tensors})
            raise PathError(
                f"the checkpoint has no weights for {', '.join(missing)}; it has {', '.join(found) or 'none'}."
            )
        for key, place in places.items():
            if key in tensors:
                place[: len(tensors[key])] = tensors[key]
        return missing

    # -- size ------------------------------------------------------------------------------------------------

    def parameter_counts(self) -> tuple[int, int]:
        return self.live.numel(), self.live.numel()

    def activation_bytes(self) -> float:
        """Memory per token position: the states of each block and the logits of all networks."""
        model = self.model
        encoder = model.layers * (12 * model.width + 2 * model.feed_forward)
        decoder = model.num_decoder_layers * (20 * model.width + 2 * model.feed_forward)
        size = self.precision.itemsize
        return self.num_networks * float((encoder + decoder) * size + self.layout.target_size * (size + 8))

    # -- translation -----------------------------------------------------------------------------------------

    def generate(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, key: Key, n: int = 1
    ) -> list[Translations]:
        """Decode together the inputs of one network; on CUDA, those of all networks."""
        rows = sorted({self.network(one.hop) for one in inputs})
        found: dict[int, Translations] = {}
        for together in [rows] if self.device.type == "cuda" else [[row] for row in rows]:
            numbers = [number for number, one in enumerate(inputs) if self.network(one.hop) in together]
            generator = torch_generator(self.device, *key, *(self.names()[row] for row in together), how.draw_key())
            batch = [inputs[number] for number in numbers]
            found |= zip(numbers, self._decode(batch, how, limits, generator, n), strict=True)
        return [found[number] for number in range(len(inputs))]

    def _decode(
        self, inputs: Sequence[HopInput], how: Generate, limits: DecodeLimits, generator: torch.Generator, n: int
    ) -> list[Translations]:
        draws = n if how.how == "sample" else 1
        sources = Ragged.join([self.source_rows(one.sources, one.hop) for one in inputs])
        sources = sources.take(np.repeat(np.arange(len(sources)), draws)) if draws > 1 else sources
        decoder, networks = self._together(inputs, own_weights(how), draws)
        beams = n if draws == 1 else 1
        outputs, counts = generate_up_to(decoder, sources, how, limits, generator, beams, networks)
        counts = counts.reshape(-1, draws).sum(1)
        ends = np.cumsum([len(one.sources) for one in inputs])
        return [
            self._translations(one.hop, outputs, counts, slice(end - len(one.sources), end))
            for one, end in zip(inputs, ends.tolist(), strict=True)
        ]

    def _together(self, inputs: Sequence[HopInput], by: By, draws: int) -> tuple[Decoder, Ints | None]:
        """The decoder for these inputs; with several networks, also the number of each row's network."""
        rows, one = [self.network(one.hop) for one in inputs], self.decoder(inputs[0].hop, by)
        if len(set(rows)) == 1:
            return one, None
        masks = torch.stack([self.mask_of(hop) for hop in self.hops])
        stacked = replace(one, flat=self._weights(by), logit_mask=masks)
        return stacked, np.repeat(rows, [len(one.sources) * draws for one in inputs])

    def _translations(self, hop: Hop, outputs: Hypotheses, counts: Ints, rows: slice) -> Translations:
        """The translations of the given rows."""
        first, own = int(counts[: rows.start].sum()), counts[rows]
        part = outputs.take(np.arange(first, first + int(own.sum())))
        return Translations(self.sentences(part.ids, hop), part.scores, part.ended, own)

    def score(
        self, hop: Hop, sources: Sentences, targets: Sentences, as_generated: bool = False
    ) -> tuple[Floats, Ints]:
        return negative_log_likelihood(self.decoder(hop), *self._rows_of(hop, sources, targets), as_generated)

    def drawn_scores(self, hop: Hop, sources: Sentences, targets: Sentences, how: Generate) -> Floats:
        return drawn_scores(self.decoder(hop, own_weights(how)), *self._rows_of(hop, sources, targets), how)

    def drawable(self, hop: Hop) -> Tensor:
        return self.mask_of(hop)

    def _rows_of(self, hop: Hop, sources: Sentences, targets: Sentences) -> tuple[Ragged, Ragged]:
        return self.source_rows(sources, hop), self.target_rows(targets, hop)

    def decoder(self, hop: Hop, by: By = "live") -> Decoder:
        row, mask = self.network(hop), self.mask_of(hop)
        captured = self._captured(self.precision) if self.device.type == "cuda" else None
        flat = self._weights(by)[row : row + 1]
        return Decoder(self.transformer, self.layout, flat, mask, self.precision, captured, self.opening(hop))

    def _weights(self, by: By) -> Tensor:
        return self.live if by == "live" else self.copies[by]

    def _captured(self, precision: torch.dtype) -> CapturedDecoder:
        kind = type(self.transformer).__name__
        transformer, layout = self.transformer, self.layout
        shape = (layout.model.model_dump_json(), tuple(layout.sizes), transformer.conventions)
        key = (kind, shape, precision, self.device)
        if key not in _DECODERS:
            _DECODERS[key] = CapturedDecoder(transformer, layout, precision, self.device)
        return _DECODERS[key]

    def opening(self, hop: Hop) -> int | None:
        """The token that every output of a direction begins with."""
        return None

    def mask_of(self, hop: Hop) -> Tensor:
        """-inf at ids that a direction must not generate."""
        return self.logit_mask(hop.target)

    def logit_mask(self, language: str) -> Tensor:
        """-inf at ids that are not text of the language: padding, unknown, tags, and ids beyond its vocabulary."""
        if language not in self._logit_masks:
            bias = torch.zeros(self.layout.target_size)
            bias[
                [PAD, UNK, self.vocab.synthetic, *(self.vocab.tag(other) for other in self.vocab.languages)]
            ] = -torch.inf
            bias[self.vocab.size(language) :] = -torch.inf
            self._logit_masks[language] = bias.to(self.device)
        return self._logit_masks[language]

    @cached_property
    def _logit_masks(self) -> dict[str, Tensor]:
        return {}

    # -- rows ------------------------------------------------------------------------------------------------

    @property
    def own_tokens(self) -> bool:
        return False

    def source_rows(self, sources: Sentences, hop: Hop, synthetic: bool = False) -> Ragged:
        """Sources with tags: of the target language if the network serves several, and of synthetic text."""
        return tagged(self.vocab, self.shared, sources.ids, hop, synthetic)

    def target_rows(self, targets: Sentences, hop: Hop) -> Ragged:
        return targets.ids

    def sentences(self, rows: Ragged, hop: Hop) -> Sentences:
        """What was generated."""
        return Sentences(self.vocab, hop.target, ids=rows)

    def longer_sides(self, store: Store, start: str, end: str, most: int) -> Ints:
        return store.longer_sides(start, end, most)


def tagged(vocab: Vocab, shared: bool, sources: Ragged, hop: Hop, synthetic: bool = False) -> Ragged:
    """Sources with tags: of the target language if the network is `shared`, and of synthetic text."""
    if synthetic:
        sources = sources.prefixed(vocab.synthetic)
    return sources.prefixed(vocab.tag(hop.target)) if shared else sources


def stack_of(model: TranslationModel) -> NetworkStack:
    """Cast a model that is known to be a stack of networks."""
    assert isinstance(model, NetworkStack), f"{type(model).__name__} is not a stack of networks"
    return model


def stored_size(tensors: Mapping[str, Tensor]) -> int:
    """The number of rows of the embedding tables in named weights."""
    return next(len(tensor) for name, tensor in tensors.items() if name.endswith("/output_bias"))


def all_hops(languages: Sequence[str], wanted: Collection[Hop]) -> tuple[Hop, ...]:
    """The wanted directions, ordered by the languages."""
    ordered = [Hop(one, other) for one in languages for other in languages if one != other]
    return tuple(hop for hop in ordered if hop in wanted)
