"""Nodes: an ONNX graph that grows node by node, with weights in int8 and the fused nodes of onnxruntime."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

from denslice.vectors import Floats

CONTRIB = "com.microsoft"
EMBEDDING_LEVELS = 127
WEIGHT_LEVELS = 95  # processors without VNNI add pairs of products in 16 bits, which 127 levels can overflow
SMOOTHING = 0.75  # the share of the difference between input channels that is moved to the weights
LEAST_RANGE = 1e-4
LEAST_SIZE = np.array([1e-6])
UNEVEN = 10  # times the usual piece's largest input: a larger one would leave the others few levels
OPSET, IR = 20, 10


class LayerInputs(NamedTuple):
    """What a linear layer was given, over many texts."""

    largest: Floats  # absolute, by channel
    unevenness: float  # the largest of any piece over that of the usual one


class Nodes:
    """The nodes and constants that were added so far. A tensor has the name of the node that makes it."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []

    def constant(self, name: str, value: npt.NDArray[Any]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def table(self, name: str, value: Floats, quantised: bool) -> str:
        """Add a constant in half precision if the model is quantised; onnxruntime widens it once, when it loads."""
        if not quantised:
            return self.constant(name, value)
        return self.node("Cast", [self.constant(f"{name}.half", value.astype(np.float16))], name, to=TensorProto.FLOAT)

    def node(self, kind: str, inputs: list[str], out: str, domain: str = "", **attributes: Any) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [out], domain=domain, **attributes))
        return out

    def split(self, tensor: str, outputs: list[str]) -> list[str]:
        self._nodes.append(helper.make_node("Split", [tensor], outputs, axis=-1, num_outputs=len(outputs)))
        return outputs

    def linear(
        self, tensor: str, weight: Floats, bias: Floats, inputs: LayerInputs | None, out: str, is_even: bool = False
    ) -> str:
        """Add a linear layer; `weight` (outputs, inputs) is quantised by row, the input when the model runs.

        Without `inputs` nothing is quantised. A few input channels are far larger than the rest, and one scale for all
        would leave the rest few levels. So each channel of the input is divided by a factor (`evening`; already done
        if it is even), and its weights are multiplied by it: the product stays the same, as in SmoothQuant. Where whole
        pieces differ as much, each is scaled to the same size first.
        """
        stored_bias = self.constant(f"{out}.bias", bias)
        if inputs is None:
            product = self.node("MatMul", [tensor, self.constant(f"{out}.weight", weight.T)], f"{out}.product")
            return self.node("Add", [product, stored_bias], out)
        factors = evening(weight, inputs)
        if not is_even:
            tensor = self.node("Mul", [tensor, self.constant(f"{out}.even", float32(1 / factors))], f"{out}.input")
        levels, scale = rows_quantised(weight * factors, WEIGHT_LEVELS)
        stored = [self.constant(f"{out}.weight", levels.T), self.constant(f"{out}.scale", scale)]
        if inputs.unevenness <= UNEVEN:
            return self.node("DynamicQuantizeMatMul", [tensor, *stored, "", stored_bias], out, CONTRIB)
        size = self.node("Abs", [tensor], f"{out}.size")
        last, least = self.constant(f"{out}.last", np.array([-1])), self.constant(f"{out}.least", float32(LEAST_SIZE))
        top = self.node("ReduceMax", [size, last], f"{out}.top", keepdims=1)
        top = self.node("Max", [top, least], f"{out}.largest")
        alike = self.node("Div", [tensor, top], f"{out}.alike")
        product = self.node("DynamicQuantizeMatMul", [alike, *stored], f"{out}.product", CONTRIB)
        return self.node("Add", [self.node("Mul", [product, top], f"{out}.scaled"), stored_bias], out)

    def rows(self, table: Floats, ids: str, out: str, quantised: bool) -> str:
        """Add a lookup of rows in a table."""
        if not quantised:
            return self.node("Gather", [self.constant(f"{out}.table", table), ids], out)
        levels, scale = rows_quantised(table, EMBEDDING_LEVELS)
        found = self.node("Gather", [self.constant(f"{out}.table", levels), ids], f"{out}.levels")
        scales = self.node("Gather", [self.constant(f"{out}.scale", scale[:, None]), ids], f"{out}.scales")
        return self.node("Mul", [self.node("Cast", [found], f"{out}.cast", to=TensorProto.FLOAT), scales], out)

    def added_and_normalised(self, one: str, other: str, weight: Floats, bias: Floats, epsilon: float, out: str) -> str:
        """Add a sum and its normalisation: two nodes, as onnxruntime's fused one takes a fifth of the whole time."""
        inputs = [self.node("Add", [one, other], f"{out}.sum")]
        inputs += [self.constant(f"{out}.gain", weight), self.constant(f"{out}.shift", bias)]
        return self.node("LayerNormalization", inputs, out, axis=-1, epsilon=epsilon)

    def unit(self, tensor: str, out: str) -> str:
        """Add the division of vectors by their length."""
        return self.node("LpNormalization", [tensor], out, axis=-1, p=2)

    def model(self, inputs: list[str], width: int) -> ModelProto:
        """Return the model: its inputs are pieces of one text, its outputs `dense` and `importance`."""
        ids = [helper.make_tensor_value_info(name, TensorProto.INT64, [1, f"{name}_length"]) for name in inputs]
        dense = helper.make_tensor_value_info("dense", TensorProto.FLOAT, [1, width])
        importance = helper.make_tensor_value_info("importance", TensorProto.FLOAT, [1, f"{inputs[0]}_length", 2])
        graph = helper.make_graph(self._nodes, "denslice", ids, [dense, importance], self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="denslice")
        checker.check_model(model)
        return model


def evening(weight: Floats, inputs: LayerInputs) -> Floats:
    """Return the factor by which each input channel of a linear layer is divided."""
    widest = np.abs(weight).max(axis=0).clip(min=LEAST_RANGE)
    return float32(inputs.largest.clip(min=LEAST_RANGE) ** SMOOTHING / widest ** (1 - SMOOTHING))


def rows_quantised(table: Floats, levels: int) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return the table (rows, columns) as integers from -levels to levels, and the scale of each row."""
    scale = np.abs(table).max(axis=1) / levels
    scale[scale == 0] = 1.0
    return np.rint(table / scale[:, None]).astype(np.int8), float32(scale)


def float32(values: npt.NDArray[Any]) -> Floats:
    return values.astype(np.float32)
