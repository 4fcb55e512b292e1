"""Small decoder-only language models in the public architectures, with a chat template or without one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="pretrained translators need `transformers`")

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIZE = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32768, "tie_word_embeddings": True,
}  # fmt: skip


def make_qwen(text: Path, folder: Path, languages: Sequence[str] = ("en", "fr")) -> Path:
    """As Qwen2: bytes as subwords, a padding token of its own, a chat template."""
    tokenizer = _tokenizer(text, languages, {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})
    tokenizer.chat_template = CHAT
    config = transformers.Qwen2Config(**_special(tokenizer), **SIZE)
    return _saved(transformers.Qwen2ForCausalLM, config, tokenizer, folder)


def make_llama(text: Path, folder: Path, languages: Sequence[str] = ("en", "fr")) -> Path:
    """As Llama: a token at the beginning, no padding token, no chat template."""
    tokenizer = _tokenizer(text, languages, {"eos_token": "<|endoftext|>", "bos_token": "<|im_start|>"}, begins=True)
    config = transformers.LlamaConfig(**_special(tokenizer), bos_token_id=tokenizer.bos_token_id, **SIZE)
    return _saved(transformers.LlamaForCausalLM, config, tokenizer, folder)


def _tokenizer(text: Path, languages: Sequence[str], tokens: dict[str, str], begins: bool = False) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    made.train([str(text / f"mono.{one}") for one in languages], trainer)
    if begins:
        begin = ("<|im_start|>", made.token_to_id("<|im_start|>"))
        made.post_processor = processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=[begin])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **tokens)


def _special(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer) + 3,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _saved(kind: Any, config: Any, tokenizer: Any, folder: Path) -> Path:
    torch.manual_seed(1)
    model = kind(config)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)  # so that the likeliest tokens differ
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
