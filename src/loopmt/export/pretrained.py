"""Export of a trained checkpoint to a folder that `from_pretrained` loads, with its own architecture and tokenizer."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from loopmt.config import Generate
from loopmt.export.parity import Bleu, Parity, ParityText
from loopmt.path import Hop
from loopmt.pretrained.causal import CausalNetwork, CausalTokens
from loopmt.pretrained.checkpoint import load_pretrained, load_tokenizer
from loopmt.pretrained.lora import merged, save_adapter, with_saved_adapter
from loopmt.pretrained.module_stack import ModuleStack
from loopmt.pretrained.native_stack import NativeStack
from loopmt.pretrained.network import PretrainedNetwork
from loopmt.pretrained.tokens import ModelTokens
from loopmt.translate.protocol import DecodeLimits, HopInput, Sentences

Stack = ModuleStack | NativeStack
_MODEL_FILES = ("config.json", "generation_config.json")
_WEIGHTS = (".safetensors", ".safetensors.index.json", ".bin.index.json")
_LIMITS = DecodeLimits(growth=0, extra=96)  # longer outputs of an undertrained network only repeat
_SAME = 1e-3  # tolerance, in nats, of a target's log-likelihood
_README = """# Translator {directions}

Trained with loopmt from `{origin}`: the same architecture, tokenizer and vocabulary.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = "."  # run in the folder of this file, or write its path here
tokenizer = AutoTokenizer.from_pretrained(folder{source})
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
batch = tokenizer(["{before}A sentence."], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**batch{target}), skip_special_tokens=True))
```
"""
_CAUSAL_README = """# Translator {directions}

Trained with loopmt from `{origin}`: the same architecture, tokenizer and vocabulary.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "."  # run in the folder of this file, or write its path here
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder)
prompt = {prompt}
text = {text}
batch = tokenizer([text], add_special_tokens={special}, return_tensors="pt")
ids = model.generate(**batch, do_sample=False, max_new_tokens=100)[:, batch.input_ids.shape[1]:]
print(tokenizer.batch_decode(ids, skip_special_tokens=True))
```
"""
_ADAPTER = """# Adapter {directions}

LoRA, trained with loopmt, for the checkpoint `{origin}`.

```python
from peft import PeftModel
from transformers import {kind}

model = PeftModel.from_pretrained({kind}.from_pretrained("{origin}"), ".")
```
"""


def write_pretrained(network: PretrainedNetwork, hops: Sequence[Hop], origin: Path, folder: Path) -> None:
    """Write the model, with a merged adapter; the other files are copied from `origin`, the original checkpoint."""
    model = network.model
    if network.adapted:
        model = load_pretrained(origin)
        with merged(network.model) as tensors:
            model.load_state_dict(tensors)
    model.save_pretrained(str(folder))
    for file in origin.iterdir():
        if not file.name.endswith(_WEIGHTS) and file.name not in _MODEL_FILES:
            shutil.copyfile(file, folder / file.name)
    (folder / "README.md").write_text(_readme(network.tokens, hops, origin), encoding="utf-8")


def write_adapter(network: PretrainedNetwork, hops: Sequence[Hop], base: str, folder: Path) -> None:
    """Write only the adapter; `base` is the name of its checkpoint in the experiment."""
    causal = isinstance(network, CausalNetwork)
    save_adapter(network.model, base, folder, "CAUSAL_LM" if causal else "SEQ_2_SEQ_LM")
    kind = "AutoModelForCausalLM" if causal else "AutoModelForSeq2SeqLM"
    text = _ADAPTER.format(directions=", ".join(map(str, hops)), origin=base, kind=kind)
    (folder / "README.md").write_text(text, encoding="utf-8")


def _readme(tokens: ModelTokens, hops: Sequence[Hop], origin: Path) -> str:
    hop = hops[0]
    if isinstance(tokens, CausalTokens):
        return _causal_readme(tokens, hops, origin)
    forced = tokens.forced(hop).get("forced_bos_token_id")
    return _README.format(
        directions=", ".join(map(str, hops)),
        origin=origin.name,
        source=f', src_lang="{tokens.code(hop.source)}"' if tokens.coded else "",
        target="" if forced is None else f", forced_bos_token_id={forced}",
        before=f">>{tokens.code(hop.target)}<< " if tokens.tagged else "",
    )


def _causal_readme(tokens: CausalTokens, hops: Sequence[Hop], origin: Path) -> str:
    """The README, with the prompt of the first direction."""
    prompt = tokens.filled("A sentence.", hops[0])
    chat = "tokenizer.apply_chat_template([{'role': 'user', 'content': prompt}], tokenize=False, {})"
    return _CAUSAL_README.format(
        directions=", ".join(map(str, hops)),
        origin=origin.name,
        prompt=repr(prompt),
        text=chat.replace("{}", "add_generation_prompt=True") if tokens.chats else "prompt",
        special=not tokens.chats,
    )


def loaded(stack: ModuleStack, folders: Callable[[str], Path], bases: Callable[[str], Path]) -> ModuleStack:
    """Load the exported folders as a user would; an adapter is added to its base."""
    networks = {name: _loaded(network, folders(name), bases(name)) for name, network in stack.networks.items()}
    return replace(stack, networks=networks, copies={})


def _loaded(network: PretrainedNetwork, folder: Path, base: Path) -> PretrainedNetwork:
    adapter = (folder / "adapter_config.json").is_file()
    checkpoint = base if adapter else folder
    model = load_pretrained(checkpoint)
    model = with_saved_adapter(model, folder) if adapter else model
    tokens = replace(network.tokens, folder=checkpoint, tokenizer=load_tokenizer(checkpoint))
    return replace(network, model=model, tokens=tokens)


def compare_pretrained(ours: Stack, theirs: Stack, text: ParityText, bleu: Bleu) -> Parity:
    hop, models = text.hop, (ours, theirs)
    our_ids, their_ids = (model.tokens_of(hop).read(text.sources, hop) for model in models)
    misread = sum(one != other for one, other in zip(our_ids, their_ids, strict=True))
    our_outputs, their_outputs = (_greedy(model, text) for model in models)
    same = sum(one == other for one, other in zip(our_outputs, their_outputs, strict=True))
    ties = 0 if same == len(our_outputs) else _ties(models, text, our_outputs, their_outputs)
    our_bleu = None if text.references is None else bleu(our_outputs, text.references)
    difference = None if our_bleu is None else bleu(their_outputs, text.references or []) - our_bleu
    return Parity(str(hop), len(our_outputs), misread, same, ties, None, our_bleu, difference)


def _greedy(model: Stack, text: ParityText) -> list[str]:
    sources = HopInput(text.hop, Sentences(model.vocab, text.hop.source, texts=text.sources))
    return model.generate([sources], Generate(how="greedy"), _LIMITS, ("parity",))[0].sentences.texts


def _ties(models: Sequence[Stack], text: ParityText, ours: list[str], theirs: list[str]) -> int:
    """Count translations that differ only by rounding: both models give both the same likelihood."""
    different = [row for row, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
    sources = Sentences(None, text.hop.source, texts=[text.sources[row] for row in different])
    equal = np.ones(len(different), dtype=np.bool_)
    for outputs in (ours, theirs):
        targets = Sentences(None, text.hop.target, texts=[outputs[row] for row in different])
        one, other = (model.score(text.hop, sources, targets)[0] for model in models)
        equal &= np.abs(one - other) < _SAME
    return int(equal.sum())
