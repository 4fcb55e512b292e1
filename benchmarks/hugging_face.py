"""Marian of `transformers` with the weights of one of our networks, for comparison."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.timing import Plan
from torch import Tensor

from loopmt.config import Generate
from loopmt.export.network import networks
from loopmt.pretrained.checkpoint import transformers
from loopmt.pretrained.weight_names import to_hugging_face
from loopmt.text.batch import Batch
from loopmt.text.ragged import EOS, PAD, UNK
from loopmt.translate.decoder import padded
from loopmt.translate.networks import NetworkStack
from loopmt.translate.scoring import shifted


def marian(translators: NetworkStack, plan: Plan, dtype: torch.dtype) -> Any:
    """The first network as `MarianMTModel`."""
    library = transformers()
    model, (first, *_) = translators.model, networks(translators, "bpe", 512)
    config = library.MarianConfig(
        vocab_size=len(first.weights["output_bias"]),
        d_model=model.width,
        encoder_layers=model.layers,
        decoder_layers=model.num_decoder_layers,
        encoder_attention_heads=model.heads,
        decoder_attention_heads=model.heads,
        encoder_ffn_dim=model.feed_forward,
        decoder_ffn_dim=model.feed_forward,
        activation_function=model.activation,
        dropout=model.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        max_position_embeddings=1024,
        pad_token_id=PAD,
        eos_token_id=EOS,
        unk_token_id=UNK,
        bos_token_id=None,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
    )
    network = library.MarianMTModel(config)
    network.load_state_dict(to_hugging_face(model, first.weights), strict=False)
    network.tie_weights()
    return network.to(device=plan.device, dtype=dtype)


# -- training ----------------------------------------------------------------------------------------------------


def training(
    translators: NetworkStack, batch: Batch, plan: Plan, compiled: bool = False, pure: bool = False
) -> Callable[[], None]:
    """A usual update: autocast with float32 weights (`pure`: all in bfloat16), fused Adam, clipping."""
    network = marian(translators, plan, plan.precision if pure else torch.float32).train()
    adam = torch.optim.Adam(network.parameters(), 1e-4, (0.9, 0.98), 1e-9, fused=True)
    loss_of: Callable[[Any, Tensor, Tensor], Tensor] = torch.compile(_loss) if compiled else _loss
    casting = plan.cuda and not pure

    def update() -> None:
        source, target = (_on_device(table[0], plan) for table in (batch.source_NBL, batch.target_NBL))
        context: AbstractContextManager[Any] = torch.autocast("cuda", torch.bfloat16) if casting else nullcontext()
        with context:
            loss = loss_of(network, source, target)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        adam.step()
        adam.zero_grad(set_to_none=True)

    return update


def _on_device(table: Any, plan: Plan) -> Tensor:
    ids = torch.from_numpy(np.ascontiguousarray(table))
    return ids.pin_memory().to(plan.device, non_blocking=True) if plan.cuda else ids


def _loss(network: Any, source: Tensor, target: Tensor) -> Tensor:
    """The same loss as ours: label smoothing 0.1 in float32."""
    mask = (source != PAD).long()
    found = network(input_ids=source, attention_mask=mask, decoder_input_ids=shifted(target), use_cache=False)
    return F.cross_entropy(found.logits.flatten(0, 1).float(), target.flatten(), ignore_index=PAD, label_smoothing=0.1)


# -- generation --------------------------------------------------------------------------------------------------


def generation(
    translators: NetworkStack,
    sources: Sequence[Sequence[int]],
    how: Generate,
    length: int,
    plan: Plan,
    static: bool = False,
) -> Callable[[], Tensor]:
    """`generate` on all sources in one batch, which is fastest.

    With a static cache it compiles the decoder on CUDA.
    """
    network = marian(translators, plan, plan.precision).eval()
    source = padded(sources, plan.device)
    mask = (source != PAD).long()
    logit_mask = translators.logit_mask(translators.hops[0].target).isinf().nonzero()[:, 0].tolist()
    settings = transformers().GenerationConfig(
        max_new_tokens=length,
        min_new_tokens=length,
        num_beams=how.beam if how.how == "beam" else 1,
        do_sample=how.how == "sample",
        length_penalty=how.length_penalty,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        suppress_tokens=logit_mask,
        **({"top_k": 0} if how.how == "sample" else {}),  # all of the vocabulary
        **({"cache_implementation": "static"} if static else {}),
    )

    @torch.no_grad()
    def generate() -> Tensor:
        with _quiet():
            return Tensor(network.generate(input_ids=source, attention_mask=mask, generation_config=settings))

    return generate


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the repeated warnings of `generate` about its settings."""
    log = logging.getLogger("transformers")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)
