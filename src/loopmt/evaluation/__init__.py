"""Evaluation of translations: metrics with signatures, paired bootstrap, validation."""
