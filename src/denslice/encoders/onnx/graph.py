"""The ONNX graph of one or two bodies (BERT or RoBERTa), with a head for words and one dense vector.

It takes one text at a time, so there is no padding and no mask. The scale of activations is taken per tensor, and a
tensor is one text, so a text's vectors do not depend on a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from onnx import ModelProto

from denslice.encoders.onnx.nodes import CONTRIB, LayerInputs, Nodes, evening, float32
from denslice.encoders.word_pieces import SOFTPLUS_ONE
from denslice.vectors import Floats

IDS, SECOND_IDS = "ids", "second_ids"  # the inputs
Parameters = Mapping[str, Floats]


class Body(NamedTuple):
    """A BERT or RoBERTa: its parameters by their names in transformers, and how it is read."""

    weights: Parameters
    head_size: int  # of each attention head; a layer has as many as its parameters hold
    epsilon: float  # of its normalisations
    pooling: str  # cls or mean
    normalise: bool  # whether its vector gets length 1
    longest: int  # how many pieces it can be given
    first_place: int = 0  # RoBERTa counts places from 2
    inputs: Mapping[str, LayerInputs] | None = None  # of each linear layer; without them nothing is int8

    def pair(self, name: str) -> tuple[Floats, Floats]:
        """Return the weight and bias of a layer."""
        return _pair(self.weights, name)

    def given(self, layer: str) -> LayerInputs | None:
        """Return the inputs of a linear layer."""
        return None if self.inputs is None else self.inputs[layer]

    @property
    def layers(self) -> int:
        """Return the number of layers."""
        return 1 + max(int(name.split(".")[2]) for name in self.weights if name.startswith("encoder.layer."))


class Join(NamedTuple):
    """How the vectors of two bodies become one: less their centres, with length 1, joined, projected, with length 1."""

    centres: tuple[Floats, Floats]  # (H,) of each body's vectors
    axes: Floats  # (outputs, 2 H)


def graph_of(body: Body, head: Parameters, second: Body | None = None, join: Join | None = None) -> ModelProto:
    """Return the model, whose input is `ids` (1, L) and whose outputs are `dense` (1, H) and `importance` (1, L, 2).

    `head` has the parameters of the word head, which reads the body's last states. With a second body and a join there
    is a second input, `second_ids`: the text in the pieces of the second body.
    """
    nodes = Nodes()
    hidden = _states(nodes, body, IDS, "")
    _importance(nodes, hidden, head)
    if second is None or join is None:
        _pooled(nodes, body, hidden, "", "dense")
        return nodes.model([IDS], hidden_size(body))
    vectors = [_pooled(nodes, body, hidden, "", "first_vector")]
    last = _states(nodes, second, SECOND_IDS, "second.", only_first=second.pooling == "cls")
    vectors.append(_pooled(nodes, second, last, "second.", "second_vector"))
    _joined(nodes, vectors, join, quantised=body.inputs is not None)
    return nodes.model([IDS, SECOND_IDS], len(join.axes))


def hidden_size(body: Body) -> int:
    """Return the width of a body's states."""
    return int(body.weights["embeddings.word_embeddings.weight"].shape[1])


def _states(nodes: Nodes, body: Body, ids: str, prefix: str, only_first: bool = False) -> str:
    """Add all layers; `only_first` leaves out what the first piece's last state does not need."""
    hidden = _embedded(nodes, body, ids, prefix)
    for number in range(body.layers):
        seen = hidden
        if only_first and number == body.layers - 1:
            hidden = _first(nodes, hidden, prefix, f"{prefix}only")
        hidden = _layer(nodes, body, prefix, f"encoder.layer.{number}.", hidden, seen)
    return hidden


def _embedded(nodes: Nodes, body: Body, ids: str, prefix: str) -> str:
    table = body.weights["embeddings.word_embeddings.weight"]
    words = nodes.rows(table, ids, f"{prefix}words", quantised=body.inputs is not None)
    places = body.weights["embeddings.position_embeddings.weight"][body.first_place :][: body.longest]
    places = places + body.weights["embeddings.token_type_embeddings.weight"][0]  # (length, H)
    size = nodes.node("Shape", [ids], f"{prefix}size", start=1, end=2)
    bounds = [nodes.constant(f"{prefix}zero", np.array([0])), size, nodes.constant(f"{prefix}one", np.array([1]))]
    stored = nodes.table(f"{prefix}places", places[None], quantised=body.inputs is not None)
    here = nodes.node("Slice", [stored, *bounds], f"{prefix}here")
    norm = body.pair("embeddings.LayerNorm")
    return nodes.added_and_normalised(words, here, *norm, body.epsilon, f"{prefix}embedded")


