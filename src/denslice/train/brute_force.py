"""Search by brute force on the model's device: every query against every document, in each of several ways.

Documents are encoded a batch at a time and scored at once, so only the best rows of each query are ever kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.encoders.torch.densify_torch import densify_torch
from denslice.slicing import Slicing
from denslice.train.data import TrainCollection
from denslice.train.loss import TrainVectors
from denslice.train.measures import DEPTH, Rows, first_ranks, measures, packed
from denslice.train.tokens import TokenIds, Tokens, padded_texts

QUERIES_AT_ONCE = 8192
NOT_FOUND = -1


@dataclass(frozen=True)
class Scoring:
    """One way to score. `slices` None takes every weight; `full` leaves the query unsliced (only documents are)."""

    lexical: bool
    dense: bool
    slices: int | None = None
    full: bool = False

    @property
    def name(self) -> str:
        """Such as `joint`, `lexical-768` or `lexical-768-full`."""
        part = "joint" if self.lexical and self.dense else "lexical" if self.lexical else "dense"
        return part + (f"-{self.slices}" if self.slices else "") + ("-full" if self.full else "")


@dataclass(frozen=True)
class Best:
    """The best rows of each query so far, and their scores, (Q, k)."""

    rows: Tensor
    scores: Tensor


class EncodedTexts:
    """What the model makes of some texts, with each slicing of it that is asked for."""

    def __init__(self, vectors: TrainVectors, skip: int) -> None:
        self.dense = vectors.dense
        self._lexical = vectors.lexical
        self._skip = skip
        self._sliced: dict[int, Tensor] = {}

    def lexical(self, slices: int | None) -> Tensor:
        """The weights (n, V), or those that slicing by stride keeps, at their places."""
        if self._lexical is None:
            raise ValueError("the model has no lexical part")
        if slices is None:
            return self._lexical
        if slices not in self._sliced:
            self._sliced[slices] = _kept(self._lexical, slices, self._skip)
        return self._sliced[slices]

    @cached_property
    def tokens(self) -> float:
        """How many tokens have a weight, on average."""
        return 0.0 if self._lexical is None else float((self._lexical > 0).sum(1).float().mean())


def views(model: BiEncoder, slices: Sequence[int] = ()) -> list[Scoring]:
    """The parts a model has and their sum; then, for each number of slices, with the query sliced and full.

    Words have no slices here: their vocabulary is the collection's.
    """
    slices = () if model.config.lexical == "words" else slices
    lexical, dense = model.config.lexical != "none", model.config.dense != "none"
    plain = (
        [Scoring(True, False)] * lexical + [Scoring(False, True)] * dense + [Scoring(True, True)] * (lexical and dense)
    )
    sliced = [
        Scoring(True, with_dense, count, full)
        for with_dense in ([False, True] if dense else [False])
        for count in slices
        for full in (False, True)
    ]
    return plain + (sliced if lexical else [])


def evaluate(
    model: BiEncoder, collection: TrainCollection, chosen: Sequence[Scoring], skip: int, tokens: int
) -> dict[str, object]:
    """The measures of each view by name, the rank of every query's first relevant document, and weights per text."""
    searcher = BruteForce(model, skip, tokens)
    found = searcher.search(collection.queries, collection.docs, chosen, DEPTH)
    ranks = {name: packed(first_ranks(rows, collection.relevant)) for name, rows in found.items()}
    scored = {name: measures(rows, collection.relevant) for name, rows in found.items()}
    sparsity = {"queries": searcher.query_tokens, "docs": searcher.doc_tokens}
    return {"measures": scored, "weights": sparsity, "ranks": ranks}


