"""The ONNX graph of a BERT body with a word head and a pooled vector, made node by node, with weights in int8.

It takes one text at a time, so there is no padding and no mask. The scale of activations is taken per tensor, and a
tensor is one text, so a text's vectors do not depend on a batch. The nodes are onnxruntime's fused ones where these are
faster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

from denslice.encoders.model_config import ModelConfig
from denslice.encoders.word_pieces import SOFTPLUS_ONE
from denslice.vectors import Floats

CONTRIB = "com.microsoft"
EMBEDDING_LEVELS = 127
WEIGHT_LEVELS = 95  # processors without VNNI add pairs of products in 16 bits, which 127 levels can overflow
SMOOTHING = 0.75  # the share of the difference between input channels that is moved to the weights
LEAST_RANGE = 1e-4
LEAST_SIZE = np.array([1e-6])
OPSET, IR = 20, 10
Parameters = Mapping[str, Floats]


def graph_of(
    weights: Parameters, head: Parameters, body: Mapping[str, Any], config: ModelConfig, ranges: Parameters | None
) -> ModelProto:
    """Return the model, whose input is `ids` (1, L) and whose outputs are `dense` (1, H) and `importance` (1, L, 2).

    `weights` and `body` are a Hugging Face BERT's parameters and configuration, `head` the word head's parameters.
    `ranges` has the largest input of each linear layer, by channel; without it nothing is quantised.
    """
    graph = _Graph(ranges, float(body["layer_norm_eps"]))
    hidden = _embedded(graph, weights, config.max_length)
    for number in range(body["num_hidden_layers"]):
        hidden = _layer(graph, weights, f"encoder.layer.{number}.", hidden, body["num_attention_heads"])
    _pooled(graph, hidden, config)
    _importance(graph, hidden, head)
    return graph.finished(body["hidden_size"])


class _Graph:
    """The nodes and constants that were added so far. A tensor has the name of the node that makes it."""

    def __init__(self, ranges: Parameters | None, epsilon: float) -> None:
        self._ranges, self._epsilon = ranges, epsilon
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, kind: str, inputs: list[str], out: str, domain: str = "", **attributes: Any) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [out], domain=domain, **attributes))
        return out

    def split(self, tensor: str, outputs: list[str]) -> list[str]:
        self._nodes.append(helper.make_node("Split", [tensor], outputs, axis=-1, num_outputs=len(outputs)))
        return outputs

    def linear(self, tensor: str, weight: Floats, bias: Floats, layer: str, out: str, by_piece: bool = False) -> str:
        """Add a linear layer; `weight` (outputs, inputs) is quantised by row, the input when the model runs.

        A few input channels are far larger than the rest, and one scale for all would leave the rest few levels. So
        each channel of the input is divided by a factor, and its weights are multiplied by it: the product stays the
        same, as in SmoothQuant. If whole pieces differ as much, `by_piece` scales each to the same size first.
        """
        stored_bias = self.constant(f"{out}.bias", bias)
        if self._ranges is None:
            product = self.node("MatMul", [tensor, self.constant(f"{out}.weight", weight.T)], f"{out}.product")
            return self.node("Add", [product, stored_bias], out)
        widest = np.abs(weight).max(axis=0).clip(min=LEAST_RANGE)  # (inputs,)
        smooth = self._ranges[layer].clip(min=LEAST_RANGE) ** SMOOTHING / widest ** (1 - SMOOTHING)
        even = self.node("Mul", [tensor, self.constant(f"{out}.even", _float32(1 / smooth))], f"{out}.input")
        levels, scale = rows_quantised(weight * smooth, WEIGHT_LEVELS)
        stored = [self.constant(f"{out}.weight", levels.T), self.constant(f"{out}.scale", scale)]
        if not by_piece:
            return self.node("DynamicQuantizeMatMul", [even, *stored, "", stored_bias], out, CONTRIB)
        size = self.node("Abs", [even], f"{out}.size")
        last, least = self.constant(f"{out}.last", np.array([-1])), self.constant(f"{out}.least", _float32(LEAST_SIZE))
        largest = self.node("ReduceMax", [size, last], f"{out}.top", keepdims=1)
        largest = self.node("Max", [largest, least], f"{out}.largest")
        alike = self.node("Div", [even, largest], f"{out}.alike")
        product = self.node("DynamicQuantizeMatMul", [alike, *stored], f"{out}.product", CONTRIB)
        return self.node("Add", [self.node("Mul", [product, largest], f"{out}.scaled"), stored_bias], out)

    def rows(self, table: Floats, ids: str, out: str) -> str:
        """Add a lookup of rows in a table, which is quantised by row."""
        if self._ranges is None:
            return self.node("Gather", [self.constant(f"{out}.table", table), ids], out)
        levels, scale = rows_quantised(table, EMBEDDING_LEVELS)
        found = self.node("Gather", [self.constant(f"{out}.table", levels), ids], f"{out}.levels")
        scales = self.node("Gather", [self.constant(f"{out}.scale", scale[:, None]), ids], f"{out}.scales")
        return self.node("Mul", [self.node("Cast", [found], f"{out}.cast", to=TensorProto.FLOAT), scales], out)

    def added_and_normalised(self, one: str, other: str, weight: Floats, bias: Floats, out: str) -> str:
        """Add a sum and its normalisation: two nodes, as onnxruntime's fused one takes a fifth of the whole time."""
        inputs = [self.node("Add", [one, other], f"{out}.sum")]
        inputs += [self.constant(f"{out}.gain", weight), self.constant(f"{out}.shift", bias)]
        return self.node("LayerNormalization", inputs, out, axis=-1, epsilon=self._epsilon)

    def finished(self, width: int) -> ModelProto:
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "length"])
        dense = helper.make_tensor_value_info("dense", TensorProto.FLOAT, [1, width])
        importance = helper.make_tensor_value_info("importance", TensorProto.FLOAT, [1, "length", 2])
        graph = helper.make_graph(self._nodes, "denslice", [ids], [dense, importance], self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="denslice")
        checker.check_model(model)
        return model


