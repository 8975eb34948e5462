"""Model folders: their layout, the configuration that it implies, and the weights of their heads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from denslice.encoders.model_config import CONFIG_FILE, TOKEN_HEADS, ModelConfig
from denslice.errors import InputError

HEADS_FILE = "heads.safetensors"
MODULES_FILE = "modules.json"
SAFE_WEIGHTS, PICKLED_WEIGHTS = "model.safetensors", "pytorch_model.bin"
WEIGHT_FILES = (SAFE_WEIGHTS, f"{SAFE_WEIGHTS}.index.json", PICKLED_WEIGHTS, f"{PICKLED_WEIGHTS}.index.json")
SENTENCE_PIECES = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", *SENTENCE_PIECES)
TOKEN_HEAD = {"tok_proj.weight": "token_head.weight", "tok_proj.bias": "token_head.bias"}


@dataclass(frozen=True)
class ModelFolder:
    """A model on disk. `config` is None for a plain Hugging Face model, which does not name its heads."""

    body: Path  # the folder of the backbone and the tokenizer
    config: ModelConfig | None = None
    heads: Mapping[str, Tensor] = field(default_factory=dict)


def read_own(folder: Path) -> ModelFolder:
    """Read a folder that denslice wrote."""
    config = ModelConfig.from_json(read_json(folder / CONFIG_FILE))
    has_heads = config.lexical in TOKEN_HEADS or config.dimensions is not None
    return ModelFolder(folder, config, load_weights(folder / HEADS_FILE) if has_heads else {})


def read_plain(folder: Path) -> ModelFolder:
    """Read a Hugging Face folder: a published uniCOIL, which has weights `tok_proj`, or a plain backbone."""
    heads = _token_projection(folder)
    published = ModelConfig(lexical="unicoil", max_length=512, query_length=128)
    return ModelFolder(folder, published if heads else None, heads)


def check_files(body: Path) -> None:
    """Raise InputError, which names the file, if a backbone or its tokenizer is incomplete."""
    _check_one_of(body, ("config.json",), "the model's configuration")
    _check_one_of(body, WEIGHT_FILES, "the model's weights")
    check_tokenizer_files(body)


def check_tokenizer_files(body: Path) -> None:
    """Raise InputError if the folder has no tokenizer."""
    _check_one_of(body, TOKENIZER_FILES, "the tokenizer")


def read_json(path: Path) -> Any:
    """Return the JSON value in a file; raise InputError if the file is missing or is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"the model folder {path.parent} has no {path.name}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None


def load_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors or a PyTorch file; nothing but tensors is unpickled."""
    if not path.is_file():
        raise InputError(f"the model folder {path.parent} has no {path.name}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return weights
    except (SafetensorError, RuntimeError, ValueError, EOFError, OSError) as error:
        raise InputError(f"cannot read the weights in {path}: {error}") from None


def _check_one_of(folder: Path, names: tuple[str, ...], what: str) -> None:
    if not any((folder / name).is_file() for name in names):
        rest = f" (nor {', '.join(names[1:])})" if names[1:] else ""
        raise InputError(f"the model folder {folder} has no {names[0]}{rest}: {what}")


def _token_projection(folder: Path) -> dict[str, Tensor]:
    """Return the weights called `tok_proj` among those of the backbone, by the names that BiEncoder uses."""
    safe, pickled = folder / SAFE_WEIGHTS, folder / PICKLED_WEIGHTS
    if safe.is_file():
        return _some_safe(safe)
    weights = load_weights(pickled) if pickled.is_file() else {}
    return {ours: weights[theirs] for theirs, ours in TOKEN_HEAD.items() if theirs in weights}


def _some_safe(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as weights:
            there = set(weights.keys())
            return {ours: weights.get_tensor(theirs) for theirs, ours in TOKEN_HEAD.items() if theirs in there}
    except (SafetensorError, OSError) as error:
        raise InputError(f"cannot read the weights in {path}: {error}") from None
