"""Small decoder-only language models in the public architectures, with a chat template or without one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.pretrained import pairs_of

transformers = pytest.importorskip("transformers", reason="pretrained translators need `transformers`")

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIZE = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_window_layers": 2, "max_position_embeddings": 32768, "tie_word_embeddings": True,
}  # fmt: skip


def make_qwen(text: Path, folder: Path, languages: Sequence[str] = ("en", "fr"), steps: int = 0) -> Path:
    """As Qwen2: bytes as subwords, a padding token of its own, a chat template."""
    tokenizer = _tokenizer(text, languages, {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})
    tokenizer.chat_template = CHAT
    torch.manual_seed(1)
    config = transformers.Qwen2Config(**_special(tokenizer), **SIZE)
    return _saved(_fitted(transformers.Qwen2ForCausalLM(config), tokenizer, text, steps), tokenizer, folder)


def make_llama(text: Path, folder: Path, languages: Sequence[str] = ("en", "fr"), steps: int = 0) -> Path:
    """As Llama: a token at the beginning, no padding token, no chat template."""
    tokenizer = _tokenizer(text, languages, {"eos_token": "<|endoftext|>", "bos_token": "<|im_start|>"}, begins=True)
    config = transformers.LlamaConfig(**_special(tokenizer), bos_token_id=tokenizer.bos_token_id, **SIZE)
    return _saved(_fitted(transformers.LlamaForCausalLM(config), tokenizer, text, steps), tokenizer, folder)


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


def _fitted(model: Any, tokenizer: Any, text: Path, steps: int) -> Any:
    """Trained for a moment on the targets alone, so that its outputs end."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)  # so that the likeliest tokens differ
    _, targets = pairs_of(text, "en", "fr")
    adam = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(steps):
        rows = [f"{target}{tokenizer.eos_token}" for target in targets[16 * (step % 8) : 16 * (step % 8) + 16]]
        ids = [torch.tensor(tokenizer(row).input_ids) for row in rows]
        inputs = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        labels = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=-100)
        model(input_ids=inputs, attention_mask=(labels != -100).long(), labels=labels).loss.backward()
        adam.step()
        adam.zero_grad()
    return model.eval()


def _saved(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
