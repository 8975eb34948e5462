"""Models small enough to make in a test: random weights, and a tokenizer of a few words and pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["the", "cat", "sat", "on", "mat", "a", "dog", "ran", "fast", "red", "##s", "##ing", "walk", "猫", ",", "."]
WORDS = SPECIAL + PIECES
TEXTS = ["The cats sat on the mat.", "a dog", "", "walking dogs ran, fast, " * 9, "red zebras walking", "a red cat ran"]
WIDTH = 16
SHAPE = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def make_tokenizer(extra: tuple[str, ...] = ()) -> Any:
    """BERT's tokenizer over WORDS."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocab = {word: id for id, word in enumerate([*WORDS, *extra])}
    inner = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    ends = [("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
    inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **special)  # type: ignore[no-untyped-call]


def make_model(kind: str, mlm: bool = True) -> Any:
    """A random model of the named architecture, with weights large enough for weights of all sizes to come out."""
    import torch
    import transformers

    made = getattr(transformers, f"{kind}Config")(
        vocab_size=len(WORDS), max_position_embeddings=64, pad_token_id=0, bos_token_id=2, eos_token_id=3, **SHAPE
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForMaskedLM" if mlm else f"{kind}Model")(made)
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model.eval()


def make_folder(folder: Path, kind: str = "Bert", mlm: bool = True) -> Path:
    """A plain Hugging Face folder."""
    make_model(kind, mlm).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def make_byte_tokenizer() -> Any:
    """RoBERTa's tokenizer over single bytes."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = {piece: at for at, piece in enumerate(["<s>", "<pad>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(pieces, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer
