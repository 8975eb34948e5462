"""The paper's method on ready vectors: densify, score by the gated inner product, and search an index that agrees.
Run: python examples/paper_method.py"""

from pathlib import Path
from tempfile import TemporaryDirectory

import scipy.sparse as sp

import denslice as ds

TOKENS = ["fox", "sleep", "day", "den", "owl", "hunt", "night", "mouse"]
DOCS = {
    "foxes": [2.0, 1.5, 1.0, 0.5, 0, 0, 0.25, 0],
    "owls": [0, 0, 0.5, 0, 2.0, 1.5, 1.0, 1.0],
    "mice": [1.0, 0, 0, 0.5, 1.0, 0, 0.5, 2.0],
}
QUERY = sp.csr_array([[1.0, 0, 0, 0, 0, 1.0, 0.5, 1.0]])  # fox, hunt, night, mouse


def main() -> None:
    """Print values and gates of each document, then its score by the definition and by an index."""
    weights = sp.csr_array(list(DOCS.values()))
    slicing = ds.Slicing.stride(vocab=8, slices=4)  # tokens 0 and 4 share a slice, and so do 1 and 5, 2 and 6, 3 and 7
    docs = ds.densify(weights, slicing)
    for id, values, gates in zip(DOCS, docs.values, docs.gates, strict=True):
        print(f"{id:6} values {values.tolist()} gates {gates.tolist()}")
    gips = dict(zip(DOCS, ds.gip(ds.densify(QUERY, slicing), docs)[0], strict=True))

    with TemporaryDirectory() as temporary:
        path = Path(temporary, "paper.idx")
        index = ds.Index.create(path, "vectors", vocab=8, slices=4, slicing="stride", query="sliced")
        index.add_vectors(list(DOCS), weights)
        for hit in index.search_vectors(QUERY, k=3):
            lost = [TOKENS[int(term.token)] for term in index.explain_vectors(QUERY, hit.id).lost]
            print(f"{hit.id:6} gip {gips[hit.id]:.3f}  index {hit.score:.3f}  lost in slicing: {lost}")


if __name__ == "__main__":
    main()
