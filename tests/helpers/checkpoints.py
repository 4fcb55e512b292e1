"""Checkpoints of the shapes that are public, made here, offline, and experiments that import them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch

transformers = pytest.importorskip("transformers", reason="imported translators need `transformers`")

CONFIG = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 128,
    "scale_embedding": True, "init_std": 0.3,
}  # fmt: skip


def make_opus(text: Path, folder: Path) -> Path:
    """As the OPUS-MT checkpoints are: swish, a sentencepiece model for each side, one table, padding last."""
    pieces: dict[str, None] = {}
    for side, language in (("source", "en"), ("target", "fr")):
        learn_subwords(text / f"bi.en-fr.{language}", folder / f"{side}.spm")
        pieces |= dict.fromkeys(pieces_of(folder / f"{side}.spm")[3:])
    ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    last = len(ids) - 1
    tokens = {"pad_token_id": last, "decoder_start_token_id": last, "eos_token_id": 0, "forced_eos_token_id": 0}
    config = transformers.MarianConfig(vocab_size=len(ids), activation_function="swish", **tokens, **CONFIG)
    torch.manual_seed(1)
    model = transformers.MarianMTModel(config)
    model.final_logits_bias.normal_()
    model.generation_config.bad_words_ids = [[last]]
    model.generation_config.num_beams = 6
    model.save_pretrained(folder)
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def make_m2m(text: Path, folder: Path) -> Path:
    """As the multilingual ones are: one model for all languages, which are told by codes."""
    learn_subwords(text / "bi.en-fr.en", folder / "sentencepiece.bpe.model")
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(folder / "sentencepiece.bpe.model")[3:]]
    (folder / "vocab.json").write_text(json.dumps({name: one for one, name in enumerate(names)}), encoding="utf-8")
    tokenizer = transformers.M2M100Tokenizer(
        vocab_file=str(folder / "vocab.json"), spm_file=str(folder / "sentencepiece.bpe.model")
    )
    torch.manual_seed(2)
    config = transformers.M2M100Config(vocab_size=400, **CONFIG)
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def learn_subwords(file: Path, model: Path, size: int = 70, **settings: int) -> None:
    train: Any = sentencepiece.SentencePieceTrainer.train
    train(input=str(file), model_prefix=str(model), vocab_size=size, hard_vocab_limit=False, minloglevel=2, **settings)
    model.with_name(f"{model.name}.model").rename(model)
    model.with_name(f"{model.name}.vocab").unlink()


def pieces_of(model: Path) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return [processor.id_to_piece(one) for one in range(processor.get_piece_size())]


def experiment_text(text: Path, *, model: str = "", imported: str = "", mix: str = '"X>Y"', vocab: int = 360) -> str:
    return f"""
languages = ["en", "fr"]
vocab = {{ size = {vocab} }}
[data]
root = "{text}"
bitext = {{ "en-fr" = "bi.en-fr" }}
mono = {{ en = "mono", fr = "mono" }}
valid = "valid"
[model]
layers = 1
width = 32
feed_forward = 64
heads = 2
dropout = 0.0
{model}
[train]
tokens = 256
max_length = 40
shapes = 1
round = 2
validate_every = 4
validate_sentences = 4
[[stage]]
name = "first"
mix = [{mix}]
updates = 4
{imported}
"""


def imported_as(use: str, direction: str = "en>fr") -> str:
    return f'[[imported]]\ndirection = "{direction}"\nuse = "{use}"\n'
