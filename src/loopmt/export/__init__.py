"""Export of networks to Hugging Face and CTranslate2, checked against the original."""
