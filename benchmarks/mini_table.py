"""Teaches a table of words: a text's quick vector comes from the sum of its words' rows, weighed as BM25 weighs them.

What is taught is the vector that the whole model gives the text. Words that are not in the table share a few rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from denslice.encoders.bm25 import Bm25, Bm25Config
from denslice.encoders.onnx.nodes import EMBEDDING_LEVELS, rows_quantised
from denslice.encoders.word_table import TABLE_FILE, row_of
from denslice.store.vocabulary import Growth, Vocabulary

REPORT = 1_000  # steps
# λ for queries that a table reads, and what the words and vectors of other queries are multiplied by for its documents
USE = {"lam": 20.0, "word_scale": 2.2, "vector_scale": 0.9}
Ints32 = np.ndarray[Any, np.dtype[np.int32]]
Ints64 = np.ndarray[Any, np.dtype[np.int64]]
Floats32 = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class TableLesson:
    """How to teach a table."""

    words: int = 31_000
    shared: int = 1_000  # rows of all other words
    width: int = 128
    inner: int = 512  # neurons between the sum and the vector
    steps: int = 10_000
    batch: int = 4_096
    lr: float = 3e-3
    rows: float = 0.5  # weight of the loss on similarities
    temperature: float = 0.05
    bank: int = 4_096
    seed: int = 1


class Bags(NamedTuple):
    """The words of texts, one text after the other."""

    words: list[str]  # by number
    numbers: Ints32  # of each text's words
    weights: Floats32
    starts: Ints64  # of each text, and the end


def bags_of(texts: Sequence[str], config: Bm25Config) -> Bags:
    """Return the words of texts, with the weights of BM25."""
    encoder = Bm25(config, Growth(Vocabulary()))
    found = encoder.encode_docs(texts).weights
    words = [encoder.token(id) for id in range(int(found.indices.max(initial=-1)) + 1)]
    return Bags(words, found.indices.astype(np.int32), found.data.astype(np.float32), found.indptr.astype(np.int64))


def joined_bags(parts: Iterable[Bags]) -> Bags:
    """Return the words of all texts, under common numbers."""
    common: dict[str, int] = {}
    numbers, weights, sizes = [], [], []
    for part in parts:
        own = np.array([common.setdefault(word, len(common)) for word in part.words], dtype=np.int32)
        numbers.append(own[part.numbers])
        weights.append(part.weights)
        sizes.append(np.diff(part.starts))
    starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return Bags(list(common), np.concatenate(numbers), np.concatenate(weights), starts)


def frequent_words(bags: Bags, count: int) -> list[str]:
    """Return the words that are in most texts; names of languages are no words."""
    counts = Counter(dict(enumerate(np.bincount(bags.numbers, minlength=len(bags.words)).tolist())))
    ordered = (bags.words[number] for number, _ in counts.most_common())
    return [word for word in ordered if not word.startswith("~")][:count]


class TaughtTable(nn.Module):
    """Rows of words, and the map from a sum of rows to a vector."""

    def __init__(self, rows: int, width: int, inner: int, dimensions: int) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.straight = nn.Linear(width, dimensions, bias=False)
        self.bent = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, dimensions))

    def forward(self, rows: Tensor, weights: Tensor, starts: Tensor) -> Tensor:
        """Return the vectors of texts, with length 1."""
        sums = functional.embedding_bag(rows, self.table.weight, starts, mode="sum", per_sample_weights=weights)
        unit = functional.normalize(sums, dim=1) * sums.shape[1] ** 0.5
        return functional.normalize(self.straight(unit) + self.bent(unit), dim=1)


class TableTexts:
    """The words of texts on the device, by their rows in a table."""

    def __init__(self, bags: Bags, words: Sequence[str], shared: int, device: torch.device) -> None:
        places = {word: at for at, word in enumerate(words)}
        rows = np.array([row_of(word, places, shared) for word in bags.words], dtype=np.int32)
        self._rows = torch.from_numpy(rows[bags.numbers]).to(device)
        self._weights = torch.from_numpy(bags.weights).to(device)
        self._starts = torch.from_numpy(bags.starts).to(device)

    def some(self, which: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows and weights of some texts, and where each begins."""
        sizes = self._starts[which + 1] - self._starts[which]
        begins = sizes.cumsum(0) - sizes
        place = torch.arange(int(sizes.sum()), device=which.device)
        at = place + (self._starts[which] - begins).repeat_interleave(sizes)
        return self._rows[at].long(), self._weights[at], begins


def teach_table(
    table: TaughtTable, texts: TableTexts, goals: Tensor, lesson: TableLesson, told: Callable[[str], None]
) -> None:
    """Teach the vectors (texts, dimensions), which have length 1."""
    device = goals.device
    dice = torch.Generator(device)
    dice.manual_seed(lesson.seed)
    optimizer = torch.optim.Adam(table.parameters(), lr=lesson.lr)
    for step in range(lesson.steps):
        rate = min(1.0, (step + 1) / 100) * (1 + math.cos(math.pi * step / lesson.steps)) / 2
        for group in optimizer.param_groups:
            group["lr"] = lesson.lr * rate
        which = torch.randint(len(goals), (min(lesson.batch, len(goals)),), device=device, generator=dice)
        others = torch.randint(len(goals), (lesson.bank,), device=device, generator=dice)
        ours, wanted = table(*texts.some(which)), goals[which].float()
        point = (1 - (ours * wanted).sum(1)).mean()
        rows = row_loss(ours[:1024], wanted[:1024], goals[others].float(), lesson.temperature)
        loss = point + lesson.rows * rows
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % REPORT == 0 or step == lesson.steps - 1:
            told(f"table, step {step}: vector {point.item():.4f}, rows {rows.item():.4f}")


def row_loss(ours: Tensor, goals: Tensor, bank: Tensor, temperature: float) -> Tensor:
    """Return how the similarities of texts to each other and to others differ from those they should have."""
    found = torch.cat([ours @ ours.T, ours @ bank.T], 1) / temperature
    wanted = torch.cat([goals @ goals.T, goals @ bank.T], 1) / temperature
    same = wanted > 0.999 / temperature  # itself, in the batch or in the bank
    found, wanted = found.masked_fill(same, -1e4), wanted.masked_fill(same, -1e4)
    return functional.kl_div(found.log_softmax(1), wanted.log_softmax(1), log_target=True, reduction="batchmean")


def write_table(table: TaughtTable, words: Sequence[str], folder: Path) -> None:
    """Write a taught table to the folder of its model: rows in int8, the network in half precision, and its use."""
    state = {name: value.detach().float().cpu().numpy() for name, value in table.state_dict().items()}
    levels, scale = rows_quantised(state["table.weight"], EMBEDDING_LEVELS)
    network = {
        "straight": state["straight.weight"].T,
        "inner": state["bent.0.weight"].T,
        "inner_bias": state["bent.0.bias"],
        "outer": state["bent.2.weight"].T,
        "outer_bias": state["bent.2.bias"],
    }
    halves = {name: value.astype(np.float16) for name, value in {"scale": scale, **network}.items()}
    numbers = {name: np.array(value, np.float32) for name, value in USE.items()}
    names = np.frombuffer("\n".join(words).encode(), np.uint8)
    np.savez(folder / TABLE_FILE, words=names, rows=levels, **{**numbers, **halves})
