"""Transformer models as encoders (extra `torch`), from folders or the Hugging Face hub."""
