"""Pretrained Hugging Face checkpoints: import, safety checks, initialization, frozen generators, and fine-tuning."""
