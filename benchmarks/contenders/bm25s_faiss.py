"""bm25s and the graph of Faiss side by side, as many people build hybrid search: the lists are fused by their scores.

bm25s knows no weights of query tokens. As those of a collection are the same in every query, they are multiplied into
the weights of documents when it is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from contenders.contender import Contender, Found, Setting, Tokens, grid
from contenders.faiss_hnsw import INDEX, build_graph
from contenders.vectors_folder import SETS, Floats, VectorsFolder

WORDS = "words"
DEPTHS = (100, 300, 1_000)  # of each list
EFFORTS = (128, 256, 512, 1_024)


class Bm25sFaiss(Contender):
    """The best of both lists. bm25s scores every document; a cosine that is not known is computed, or counts 0."""

    kind = "hybrid"
    packages = ("bm25s", "faiss-cpu", "numba")

    def settings(self, k: int) -> Sequence[Setting]:
        settings = grid(depth=DEPTHS, efSearch=EFFORTS, complete=[False, True])
        return [one for one in settings if one["efSearch"] >= one["depth"] >= k]

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        import bm25s

        weighed = sp.csc_array(vectors.docs * token_weights(vectors)[None])
        index = bm25s.BM25()
        parts = {"data": weighed.data, "indices": weighed.indices, "indptr": weighed.indptr}
        index.scores = {**parts, "num_docs": weighed.shape[0]}
        index.nonoccurrence_array = None  # a token that a document lacks adds nothing
        index.vocab_dict = {f"t{token}": token for token in range(weighed.shape[1])}
        index.save(str(folder / WORDS), show_progress=False)
        build_graph(vectors, folder / INDEX)

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        import bm25s
        import faiss
        from bm25s.numba.selection import topk

        self._words = bm25s.BM25.load(str(folder / WORDS), show_progress=False)
        self._words.activate_numba_scorer()
        self._topk = topk  # numpy's takes 8 ms where most scores are 0
        self._graph: Any = faiss.read_index(str(folder / INDEX))
        self._vectors = stored_vectors(self._graph)
        self._lam = np.float32(vectors.lam)

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> tuple[list[int], Floats]:
        return tokens.tolist(), dense[None]

    def search(self, query: tuple[list[int], Floats], k: int, setting: Setting) -> npt.NDArray[Any]:
        tokens, dense = query
        scores = self._words.get_scores_from_ids(tokens)
        _, rows = self._topk(scores, setting["depth"], sorted=False)
        self._graph.hnsw.efSearch = setting["efSearch"]
        cosines, near = self._graph.search(dense, setting["depth"])
        others = np.setdiff1d(rows, near[0])
        both = np.concatenate([near[0], others])
        known = self._vectors[others] @ dense[0] if setting["complete"] else np.zeros(len(others), np.float32)
        fused = scores[both] + self._lam * np.concatenate([cosines[0], known])
        return np.asarray(both[np.argsort(-fused, kind="stable")[:k]])

    def found(self, answer: npt.NDArray[Any]) -> Found:
        return answer


def stored_vectors(graph: Any) -> Floats:
    """Return the vectors that a graph of Faiss holds, without copying them."""
    import faiss

    stored: Any = faiss.downcast_index(graph.storage)
    found: Floats = faiss.rev_swig_ptr(stored.get_xb(), stored.ntotal * stored.d).reshape(stored.ntotal, stored.d)
    return found


def token_weights(vectors: VectorsFolder) -> Floats:
    """Return the weight that each token has in queries; raise SystemExit if it differs between queries."""
    found = np.zeros(vectors.docs.shape[1], np.float32)
    for name in SETS:
        words = vectors.queries(name).words
        known = found[words.indices]
        if not np.allclose(known[known > 0], words.data[known > 0], rtol=1e-3):
            raise SystemExit("a token has several weights in queries, which bm25s cannot have")
        found[words.indices] = words.data
    return found
