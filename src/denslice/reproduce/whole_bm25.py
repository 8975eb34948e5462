"""BM25 as a model: it counts the whole collection first, and then encodes any part of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import scipy.sparse as sp

from denslice.encoders.bm25 import Bm25, Bm25Config, idf
from denslice.errors import InputError
from denslice.store.vocabulary import Growth, Vocabulary
from denslice.vectors import Encoded

BATCH = 4_096


class WholeBm25:
    """BM25 with the words, average length and idf of a whole collection; idf is in the query's weights."""

    def __init__(self, doc_texts: Iterator[str]) -> None:
        words = Growth(Vocabulary())
        counting = Bm25(Bm25Config(), words)
        docs = length = 0
        frequencies = np.zeros(0, dtype=np.int64)
        while batch := list(islice(doc_texts, BATCH)):
            encoded = counting.encode_docs(batch)
            docs += len(batch)
            length += 0 if encoded.lengths is None else int(encoded.lengths.sum())
            frequencies = np.pad(frequencies, (0, len(words) - len(frequencies)))
            frequencies += np.bincount(encoded.lexical.indices, minlength=len(words))
        if not length:
            raise InputError("no document has a word that bm25 could count")
        self.vocab = len(words)
        self._bm25 = Bm25(Bm25Config(average_length=length / docs), words)
        self._idf = idf(frequencies, docs)

    def encode_docs(self, texts: Sequence[str]) -> Encoded:
        """Return lexical weights (n, vocabulary) of documents of the collection."""
        return Encoded(self._bm25.encode_docs(texts).lexical)

    def encode_queries(self, texts: Sequence[str]) -> Encoded:
        """Return lexical weights (n, vocabulary) of queries, times idf."""
        counts = self._bm25.encode_queries(texts).lexical
        weights = counts.data * self._idf[counts.indices]
        return Encoded(sp.csr_array((weights, counts.indices, counts.indptr), counts.shape))

    def token(self, id: int) -> str:
        """Return the word (stem) that has this token id."""
        return self._bm25.token(id)
