"""A small checkpoint in the format of Hugging Face, made on the spot: Marian with random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch

SIZE: dict[str, Any] = {
    "d_model": 128, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "max_position_embeddings": 128,
    "scale_embedding": True, "dropout": 0.1,
}  # fmt: skip


def write_checkpoint(folder: Path, text: Path, source: str, target: str) -> None:
    """Write a translator from `source` to `target`; `text` holds a file `mono.LANG` for each of them."""
    import transformers

    folder.mkdir(parents=True)
    pieces = [
        piece
        for side, language in (("source", source), ("target", target))
        for piece in _subwords(text / f"mono.{language}", folder / side)
    ]
    ids = {piece: number for number, piece in enumerate(["</s>", "<unk>", *dict.fromkeys(pieces), "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    files: Any = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer: Any = transformers.MarianTokenizer
    tokenizer(*files, source_lang=source, target_lang=target).save_pretrained(folder)
    pad = ids["<pad>"]
    special: dict[str, Any] = {
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
    }
    torch.manual_seed(1)
    config = transformers.MarianConfig(vocab_size=len(ids), activation_function="swish", **special, **SIZE)
    model = transformers.MarianMTModel(config)
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)


def _subwords(text: Path, model: Path) -> list[str]:
    """Learn a subword model and write it to `model`.spm. Return its pieces without the special ones."""
    learn: Any = sentencepiece.SentencePieceTrainer.train
    learn(input=str(text), model_prefix=str(model), vocab_size=200, hard_vocab_limit=False, minloglevel=2)
    file = model.with_suffix(".model").rename(model.with_suffix(".spm"))
    model.with_suffix(".vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
