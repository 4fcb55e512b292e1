"""Small checkpoints of the public architectures, trained for a moment on the toy languages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.checkpoints import learn_subwords, pieces_of

transformers = pytest.importorskip("transformers", reason="pretrained translators need `transformers`")

SIZE = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 128,
    "scale_embedding": True, "dropout": 0.1, "attention_dropout": 0.0, "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}  # fmt: skip
PAIRS = ("en-fr", "en-es", "fr-es")


def make_opus(text: Path, folder: Path, source: str, target: str, steps: int = 150, tags: Sequence[str] = ()) -> Path:
    """As OPUS-MT: Marian, a subword model for each side; with `tags` it has several targets."""
    folder.mkdir(parents=True)
    pieces: dict[str, None] = {}
    for side, language in (("source", source), ("target", target)):
        learn_subwords(text / f"mono.{language}", folder / f"{side}.spm")
        pieces |= dict.fromkeys(pieces_of(folder / f"{side}.spm")[3:])
    ids = {piece: one for one, piece in enumerate(["</s>", "<unk>", *(f">>{tag}<<" for tag in tags), *pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    tokenizer = transformers.MarianTokenizer(
        *(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")),
        source_lang=source,
        target_lang=target,
    )
    tokenizer.save_pretrained(folder)
    pad = ids["<pad>"]
    special = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
    torch.manual_seed(1)
    model = transformers.MarianMTModel(
        transformers.MarianConfig(vocab_size=len(ids), activation_function="swish", **special, **SIZE)
    )
    sides = pairs_of(text, source, target)

    def read(rows: Sequence[int]) -> dict[str, Any]:
        return _batch(tokenizer, [sides[0][row] for row in rows], [sides[1][row] for row in rows])

    _fit(model, read, len(sides[0]), steps)
    model.generation_config.bad_words_ids = [[pad]]
    model.generation_config.num_beams = 4
    model.save_pretrained(folder)
    return folder


def make_m2m(text: Path, folder: Path, languages: Sequence[str] = ("en", "fr", "es"), steps: int = 300) -> Path:
    """As M2M100: one model for all directions, told by codes; NLLB has the same architecture."""
    folder.mkdir(parents=True)
    joint = folder / "joint.txt"
    joint.write_text("".join((text / f"mono.{one}").read_text(encoding="utf-8") for one in languages), encoding="utf-8")
    learn_subwords(joint, folder / "sentencepiece.bpe.model", 160)
    joint.unlink()
    names = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(folder / "sentencepiece.bpe.model")[3:]]
    (folder / "vocab.json").write_text(json.dumps({name: one for one, name in enumerate(names)}), encoding="utf-8")
    tokenizer = transformers.M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(2)
    size = max(map(tokenizer.get_lang_id, tokenizer.lang_code_to_token)) + 9  # it has places that belong to no token
    config = transformers.M2M100Config(vocab_size=size, decoder_start_token_id=2, **SIZE)
    model = transformers.M2M100ForConditionalGeneration(config)
    directions = [(one, other) for one in languages for other in languages if one != other]
    sides = {direction: pairs_of(text, *direction) for direction in directions}

    def read(rows: Sequence[int]) -> dict[str, Any]:
        source, target = directions[int(rows[0]) % len(directions)]
        tokenizer.src_lang, tokenizer.tgt_lang = source, target
        return _batch(tokenizer, *([side[row] for row in rows] for side in sides[source, target]))

    _fit(model, read, 240, steps)
    model.save_pretrained(folder)
    return folder


def make_t5(text: Path, folder: Path, languages: Sequence[str] = ("en", "fr"), steps: int = 0) -> Path:
    """As T5: told what to do by a text before the source."""
    folder.mkdir(parents=True)
    joint = folder / "joint.txt"
    prompt = "translate English to French: German\n" * 20
    rows = (text / f"mono.{one}" for one in languages)
    joint.write_text(prompt + "".join(one.read_text(encoding="utf-8") for one in rows), encoding="utf-8")
    learn_subwords(joint, folder / "spiece.model", 120, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    joint.unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": 0}))
    tokenizer = transformers.T5Tokenizer.from_pretrained(str(folder))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(3)
    config = transformers.T5Config(
        vocab_size=len(tokenizer) + 4, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, dropout_rate=0.1,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    model.save_pretrained(folder)
    return folder


def pairs_of(text: Path, source: str, target: str) -> tuple[list[str], list[str]]:
    pair = next(pair for pair in PAIRS if set(pair.split("-")) == {source, target})
    one, other = ((text / f"bi.{pair}.{side}").read_text(encoding="utf-8").splitlines() for side in (source, target))
    return one, other


def _batch(tokenizer: Any, sources: list[str], targets: list[str]) -> dict[str, Any]:
    batch = tokenizer(sources, text_target=targets, padding=True, return_tensors="pt")
    batch["labels"] = batch["labels"].masked_fill(batch["labels"] == tokenizer.pad_token_id, -100)
    return dict(batch)


def _fit(model: Any, read: Callable[[Sequence[int]], dict[str, Any]], count: int, steps: int) -> None:
    order = np.random.default_rng(1)
    adam = torch.optim.AdamW(model.parameters(), lr=0.01)
    model.train()
    for step in range(steps):
        adam.param_groups[0]["lr"] = 0.01 * min(1, (step + 1) / 20) * (1 - step / steps)
        model(**read(order.choice(count, 32, replace=False).tolist())).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        adam.zero_grad()
    model.eval()


def experiment(
    text: Path,
    languages: Sequence[str],
    pretrained: str | Mapping[str, str],
    *,
    model: str = "",
    mix: str = '["X>Y"]',
    stages: Mapping[str, str | tuple[str, str]] | None = None,
    updates: int = 4,
    validate_every: int = 4,
    compare: Sequence[tuple[str, str]] = (),
    more: str = "",
) -> str:
    """An experiment that trains a checkpoint on the toy languages; a stage is its mix, or its `from` and its mix."""
    pairs = ", ".join(f'"{pair}" = "bi.{pair}"' for pair in PAIRS if set(pair.split("-")) <= set(languages))
    folders = f'"{pretrained}"' if isinstance(pretrained, str) else _table(pretrained)
    lines = [f"languages = {json.dumps(languages)}", "[data]", f'root = "{text}"', f"bitext = {{ {pairs} }}"]
    lines += [f"mono = {_table(dict.fromkeys(languages, 'mono'))}", 'valid = "valid"', 'test = "test"']
    lines += ["[model]", f"pretrained = {folders}", model, "[train]", "tokens = 256", "max_length = 60", "shapes = 2"]
    lines += ["round = 2", "learning_rate = 1e-3", "warmup = 2", f"validate_every = {validate_every}"]
    lines += ["validate_sentences = 4", "log_every = 2"]
    for name, stage in ({"first": mix} if stages is None else stages).items():
        start, own = (None, stage) if isinstance(stage, str) else stage
        lines += ["[[stage]]", f'name = "{name}"', f"mix = {own}", f"updates = {updates}", more]
        lines += [f'from = "{start}"'] if start else []
    for of, against in compare:
        lines += ["[[compare]]", f'of = "{of}"', f'against = "{against}"']
    return "\n".join(lines) + "\n"


def _table(values: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{json.dumps(key)} = {json.dumps(value)}' for key, value in values.items())} }}"
