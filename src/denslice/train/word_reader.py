"""Texts as word pieces and as BM25's words, for a model that weights words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from denslice.analysis.languages import ENGLISH
from denslice.analysis.normal_forms import lower_case
from denslice.encoders.bm25 import Bm25, Bm25Config, idf
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.word_pieces import DOC_SIDE, QUERY_SIDE, LocatedWords, locate_words
from denslice.store.vocabulary import Growth, Vocabulary
from denslice.train.tokens import TOKENIZER_BATCH, Tokens, WordTexts, joined
from denslice.vectors import stacked


class WordReader:
    """Reads texts as pieces and as words. Documents must be read before queries: they define vocabulary and idf."""

    def __init__(self, tokenizer: Any, config: ModelConfig) -> None:
        self._tokenizer = tokenizer
        self._config = config
        self._words = Growth(Vocabulary())
        self._bm25 = Bm25Config(language=ENGLISH, b=config.b, average_length=config.average_length)
        self._words_of = Bm25(self._bm25, self._words)

    def docs(self, texts: Sequence[str]) -> Tokens:
        """Return the pieces and words of the documents."""
        bm25 = Bm25(self._bm25, self._words)
        starts = range(0, len(texts), TOKENIZER_BATCH)
        weights = stacked([bm25.encode_docs(texts[at : at + TOKENIZER_BATCH]).lexical for at in starts])
        self._idf = idf(np.bincount(weights.indices, minlength=len(self._words)), len(texts))
        rows, found = self._pieces(texts, self._config.max_length)
        return joined(rows, WordTexts(DOC_SIDE, weights, found))

    def queries(self, texts: Sequence[str]) -> Tokens:
        """Return the pieces and words of the queries, with the documents' idf."""
        weights = Bm25(self._bm25, self._words).encode_queries(texts).lexical
        weights.data *= self._idf[weights.indices]
        rows, found = self._pieces(texts, self._config.query_length)
        return joined(rows, WordTexts(QUERY_SIDE, weights, found))

    def _pieces(self, texts: Iterable[str], length: int) -> tuple[list[list[int]], list[LocatedWords]]:
        found: list[LocatedWords] = []
        rows: list[list[int]] = []
        remaining = iter(texts)
        while some := list(islice(remaining, TOKENIZER_BATCH)):
            lower = [lower_case(text) for text in some]
            split = self._tokenizer(lower, truncation=True, max_length=length, return_offsets_mapping=True)
            rows += split["input_ids"]
            found += map(self._located, some, split["offset_mapping"])
        return rows, found

    def _located(self, text: str, offsets: list[tuple[int, int]]) -> LocatedWords:
        tokens = list(self._words_of.tokens(text, ENGLISH, self._words.find))
        return locate_words([one.id for one in tokens], [(one.start, one.end) for one in tokens], offsets)
