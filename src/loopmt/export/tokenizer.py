"""Export of the vocabulary as a tokenizer that `AutoTokenizer` loads: the same ids, with normalization.

A joint vocabulary becomes a `tokenizer.json`, which needs neither loopmt nor sentencepiece. Vocabularies for each
language become a Marian tokenizer of two sentencepiece models.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from loopmt.export.network import ExportedNetwork, Kind
from loopmt.files.regular import read_bytes
from loopmt.text import clean, vocab
from loopmt.text.clean import Form
from loopmt.text.ragged import EOS, PAD, UNK
from loopmt.text.vocab import Subwords


def write_tokenizer(network: ExportedNetwork, folder: Path) -> None:
    if network.vocab.joint:
        _write_fast(network, folder)
    else:
        _write_marian(network, folder)


# -- one vocabulary for all languages ----------------------------------------------------------------------------


def _write_fast(network: ExportedNetwork, folder: Path) -> None:
    subwords = Subwords(network.source_model)
    tags = [f"<2{language}>" for language in network.vocab.languages] if network.shared else []
    special = [subwords.pieces[one] for one in (PAD, EOS, UNK)]
    _tokenizer(subwords, network.kind, network.vocab.form, special, tags).save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": special[0],
        "eos_token": special[1],
        "unk_token": special[2],
        "additional_special_tokens": tags,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": network.longest,
        "clean_up_tokenization_spaces": False,
        # Text must not contain special tokens, except the language tags of a shared network.
        "split_special_tokens": not tags,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def _tokenizer(subwords: Subwords, kind: Kind, form: Form, special: list[str], tags: list[str]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors

    tokenizer = Tokenizer(_model(subwords, kind))
    tokenizer.normalizer = _normalizer(form)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(vocab.SPACE, prepend_scheme="always", split=True)
    end = special[1]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {end}", special_tokens=[(end, EOS)])
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(vocab.SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
            decoders.Replace(vocab.STAND_IN, vocab.SPACE),
            decoders.Replace("\n", " "),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in special])
    tokenizer.add_special_tokens([AddedToken(tag, special=True, normalized=False, rstrip=True) for tag in tags])
    return tokenizer


def _model(subwords: Subwords, kind: Kind) -> Any:
    from tokenizers import models

    if kind == "unigram":
        scored = [(piece, subwords.score(one)) for piece, one in subwords.ids.items()]
        return models.Unigram(scored, UNK, subwords.spells_bytes)
    return models.BPE(
        subwords.ids,
        list(subwords.merges()),
        unk_token=subwords.pieces[UNK],
        fuse_unk=True,
        byte_fallback=subwords.spells_bytes,
    )


def _normalizer(form: Form) -> Any:
    """`Form.normalise` as a normalizer of `tokenizers`, without Moses tokenization."""
    from tokenizers import Regex, normalizers

    steps: list[Any] = []
    if form.control:
        steps.append(normalizers.Replace(Regex(clean.INVISIBLE.pattern), ""))
        steps.append(normalizers.Replace(Regex(rf"({clean.CONTROL.pattern}|\s)+"), " "))
        steps.append(normalizers.Strip())
    if form.lowercase:  # `tokenizers` lower-cases single letters, but capital sigma has two lower-case forms
        steps += [normalizers.Replace(Regex(r"(?<=\p{L})Σ(?!\p{L})"), "ς"), normalizers.Lowercase()]
    if form.nfc:
        steps.append(normalizers.NFC())
    return normalizers.Sequence([*steps, normalizers.Replace(vocab.SPACE, vocab.STAND_IN)])


# -- one vocabulary for each language ----------------------------------------------------------------------------


def _write_marian(network: ExportedNetwork, folder: Path) -> None:
    models = {"source.spm": network.source_model, "target.spm": network.target_model}
    for name, table in (("source.spm", "vocab.json"), ("target.spm", "target_vocab.json")):
        (folder / name).write_bytes(read_bytes(models[name]))
        ids = Subwords(models[name]).ids
        (folder / table).write_text(json.dumps(ids, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    config = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": True,
        "source_lang": network.hops[0].source,
        "target_lang": network.hops[0].target,
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "model_max_length": network.longest,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
