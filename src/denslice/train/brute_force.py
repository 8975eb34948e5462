"""Brute-force search on the model's device: it scores every query against every document, with one or more scorings.

Each batch of documents is encoded, scored and dropped, so only the best rows of each query stay in memory.
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
from denslice.train.measures import RANKING_DEPTH, first_ranks, measures, packed
from denslice.train.tokens import TokenArray, Tokens, padded_texts
from denslice.vectors import Ints

QUERIES_AT_ONCE = 8192
NOT_FOUND = -1


@dataclass(frozen=True)
class Scoring:
    """One way to score. `slices=None` uses every weight; `full` slices the documents and leaves the query unsliced."""

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
class TopRows:
    """The best rows of each query so far and their scores, (Q, k) each."""

    rows: Tensor
    scores: Tensor


class EncodedTexts:
    """The vectors of some texts. Sliced weights are computed when they are first needed."""

    def __init__(self, vectors: TrainVectors, skip: int) -> None:
        self.dense = vectors.dense
        self._lexical = vectors.lexical
        self._skip = skip
        self._sliced: dict[int, Tensor] = {}

    def lexical(self, slices: int | None) -> Tensor:
        """Return the weights (n, V). With `slices`, weights that slicing by stride drops are 0."""
        if self._lexical is None:
            raise ValueError("the model has no lexical part")
        if slices is None:
            return self._lexical
        if slices not in self._sliced:
            self._sliced[slices] = _kept(self._lexical, slices, self._skip)
        return self._sliced[slices]

    @cached_property
    def tokens(self) -> float:
        """The mean number of tokens with a weight above 0."""
        return 0.0 if self._lexical is None else float((self._lexical > 0).sum(1).float().mean())


def scorings(model: BiEncoder, slices: Sequence[int] = ()) -> list[Scoring]:
    """Return the scorings of a model: its parts, their sum, and for each number of slices the query sliced and full.

    A model that weights words is not sliced here, because its vocabulary depends on the collection.
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
    """Return measures and ranks of the first relevant document for each scoring, and the mean number of weights."""
    searcher = BruteForce(model, skip, tokens)
    found = searcher.search(collection.queries, collection.docs, chosen, RANKING_DEPTH)
    ranks = {name: packed(first_ranks(rows, collection.relevant)) for name, rows in found.items()}
    scored = {name: measures(rows, collection.relevant) for name, rows in found.items()}
    sparsity = {"queries": searcher.query_tokens, "docs": searcher.doc_tokens}
    return {"measures": scored, "weights": sparsity, "ranks": ranks}