def _embedded(graph: _Graph, weights: Parameters, length: int) -> str:
    words = graph.rows(weights["embeddings.word_embeddings.weight"], "ids", "words")
    places = weights["embeddings.position_embeddings.weight"][:length]
    places = places + weights["embeddings.token_type_embeddings.weight"][0]  # (length, H)
    size = graph.node("Shape", ["ids"], "size", start=1, end=2)
    bounds = [graph.constant("zero", np.array([0])), size, graph.constant("one", np.array([1]))]
    here = graph.node("Slice", [graph.constant("places", places[None]), *bounds], "here")
    return graph.added_and_normalised(words, here, *_pair(weights, "embeddings.LayerNorm"), "embedded")


def _layer(graph: _Graph, weights: Parameters, name: str, hidden: str, heads: int) -> str:
    parts = [_pair(weights, f"{name}attention.self.{part}") for part in ("query", "key", "value")]
    joined = np.concatenate([weight for weight, _ in parts]), np.concatenate([bias for _, bias in parts])
    inputs = graph.split(
        graph.linear(hidden, *joined, f"{name}attention.self.query", f"{name}joined"),
        [f"{name}q", f"{name}k", f"{name}v"],
    )
    attended = graph.node("MultiHeadAttention", inputs, f"{name}attended", CONTRIB, num_heads=heads)
    out = graph.linear(attended, *_pair(weights, layer := f"{name}attention.output.dense"), layer, f"{name}out")
    norm = _pair(weights, f"{name}attention.output.LayerNorm")
    middle = graph.added_and_normalised(out, hidden, *norm, f"{name}middle")
    wide = graph.linear(middle, *_pair(weights, layer := f"{name}intermediate.dense"), layer, f"{name}wide")
    bent = graph.node("Gelu", [wide], f"{name}bent", CONTRIB)
    narrow = graph.linear(bent, *_pair(weights, layer := f"{name}output.dense"), layer, f"{name}narrow", by_piece=True)
    return graph.added_and_normalised(narrow, middle, *_pair(weights, f"{name}output.LayerNorm"), f"{name}hidden")


def _pooled(graph: _Graph, hidden: str, config: ModelConfig) -> None:
    axis = graph.constant("axis", np.array([1]))
    if config.dense == "mean":
        pooled = graph.node("ReduceMean", [hidden, axis], "pooled", keepdims=0)
    else:
        first = graph.node("Slice", [hidden, "zero", "one", axis], "first")
        pooled = graph.node("Squeeze", [first, axis], "pooled")
    if config.normalise:
        graph.node("LpNormalization", [pooled], "dense", axis=-1, p=2)
    else:
        graph.node("Identity", [pooled], "dense")


def _importance(graph: _Graph, hidden: str, head: Parameters) -> None:
    """Add softplus of the head, shifted so that an untrained head gives 1; it is small and stays in float32."""
    last = max(int(name.split(".")[0]) for name in head) if "weight" not in head else None
    if last is not None:
        product = graph.node("MatMul", [hidden, graph.constant("head.first", head["0.weight"].T)], "head.product")
        sums = graph.node("Add", [product, graph.constant("head.first_bias", head["0.bias"])], "head.sums")
        hidden = graph.node("Gelu", [sums], "head.bent", CONTRIB)
    weight, bias = _pair(head, str(last)) if last is not None else (head["weight"], head["bias"])
    product = graph.node("MatMul", [hidden, graph.constant("head.last", weight.T)], "head.last_product")
    shift = graph.constant("head.last_bias", _float32(bias + SOFTPLUS_ONE))
    graph.node("Softplus", [graph.node("Add", [product, shift], "head.last_sums")], "importance")


def rows_quantised(table: Floats, levels: int) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return the table (rows, columns) as integers from -levels to levels, and the scale of each row."""
    scale = np.abs(table).max(axis=1) / levels
    scale[scale == 0] = 1.0
    return np.rint(table / scale[:, None]).astype(np.int8), _float32(scale)


def _float32(values: npt.NDArray[Any]) -> Floats:
    return values.astype(np.float32)


def _pair(weights: Parameters, name: str) -> tuple[Floats, Floats]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]
