"""The README of an exported folder: how to load it, and what its input must look like."""

from __future__ import annotations

from typing import Literal

from loopmt.export.network import ExportedNetwork

Format = Literal["hf", "ct2"]

_HUGGING_FACE = """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = "."  # run in the folder of this file, or write its path here
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
batch = tokenizer(["{tag}A sentence.", "{tag}Another one."], padding=True, return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```
"""
_CTRANSLATE2 = """```python
import ctranslate2, sentencepiece

folder = "."  # run in the folder of this file, or write its path here
source = sentencepiece.SentencePieceProcessor(folder + "/source.spm")
target = sentencepiece.SentencePieceProcessor(folder + "/target.spm")
translator = ctranslate2.Translator(folder)
pieces = [{prefix}source.encode(line, out_type=str) for line in ["A sentence.", "Another one."]]
found = translator.translate_batch(pieces, beam_size=4, min_decoding_length=0)
print([target.decode(one.hypotheses[0]) for one in found])
```
"""


def readme(network: ExportedNetwork, form: Format) -> str:
    directions = ", ".join(map(str, network.hops))
    tag = f"<2{network.hops[0].target}>"
    example = _HUGGING_FACE if form == "hf" else _CTRANSLATE2
    code = example.format(
        tag=f"{tag} " if network.shared else "",
        prefix=f'["{tag}"] + ' if network.shared else "",
    )
    return "\n".join([f"# Translator {directions}\n\nTrained with loopmt.\n", code, *_notes(network, form)])


def _notes(network: ExportedNetwork, form: Format) -> list[str]:
    notes = [
        f"- The network was trained on rows of up to {network.longest} subwords: translate sentences, not documents."
    ]
    if network.shared:
        tags = ", ".join(dict.fromkeys(f"`<2{hop.target}>`" for hop in network.hops))
        notes.append(
            f"- One network serves all directions: every source must begin with the tag of its target, {tags}."
        )
    notes += _text_notes(network, in_tokenizer=form == "hf" and network.self_normalising)
    return [*notes, ""]


def _text_notes(network: ExportedNetwork, in_tokenizer: bool) -> list[str]:
    form, language = network.vocab.form, network.hops[0].source
    steps = [
        ("lower-cased", form.lowercase),
        ("in Unicode NFC", form.nfc),
        ("without control characters and with single spaces", form.control),
    ]
    required = "; ".join(step for step, on in steps if on)
    notes = []
    if required and not in_tokenizer:
        notes.append(f"- The network needs normalized text ({required}): normalize your text first.")
    elif required:
        notes.append(f"- The tokenizer normalizes text as the network needs it: {required}.")
    if form.pretokenize:
        notes.append(
            "- The network needs Moses tokens, which the subword model does not make: tokenize each line with "
            f'`sacremoses.MosesTokenizer("{language}").tokenize(line, return_str=True, escape=False)` first and '
            "detokenize the output with `sacremoses.MosesDetokenizer`."
        )
    return notes
