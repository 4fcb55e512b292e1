"""Decides whether our own transformer can compute a checkpoint (Marian, Pegasus, M2M100, NLLB), and in which form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loopmt.config import Model
from loopmt.model.conventions import Conventions
from loopmt.pretrained.checkpoint import load_config, load_generation
from loopmt.pretrained.numbering import Numbering
from loopmt.pretrained.tokens import ModelTokens
from loopmt.text.ragged import EOS, PAD

NORMS = {"marian": "post", "pegasus": "pre", "m2m_100": "pre"}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# Settings of `generate` that change what greedy search finds, and their values without effect.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "repetition_penalty": (None, 1.0),
    "encoder_repetition_penalty": (None, 1.0),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "begin_suppress_tokens": (None, []),
    "sequence_bias": (None, {}),
    "exponential_decay_length_penalty": (None,),
    "guidance_scale": (None, 1.0),
    "forced_decoder_ids": (None, []),
    "watermarking_config": (None,),
}


class UnfitError(Exception):
    """The reason why our transformer cannot compute a checkpoint."""


@dataclass(frozen=True)
class NativeForm:
    """A checkpoint in the form of our network."""

    model: Model
    conventions: Conventions
    size: int  # of the vocabulary
    never: tuple[int, ...]  # our ids of tokens that it must not generate
    opening: int | None  # our id of the first output token, if it is the same for all languages
    forces_end: bool  # whether outputs at the length limit end with EOS, as in `generate`
    tokens: ModelTokens

    @property
    def shape(self) -> tuple[Model, Conventions, int]:
        """The properties that all networks of a stack must share."""
        return self.model, self.conventions, self.size

    @property
    def numbering(self) -> Numbering:
        assert self.tokens.numbering is not None
        return self.tokens.numbering

    def opening_of(self, code: int | None) -> int | None:
        """Our id of the first output token, given the checkpoint's id of a language code."""
        return self.opening if code is None else int(self.numbering.ours[code])


def native_form(folder: Path, tokens: ModelTokens) -> NativeForm:
    """The form of a checkpoint. Raise an `UnfitError` if our transformer cannot compute it."""
    config, generation = load_config(folder), load_generation(folder)
    if config.model_type not in NORMS:
        raise UnfitError(f"its architecture is {config.model_type}; loopmt has kernels for {', '.join(NORMS)}")
    if unlike := list(_unlike(config, generation, tokens)):
        raise UnfitError(f"networks of loopmt have no {', '.join(unlike)}")
    special = [config.pad_token_id, config.eos_token_id, tokens.tokenizer.unk_token_id]
    numbering = Numbering.of(config.vocab_size, special)
    opening = generation.forced_bos_token_id
    return NativeForm(
        _model(config),
        replace(_conventions(config), opens=tokens.coded or opening is not None),
        config.vocab_size,
        tuple(sorted({PAD, *(int(numbering.ours[one]) for one in _never(generation))})),
        None if opening is None else int(numbering.ours[opening]),
        generation.forced_eos_token_id is not None,
        replace(tokens, numbering=numbering),
    )


def _unlike(config: Any, generation: Any, tokens: ModelTokens) -> Iterator[str]:
    """The checkpoint's settings that our transformer does not support."""
    fits = {
        "activation_function": config.activation_function in ACTIVATIONS,
        "tie_word_embeddings": config.tie_word_embeddings,
        "share_encoder_decoder_embeddings": getattr(config, "share_encoder_decoder_embeddings", True),
        "decoder_attention_heads": config.decoder_attention_heads == config.encoder_attention_heads,
        "decoder_ffn_dim": config.decoder_ffn_dim == config.encoder_ffn_dim,
        "decoder_start_token_id": config.decoder_start_token_id in (config.pad_token_id, config.eos_token_id),
    }
    yield from (f"{key} = {getattr(config, key)}" for key, fit in fits.items() if not fit)
    plain = {key: getattr(generation, key, None) for key in _PLAIN}
    yield from (f"{key} = {value}" for key, value in plain.items() if value not in _PLAIN[key])
    if any(len(words) != 1 for words in generation.bad_words_ids or ()):
        yield "bad_words_ids of several tokens"
    special = (config.pad_token_id, config.eos_token_id, tokens.tokenizer.unk_token_id)
    if len({one for one in special if isinstance(one, int) and 0 <= one < config.vocab_size}) < len(special):
        yield f"padding, end and unknown word = {special}"
    if not (tokens.sources_closed and tokens.targets_closed):
        yield "text without EOS at its end"


def _never(generation: Any) -> list[int]:
    """The checkpoint's ids that `generate` never chooses."""
    words = [word for (word,) in generation.bad_words_ids or ()]
    return [*words, *(generation.suppress_tokens or ())]


def sizes_of(config: Any) -> dict[str, Any]:
    """Activation and sizes of a network, by the keys of `[model]`."""
    return {
        "activation": ACTIVATIONS[config.activation_function],
        "layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "width": config.d_model,
        "feed_forward": config.encoder_ffn_dim,
        "heads": config.encoder_attention_heads,
    }


def _model(config: Any) -> Model:
    try:
        return Model.model_validate(
            {
                "norm": NORMS[config.model_type],
                **sizes_of(config),
                "dropout": config.dropout,
                "attention_dropout": config.attention_dropout,
                "activation_dropout": config.activation_dropout,
            }
        )
    except ValidationError as error:
        raise UnfitError(f"networks of loopmt have no such sizes: {error.errors()[0]['msg']}") from None


def _conventions(config: Any) -> Conventions:
    start = PAD if config.decoder_start_token_id == config.pad_token_id else EOS
    if config.model_type == "m2m_100":
        return Conventions(start, config.pad_token_id + 1, True, config.scale_embedding)
    return Conventions(start, scaled=config.scale_embedding)
