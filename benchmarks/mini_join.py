"""Joins two bodies to the model that is shipped: centres, axes, and the folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor
from torch.nn import functional

from denslice.encoders.model_config import CONFIG_FILE, ModelConfig
from denslice.encoders.onnx.graph import Join, graph_of
from denslice.encoders.onnx_model import ONNX_FILE, SECOND_TOKENIZER_FILE, TOKENIZER_FILE
from mini_bodies import TwoBodies, batches
from mini_texts import Pieces

DIMENSIONS = 384
BATCH_PIECES = 131_072  # with padding


class Centred:
    """Vectors of two bodies less their centres, with length 1, weighed by the roots of their shares, and joined."""

    def __init__(self, centres: Sequence[Tensor], shares: tuple[float, float]) -> None:
        self.centres = list(centres)
        self.weights = [(share / sum(shares)) ** 0.5 for share in shares]

    def part(self, vectors: Tensor, at: int) -> Tensor:
        """Return the vectors of one body, before they are weighed."""
        return functional.normalize(vectors - self.centres[at], dim=1)

    def __call__(self, vectors: Sequence[Tensor]) -> Tensor:
        """Return the joined vectors."""
        return torch.cat(
            [weight * self.part(one, at) for at, (one, weight) in enumerate(zip(vectors, self.weights, strict=True))], 1
        )


def fitted(vectors: Sequence[Tensor], shares: tuple[float, float], dimensions: int = DIMENSIONS) -> Join:
    """Return the centres of two bodies' vectors, and the axes that keep most of the joined ones' lengths."""
    centred = Centred([one.mean(0) for one in vectors], shares)
    wide = centred(vectors).double()
    axes = torch.linalg.eigh(wide.T @ wide)[1][:, -dimensions:].flip(1).float()  # around 0: inner products are kept
    weights = torch.tensor(centred.weights, device=axes.device).repeat_interleave(vectors[0].shape[1])
    centres = [one.cpu().numpy() for one in centred.centres]
    return Join((centres[0], centres[1]), (axes * weights[:, None]).T.contiguous().cpu().numpy())


def write(two: TwoBodies, join: Join, config: ModelConfig, out: Path, texts: Sequence[str] | None) -> None:
    """Write a model folder: in int8 if there are texts to measure activations on."""
    bodies = [body.exported(texts) for body in two.both]
    head = {name: value.detach().cpu().numpy() for name, value in two.head.state_dict().items()}
    out.mkdir(parents=True, exist_ok=True)
    onnx.save(graph_of(bodies[0], head, bodies[1], join), out / ONNX_FILE)
    for body, name in zip(two.both, (TOKENIZER_FILE, SECOND_TOKENIZER_FILE), strict=True):
        body.tokenizer.no_truncation()
        body.tokenizer.save(str(out / name), pretty=False)
        body.tokenizer.enable_truncation(body.longest)
    (out / CONFIG_FILE).write_text(json.dumps(config.to_json(), indent=2) + "\n")


@torch.no_grad()
def vectors_of(two: TwoBodies, pieces: Pieces) -> list[Tensor]:
    """Return the vectors of both bodies (texts, H)."""
    order = list(batches(pieces.lengths, BATCH_PIECES))
    parts = [two.vectors(pieces.rows(which)) for which in order]
    back = torch.from_numpy(np.argsort(np.concatenate(order)))
    return [torch.cat(one)[back.to(one[0].device)] for one in zip(*parts, strict=True)]
