"""Reads mini's first edition, or any exported model of one body, back from its int8 graph.

What was shipped is what the next edition starts from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from denslice.encoders.model_config import ModelConfig
from denslice.encoders.onnx_model import ONNX_FILE, TOKENIZER_FILE, model_config
from denslice.encoders.word_pieces import SOFTPLUS_ONE
from mini_bodies import TextBody

Arrays = Mapping[str, np.ndarray[Any, Any]]
PARTS = {"out": "attention.output.dense", "wide": "intermediate.dense", "narrow": "output.dense"}
NORMS = {"middle": "attention.output.LayerNorm", "hidden": "output.LayerNorm"}


def read_first_edition(folder: Path) -> tuple[TextBody, nn.Module, ModelConfig]:
    """Return the body, the word head and the settings of a folder of the first edition."""
    config = model_config(folder)
    graph = onnx.load(folder / ONNX_FILE).graph
    found = {one.name.removesuffix(".half"): numpy_helper.to_array(one) for one in graph.initializer}
    heads = next(one.i for node in graph.node for one in node.attribute if one.name == "num_heads")
    words = found["words.table"].astype(np.float32) * found["words.scale"]
    layers = 1 + max(int(name.split(".")[2]) for name in found if name.startswith("encoder.layer."))
    shape = BertConfig(
        vocab_size=len(words),
        hidden_size=words.shape[1],
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=len(found["encoder.layer.0.wide.bias"]),
        max_position_embeddings=found["places"].shape[1],
    )
    body = BertModel(shape, add_pooling_layer=False)  # type: ignore[no-untyped-call]
    body.load_state_dict(body_weights(found, words, layers), strict=False)
    width, wide = found["head.first"].shape
    head = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, 2))
    first, last = (torch.from_numpy(found[name].T.copy()) for name in ("head.first", "head.last"))
    biases = found["head.first_bias"], found["head.last_bias"] - SOFTPLUS_ONE
    head.load_state_dict(
        {"0.weight": first, "0.bias": tensor(biases[0]), "2.weight": last, "2.bias": tensor(biases[1])}
    )
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    return TextBody(body, tokenizer, config.max_length), head, config


def body_weights(found: Arrays, words: np.ndarray[Any, Any], layers: int) -> dict[str, Tensor]:
    """Return the parameters of the body by their names in transformers; places include the type of text."""
    named = {
        "embeddings.word_embeddings.weight": words,
        "embeddings.position_embeddings.weight": found["places"][0],
        "embeddings.token_type_embeddings.weight": np.zeros((2, words.shape[1])),
        "embeddings.LayerNorm.weight": found["embedded.gain"],
        "embeddings.LayerNorm.bias": found["embedded.shift"],
    }
    for number in range(layers):
        layer = f"encoder.layer.{number}."
        weight, bias = linear(found, f"{layer}joined")
        for part, own, shift in zip(("query", "key", "value"), np.split(weight, 3), np.split(bias, 3), strict=True):
            named |= {f"{layer}attention.self.{part}.weight": own, f"{layer}attention.self.{part}.bias": shift}
        for short, long in PARTS.items():
            weight, bias = linear(found, layer + short)
            named |= {f"{layer}{long}.weight": weight, f"{layer}{long}.bias": bias}
        for short, long in NORMS.items():
            gain, shift = found[f"{layer}{short}.gain"], found[f"{layer}{short}.shift"]
            named |= {f"{layer}{long}.weight": gain, f"{layer}{long}.bias": shift}
    return {name: tensor(value) for name, value in named.items()}


def linear(found: Arrays, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the weight (outputs, inputs) and bias of a layer, whose inputs were divided to be even."""
    weight = found[f"{name}.weight"].astype(np.float32) * found[f"{name}.scale"]
    return (weight * found.get(f"{name}.even", np.ones(len(weight)))[:, None]).T, found[f"{name}.bias"]


def tensor(values: np.ndarray[Any, Any]) -> Tensor:
    """Return float32 values as a tensor."""
    return torch.from_numpy(np.array(values, dtype=np.float32))
