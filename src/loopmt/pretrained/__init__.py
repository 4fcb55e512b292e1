"""Pretrained checkpoints in the format of Hugging Face: read, checked, and used to start or to generate."""