class BruteForce:
    """Exact search with a model as it stands."""

    def __init__(self, model: BiEncoder, skip: int, tokens: int) -> None:
        self._model, self._skip, self._tokens = model, skip, tokens
        self._device = next(model.parameters()).device
        self.query_tokens = self.doc_tokens = 0.0  # weights of a text, on average, in the last search

    @torch.no_grad()
    def search(self, queries: Tokens, docs: Tokens, chosen: Sequence[Scoring], k: int) -> dict[str, Rows]:
        """The k best rows (Q, k) of every query in each view, best first, and NOT_FOUND where there are fewer."""
        was_training = self._model.training
        self._model.eval()
        starts = range(0, len(queries), QUERIES_AT_ONCE)
        parts = [
            self._search_some(queries, docs, chosen, k, range(len(queries))[s : s + QUERIES_AT_ONCE]) for s in starts
        ]
        self._model.train(was_training)
        return {view.name: np.concatenate([part[view.name] for part in parts]) for view in chosen}

    def _search_some(
        self, queries: Tokens, docs: Tokens, chosen: Sequence[Scoring], k: int, some: range
    ) -> dict[str, Rows]:
        columns = None if queries.words is None else queries.words.only(some).columns()
        asked = self._encode_queries(queries, columns, some)
        best = {view.name: _nothing(len(some), self._device) for view in chosen}
        held = 0.0
        for rows in by_length(docs, self._tokens):
            texts = EncodedTexts(self._encode(docs.only(rows), columns), self._skip)
            at = torch.tensor(rows, device=self._device)
            for view in chosen:
                best[view.name] = _merged(best[view.name], self._scores(asked, texts, view), at, k)
            held += texts.tokens * len(rows) / len(docs)
        self.query_tokens, self.doc_tokens = asked.tokens, held
        return {name: found.rows.cpu().numpy() for name, found in best.items()}

    def _encode_queries(self, queries: Tokens, columns: TokenIds | None, some: range) -> EncodedTexts:
        starts = range(0, len(some), 256)
        parts = [self._encode(queries.only(some[at : at + 256]), columns) for at in starts]
        lexical = [part.lexical for part in parts if part.lexical is not None]
        dense = [part.dense for part in parts if part.dense is not None]
        return EncodedTexts(
            TrainVectors(torch.cat(lexical) if lexical else None, torch.cat(dense) if dense else None), self._skip
        )

    def _encode(self, texts: Tokens, columns: TokenIds | None) -> TrainVectors:
        batch = padded_texts(texts, self._model.tokenizer.pad_token_id, columns).to(self._device)
        with _fast_float32():
            found = self._model(batch.ids, batch.mask, batch.words)
        return TrainVectors(found.lexical, found.dense)

    def _scores(self, queries: EncodedTexts, docs: EncodedTexts, view: Scoring) -> Tensor:
        scores = torch.zeros((), device=self._device)
        if view.lexical:
            asked = queries.lexical(None if view.full else view.slices)
            scores = asked @ docs.lexical(view.slices).T  # (Q, n)
        if view.dense and queries.dense is not None and docs.dense is not None:
            lam = self._model.config.lam if view.lexical else 1.0
            return scores + lam * (queries.dense @ docs.dense.T)
        return scores.masked_fill(scores <= 0, -torch.inf)  # without a shared token nothing is found


def by_length(docs: Tokens, tokens: int) -> Iterator[list[int]]:
    """All rows, longest first, in groups that with padding have at most so many tokens, or in ones."""
    order = np.argsort(-docs.lengths, kind="stable").tolist()
    at = 0
    while at < len(order):
        longest = int(docs.lengths[order[at]])
        size = max(1, tokens // max(longest, 1))
        yield order[at : at + size]
        at += size


def _kept(weights: Tensor, slices: int, skip: int) -> Tensor:
    """The weights (n, V) with all but the largest of each slice set to 0: a DSR at its tokens' places (fact 1)."""
    vocab = weights.shape[1]
    slicing = Slicing.stride(vocab, slices, min(skip, vocab))
    values, gates = densify_torch(weights, slicing)  # (n, M) each
    places = slicing.skip + gates.long() * slices + torch.arange(slices, device=weights.device)  # (n, M)
    # slices without tokens have value 0, and may add it anywhere
    return torch.zeros_like(weights).scatter_add(1, places.clamp(max=vocab - 1), values)


def _nothing(queries: int, device: torch.device) -> Best:
    rows = torch.zeros((queries, 0), dtype=torch.int64, device=device)
    return Best(rows, torch.zeros((queries, 0), device=device))


def _merged(best: Best, scores: Tensor, rows: Tensor, k: int) -> Best:
    together = torch.cat([best.scores, scores], 1)  # (Q, k + n)
    top = together.topk(min(k, together.shape[1]), dim=1)  # (Q, k)
    all_rows = torch.cat([best.rows, rows.expand(len(scores), -1)], 1)
    found = all_rows.gather(1, top.indices).masked_fill(top.values == -torch.inf, NOT_FOUND)
    return Best(found, top.values)


@contextmanager
def _fast_float32() -> Iterator[None]:
    """Lets a GPU round what it multiplies to TF32: three times as fast, and closer to float32 than bf16 is."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
