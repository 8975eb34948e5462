"""The Hugging Face part of a model: its backbone and tokenizer are loaded here and checked against each other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from tokenizers import normalizers
from torch import nn
from transformers.utils import logging as transformers_logging

from denslice.encoders.torch.hub import local_folder
from denslice.encoders.torch.model_folder import check_tokenizer_files
from denslice.encoders.torch.sentence_transformers_folder import body_folder, lowers_case
from denslice.errors import InputError

UNLOADABLE = (OSError, ValueError, RuntimeError, KeyError, AttributeError, TypeError, SafetensorError)


def load_tokenizer(path_or_hub_id: str | Path) -> Any:
    """Return the tokenizer of a model folder or of a model on the hub; it pads on the right."""
    body = body_folder(local_folder(path_or_hub_id))
    check_tokenizer_files(body)
    try:
        with quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                body, local_files_only=True, trust_remote_code=False, padding_side="right"
            )
    except UNLOADABLE as error:
        raise InputError(f"cannot load the tokenizer in {body}: {error}") from error
    if lowers_case(body):  # before any other step
        backend = tokenizer.backend_tokenizer
        steps = [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
        backend.normalizer = normalizers.Sequence(steps)
    return tokenizer


def load_backbone(body: Path, has_mlm: bool, allow_new_head: bool) -> Any:
    """Return the Hugging Face model; raise InputError if weights are missing, except those of a new MLM head."""
    kind: Any = transformers.AutoModelForMaskedLM if has_mlm else transformers.AutoModel
    try:
        with quiet():
            backbone, report = kind.from_pretrained(
                body, local_files_only=True, trust_remote_code=False, dtype=torch.float32, output_loading_info=True
            )
    except UNLOADABLE as error:
        raise InputError(f"cannot load the model in {body}: {error}") from error
    missing = sorted(key for key in report["missing_keys"] if "pooler." not in key)
    if has_mlm and allow_new_head:
        missing = [key for key in missing if key.startswith(f"{backbone.base_model_prefix}.")]
    if missing:
        raise InputError(f"the weights in {body} lack {', '.join(missing[:3])}{' and more' if missing[3:] else ''}")
    if isinstance(getattr(backbone, "pooler", None), nn.Module):
        backbone.pooler = None  # unused; in training its parameters would wait for gradients that never come
    return backbone


def mlm_parts(backbone: Any) -> list[Any]:
    """Return the modules from hidden states to logits over the vocabulary, in order."""
    chains = (
        ["cls"],  # BERT
        ["lm_head"],  # RoBERTa, XLM-R, CamemBERT, MPNet
        ["vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"],  # DistilBERT
        ["generator_predictions", "generator_lm_head"],  # ELECTRA
        ["head", "decoder"],  # ModernBERT
    )
    for chain in chains:
        if all(hasattr(backbone, name) for name in chain):
            return [getattr(backbone, name) for name in chain]
    raise InputError(f"SPLADE cannot find the masked-language head of a {type(backbone).__name__}")


def positions(backbone: Any) -> int:
    """Return the longest sequence of the backbone; RoBERTa and its kin count positions from the padding id on."""
    limit = int(getattr(backbone.config, "max_position_embeddings", sys.maxsize))
    embeddings = getattr(backbone.base_model, "embeddings", None)
    padding = getattr(embeddings, "padding_idx", None)
    return limit - padding - 1 if isinstance(padding, int) and hasattr(embeddings, "position_embeddings") else limit


def check_fit(tokenizer: Any, backbone: Any, body: Path) -> None:
    """Raise InputError if the tokenizer has ids that the backbone has no embedding for."""
    tokens = max(tokenizer.get_vocab().values(), default=-1) + 1
    rows = backbone.get_input_embeddings().num_embeddings
    if tokens > rows:
        found = f"it has {tokens:,} tokens, the model embeds {rows:,}"
        raise InputError(f"the tokenizer in {body} does not fit the model: {found}")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and reports of transformers; denslice checks what matters in them."""
    log: Any = transformers_logging
    level, has_bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if has_bars:
            log.enable_progress_bar()
