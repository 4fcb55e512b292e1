"""Check, once before training, that a checkpoint translates through loopmt as through Hugging Face alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopmt.config import Generate
from loopmt.errors import DataError
from loopmt.path import Hop
from loopmt.pretrained.causal import CausalNetwork, CausalTokens
from loopmt.pretrained.native_stack import NativeStack
from loopmt.pretrained.network import PretrainedNetwork
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences

SENTENCES = 20
_LONGEST = 60  # subwords of an output
_LIMITS = DecodeLimits(growth=0, extra=_LONGEST)
_GREEDY = Generate(how="greedy")
_SAME_LOSS = 1e-4  # nats per token, in float32


def verify(network: PretrainedNetwork, hop: Hop, texts: Sequence[str]) -> int:
    """Compare the translations; an error if any differs. Sentences are translated one at a time, without padding."""
    sources = network.tokens.read(texts, hop)
    ours = [text for text, _ in network.generate(sources, hop, _GREEDY, _LIMITS, 1)] if sources else []
    for text, found, ids in zip(texts, ours, sources, strict=True):
        theirs = _plainly(network, hop, text)
        if _same(found) != theirs and _same(network.generate([ids], hop, _GREEDY, _LIMITS, 1)[0][0]) != theirs:
            raise DataError(
                f"{network.tokens.folder}: {text!r} becomes {found!r} through loopmt, but {theirs!r} through "
                "Hugging Face alone. loopmt does not know how its tokenizer selects languages: import it as a frozen "
                "generator instead (docs/exchange.md)."
            )
    return len(ours)


def disagreement(native: NativeStack, network: PretrainedNetwork, hop: Hop, texts: Sequence[str]) -> str | None:
    """The first difference between our transformer and the module in losses or greedy translations, or None."""
    tokens, sentences = network.tokens, Sentences(None, hop.source, texts=texts)
    targets = Sentences(None, hop.target, texts=texts)  # any text has a loss
    ours, counts = native.score(hop, sentences, targets)
    theirs = network.losses(tokens.read(texts, hop), tokens.targets(texts, hop))
    worst = float(np.max(np.abs(ours - theirs) / counts, initial=0.0))
    if not worst <= _SAME_LOSS:
        return f"{hop}: losses differ by {worst:.1e} nats per token"
    found = native.generate([HopInput(hop, sentences)], _GREEDY, _LIMITS, ("verify",))[0].sentences.texts
    for text, our_text, ids in zip(texts, found, tokens.read(texts, hop), strict=True):
        their_text = network.generate([ids], hop, _GREEDY, _LIMITS, 1)[0][0]
        if our_text != their_text:
            return f"{hop}: {text!r} becomes {our_text!r}, but {their_text!r} by the module"
    return None


def _same(text: str) -> str:
    return " ".join(text.split())


def _plainly(network: PretrainedNetwork, hop: Hop, text: str) -> str:
    """Translate as in the documentation of the checkpoint."""
    tokens, forced = network.tokens, dict[str, Any]()
    tokenizer, first = tokens.tokenizer, 0
    if tokens.coded:
        tokenizer.src_lang = tokens.code(hop.source)
        forced = tokens.forced(hop)
    if tokens.tagged:
        text = f">>{tokens.code(hop.target)}<< {text}"
    elif tokens.prompt is not None:
        text = (
            tokens.prompt.replace("{source_language}", tokens.code(hop.source))
            .replace("{target_language}", tokens.code(hop.target))
            .replace("{text}", text)
        )
    if isinstance(network, CausalNetwork):
        batch = _dialogue(network.tokens, text).to(network.device)
        first, forced = batch.input_ids.shape[1], network.stopping
    else:
        batch = tokenizer(text, return_tensors="pt", truncation=True, max_length=512).to(network.device)
    ids = network.model.generate(
        **batch, num_beams=1, do_sample=False, max_length=None, max_new_tokens=_LONGEST, **forced
    )
    text = str(tokenizer.decode(ids[0, first:], skip_special_tokens=True))
    if isinstance(network, CausalNetwork):
        text = network.tokens.until_stop(text)
    for code in tokens.known_codes if tokens.coded else ():
        text = text.replace(f"__{code}__", "")
    return _same(text)


def _dialogue(tokens: CausalTokens, prompt: str) -> Any:
    if not tokens.chats:
        return tokens.tokenizer(prompt, return_tensors="pt")
    turns, settings = [{"role": "user", "content": prompt}], {"return_tensors": "pt", "return_dict": True}
    return tokens.tokenizer.apply_chat_template(turns, add_generation_prompt=True, **settings)