class BruteForce:
    """Exact search with the current weights of a model."""

    def __init__(self, model: BiEncoder, skip: int, tokens: int) -> None:
        self._model, self._skip, self._tokens = model, skip, tokens
        self._device = next(model.parameters()).device
        self.query_tokens = self.doc_tokens = 0.0  # mean number of weights of a text in the last search

    @torch.no_grad()
    def search(self, queries: Tokens, docs: Tokens, chosen: Sequence[Scoring], k: int) -> dict[str, Ints]:
        """Return the k best rows (Q, k) of each query for each scoring, best first, padded with NOT_FOUND."""
        was_training = self._model.training
        self._model.eval()
        every = range(len(queries))
        some = [every[at : at + QUERIES_AT_ONCE] for at in every[::QUERIES_AT_ONCE]]
        parts = [self._search_some(queries, docs, chosen, k, rows) for rows in some]
        self._model.train(was_training)
        return {scoring.name: np.concatenate([part[scoring.name] for part in parts]) for scoring in chosen}

    def _search_some(
        self, queries: Tokens, docs: Tokens, chosen: Sequence[Scoring], k: int, some: range
    ) -> dict[str, Ints]:
        columns = None if queries.words is None else queries.words.only(some).columns()
        asked = self._encode_queries(queries, columns, some)
        nothing = torch.zeros((len(some), 0), device=self._device)
        best = {scoring.name: TopRows(nothing.long(), nothing) for scoring in chosen}
        doc_tokens = 0.0
        for rows in by_length(docs, self._tokens):
            texts = EncodedTexts(self._encode(docs.only(rows), columns), self._skip)
            at = torch.tensor(rows, device=self._device)
            for scoring in chosen:
                best[scoring.name] = _merged(best[scoring.name], self._scores(asked, texts, scoring), at, k)
            doc_tokens += texts.tokens * len(rows) / len(docs)
        self.query_tokens, self.doc_tokens = asked.tokens, doc_tokens
        return {name: found.rows.cpu().numpy() for name, found in best.items()}

    def _encode_queries(self, queries: Tokens, columns: TokenArray | None, some: range) -> EncodedTexts:
        parts = [self._encode(queries.only(some[at : at + 256]), columns) for at in range(0, len(some), 256)]
        lexical = [part.lexical for part in parts if part.lexical is not None]
        dense = [part.dense for part in parts if part.dense is not None]
        vectors = TrainVectors(torch.cat(lexical) if lexical else None, torch.cat(dense) if dense else None)
        return EncodedTexts(vectors, self._skip)

    def _encode(self, texts: Tokens, columns: TokenArray | None) -> TrainVectors:
        batch = padded_texts(texts, self._model.tokenizer.pad_token_id, columns).to(self._device)
        with _fast_float32():
            found = self._model(batch.ids, batch.mask, batch.words)
        return TrainVectors(found.lexical, found.dense)

    def _scores(self, queries: EncodedTexts, docs: EncodedTexts, scoring: Scoring) -> Tensor:
        scores = torch.zeros((), device=self._device)
        if scoring.lexical:
            asked = queries.lexical(None if scoring.full else scoring.slices)
            scores = asked @ docs.lexical(scoring.slices).T  # (Q, n)
        if scoring.dense and queries.dense is not None and docs.dense is not None:
            lam = self._model.config.lam if scoring.lexical else 1.0
            return scores + lam * (queries.dense @ docs.dense.T)
        return scores.masked_fill(scores <= 0, -torch.inf)  # a document that shares no token is not found


def by_length(docs: Tokens, tokens: int) -> Iterator[list[int]]:
    """Yield groups of rows, longest texts first, of at most `tokens` tokens with padding and at least one row."""
    order = np.argsort(-docs.lengths, kind="stable").tolist()
    at = 0
    while at < len(order):
        longest = int(docs.lengths[order[at]])
        size = max(1, tokens // max(longest, 1))
        yield order[at : at + size]
        at += size


def _kept(weights: Tensor, slices: int, skip: int) -> Tensor:
    """Return the weights (n, V) with all but the largest of each slice set to 0: a DSR over the whole vocabulary."""
    vocab = weights.shape[1]
    slicing = Slicing.stride(vocab, slices, min(skip, vocab))
    values, gates = densify_torch(weights, slicing)  # (n, M) each
    places = slicing.skip + gates.long() * slices + torch.arange(slices, device=weights.device)  # (n, M)
    # a slice without tokens has value 0, which may be added at any position
    return torch.zeros_like(weights).scatter_add(1, places.clamp(max=vocab - 1), values)


def _merged(best: TopRows, scores: Tensor, rows: Tensor, k: int) -> TopRows:
    together = torch.cat([best.scores, scores], 1)  # (Q, k + n)
    top = together.topk(min(k, together.shape[1]), dim=1)  # (Q, k)
    all_rows = torch.cat([best.rows, rows.expand(len(scores), -1)], 1)
    found = all_rows.gather(1, top.indices).masked_fill(top.values == -torch.inf, NOT_FOUND)
    return TopRows(found, top.values)


@contextmanager
def _fast_float32() -> Iterator[None]:
    """Multiply matrices in TF32 on a GPU: three times as fast as float32, and more precise than bf16."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
