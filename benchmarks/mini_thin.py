"""Makes a body thin: inner neurons go one by one, and those that stay make up for each (optimal brain surgeon).

The neuron that goes next is the one whose loss changes the layer's output least, over the given texts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from mini_bodies import TextBody, batches

DAMPING = 1e-4  # added to the diagonal, as a share of its mean
BATCH_PIECES = 8192


@torch.no_grad()
def make_thin(body: TextBody, texts: Sequence[str], neurons: int) -> None:
    """Leave so many neurons in each layer; all stay in a last layer of which only the first piece is read."""
    rows = sorted(body.pieces(texts), key=len)
    ids = [body.padded([rows[at] for at in some]) for some in batches([len(row) for row in rows], BATCH_PIECES)]
    hidden = [body.embedded(one) for one in ids]
    masks = [one != body.pad for one in ids]
    for number, layer in enumerate(body.layers):
        first_only = body.pooling == "cls" and number == len(body.layers) - 1
        output = layer.attention.output
        middle = [
            output.LayerNorm(output.dense(body.attended(layer, one, one, mask)) + one)
            for one, mask in zip(hidden, masks, strict=True)
        ]
        if not first_only:
            weights = [weight_of(body, mask) for mask in masks]
            inner = (
                (functional.gelu(layer.intermediate.dense(one[mask])), weight)
                for one, mask, weight in zip(middle, masks, weights, strict=True)
            )
            products = sum(((one * weight).T @ one).double() for one, weight in inner)
            assert isinstance(products, Tensor)
            kept, narrow = surgeon(layer.output.dense.weight.double(), products, neurons)
            layer.intermediate.dense.weight = nn.Parameter(layer.intermediate.dense.weight[kept].clone())
            layer.intermediate.dense.bias = nn.Parameter(layer.intermediate.dense.bias[kept].clone())
            layer.output.dense.weight = nn.Parameter(narrow.float())
        hidden = [
            layer.output.LayerNorm(layer.output.dense(functional.gelu(layer.intermediate.dense(one))) + one)
            for one in middle
        ]


def weight_of(body: TextBody, mask: Tensor) -> Tensor:
    """Return the weight of each piece: the first one, if the vector is made of it, weighs more in a longer text."""
    weight = torch.ones(mask.shape)
    if body.pooling == "cls":
        weight[:, 0] = mask.sum(1).float().sqrt()
    return weight[mask][:, None]


def surgeon(weight: Tensor, products: Tensor, neurons: int) -> tuple[Tensor, Tensor]:
    """Return which inputs of a linear layer stay, and its weight (outputs, neurons) without the others.

    `products` are the inputs' inner products over many rows.
    """
    kept = torch.arange(weight.shape[1])
    inverse = torch.linalg.inv(products + DAMPING * products.diagonal().mean() * torch.eye(len(products)))
    while len(kept) > neurons:
        at = int(((weight**2).sum(0) / inverse.diagonal()).argmin())
        weight = weight - torch.outer(weight[:, at] / inverse[at, at], inverse[at])
        inverse = inverse - torch.outer(inverse[:, at], inverse[at]) / inverse[at, at]
        stay = torch.arange(len(kept)) != at
        kept, weight, inverse = kept[stay], weight[:, stay], inverse[stay][:, stay]
    return kept, weight
