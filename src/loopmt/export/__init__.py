"""Networks leave for Hugging Face and CTranslate2, and come in from Hugging Face."""