def _layer(nodes: Nodes, body: Body, prefix: str, name: str, hidden: str, seen: str) -> str:
    """Add the layer of pieces that attend to what is seen, which may be more than themselves."""
    parts = [body.pair(f"{name}attention.self.{part}") for part in ("query", "key", "value")]
    given, out, after = body.given(f"{name}attention.self.query"), f"{prefix}{name}", f"{name}attention.output.dense"
    if (mixed := body.given(after)) is not None:  # values are mixed by sums: they can be made even beforehand
        factors = evening(body.pair(after)[0], mixed)
        parts[2] = (parts[2][0] / factors[:, None], parts[2][1] / factors)
    if hidden == seen:
        joined = nodes.linear(hidden, *_stacked(parts), given, f"{out}joined")
        inputs = nodes.split(joined, [f"{out}q", f"{out}k", f"{out}v"])
    else:
        keys = nodes.linear(seen, *_stacked(parts[1:]), given, f"{out}joined")
        inputs = nodes.split(keys, [f"{out}k", f"{out}v"])
        inputs = [nodes.linear(hidden, *parts[0], given, f"{out}q"), *inputs]
    heads = len(parts[0][0]) // body.head_size
    attended = nodes.node("MultiHeadAttention", inputs, f"{out}attended", CONTRIB, num_heads=heads)
    attended = nodes.linear(attended, *body.pair(after), mixed, f"{out}out", is_even=True)
    norm = body.pair(f"{name}attention.output.LayerNorm")
    middle = nodes.added_and_normalised(attended, hidden, *norm, body.epsilon, f"{out}middle")
    wide = _linear(nodes, body, middle, f"{name}intermediate.dense", f"{out}wide")
    bent = nodes.node("Gelu", [wide], f"{out}bent", CONTRIB)
    narrow = _linear(nodes, body, bent, f"{name}output.dense", f"{out}narrow")
    norm = body.pair(f"{name}output.LayerNorm")
    return nodes.added_and_normalised(narrow, middle, *norm, body.epsilon, f"{out}hidden")


def _linear(nodes: Nodes, body: Body, tensor: str, layer: str, out: str) -> str:
    return nodes.linear(tensor, *body.pair(layer), body.given(layer), out)


def _stacked(parts: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    return np.concatenate([weight for weight, _ in parts]), np.concatenate([bias for _, bias in parts])


def _first(nodes: Nodes, hidden: str, prefix: str, out: str) -> str:
    """Add the state of the first piece, [CLS]: (1, 1, H)."""
    axis = nodes.constant(f"{out}.axis", np.array([1]))
    return nodes.node("Slice", [hidden, f"{prefix}zero", f"{prefix}one", axis], out)


def _pooled(nodes: Nodes, body: Body, hidden: str, prefix: str, out: str) -> str:
    axis = nodes.constant(f"{out}.axis", np.array([1]))
    if body.pooling == "mean":
        pooled = nodes.node("ReduceMean", [hidden, axis], f"{out}.pooled", keepdims=0)
    else:
        first = _first(nodes, hidden, prefix, f"{out}.first")
        pooled = nodes.node("Squeeze", [first, axis], f"{out}.pooled")
    return nodes.unit(pooled, out) if body.normalise else nodes.node("Identity", [pooled], out)


def _joined(nodes: Nodes, vectors: list[str], join: Join, quantised: bool) -> None:
    parts = []
    for vector, centre in zip(vectors, join.centres, strict=True):
        apart = nodes.node("Sub", [vector, nodes.constant(f"{vector}.centre", centre)], f"{vector}.apart")
        parts.append(nodes.unit(apart, f"{vector}.unit"))
    both = nodes.node("Concat", parts, "both", axis=-1)
    axes = nodes.table("axes", join.axes.T, quantised)
    nodes.unit(nodes.node("MatMul", [both, axes], "projected"), "dense")


def _importance(nodes: Nodes, hidden: str, head: Parameters) -> None:
    """Add softplus of the head, shifted so that an untrained head gives 1; it is small and stays in float32."""
    last = max(int(name.split(".")[0]) for name in head) if "weight" not in head else None
    if last is not None:
        product = nodes.node("MatMul", [hidden, nodes.constant("head.first", head["0.weight"].T)], "head.product")
        sums = nodes.node("Add", [product, nodes.constant("head.first_bias", head["0.bias"])], "head.sums")
        hidden = nodes.node("Gelu", [sums], "head.bent", CONTRIB)
    weight, bias = _pair(head, str(last)) if last is not None else (head["weight"], head["bias"])
    product = nodes.node("MatMul", [hidden, nodes.constant("head.last", weight.T)], "head.last_product")
    shift = nodes.constant("head.last_bias", float32(bias + SOFTPLUS_ONE))
    nodes.node("Softplus", [nodes.node("Add", [product, shift], "head.last_sums")], "importance")


def _pair(weights: Parameters, name: str) -> tuple[Floats, Floats]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]
