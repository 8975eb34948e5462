"""The contenders of quality_by_seconds.py that keep everything in memory and can be searched when all of it is there.

    python benchmarks/flat_contenders.py NAME CORPUS QUERIES RUN [--minilm FOLDER]

Prints a line when the first search is possible, then answers all queries and writes the run as JSON. Imports count as
time here, so each contender imports what it needs and nothing else.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from denslice.encoders.bm25 import Bm25

K = 10
K1, B = 0.9, 0.4  # as in slicings.py
AT_ONCE = 2_048  # texts
Found = tuple[Any, Any]  # the rows of documents and their scores, both (queries, k)
Search = Callable[[Sequence[str]], Found]


def main() -> None:
    """Index, say so, search and write the run."""
    given = _arguments()
    ids, texts = _read(given.corpus)
    search = CONTENDERS[given.name](texts, given.minilm)
    print("ready", flush=True)
    query_ids, queries = _read(given.queries)
    rows, scores = search(queries)
    found = zip(query_ids, rows.tolist(), scores.tolist(), strict=True)
    run = {id: dict(zip([ids[row] for row in some], values, strict=True)) for id, some, values in found}
    given.run.write_text(json.dumps(run), encoding="utf-8")


def bm25s_search(texts: Sequence[str], minilm: Path | None = None) -> Search:
    """Return the search of bm25s, with stop words and stems."""
    import bm25s
    import Stemmer

    def words(some: Sequence[str]) -> Any:
        tokenizer = bm25s.tokenization.Tokenizer(stopwords="en", stemmer=Stemmer.Stemmer("english"))
        return tokenizer.tokenize(
            list(some), update_vocab=True, return_as="string", show_progress=False, allow_empty=False
        )

    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(words(texts), show_progress=False)
    return lambda queries: index.retrieve(words(queries), k=min(K, len(texts)), show_progress=False)


def static_search(texts: Sequence[str], minilm: Path | None = None) -> Search:
    """Return an exact search of static embeddings, which the embedded model's table of words gives both sides."""
    import numpy as np

    read, vectors = static_encoder()
    matrix = np.concatenate(
        [vectors(read.encode_docs(texts[at : at + AT_ONCE])) for at in range(0, len(texts), AT_ONCE)]
    )

    def search(queries: Sequence[str]) -> Found:
        scores = vectors(read.encode_queries(queries)) @ matrix.T
        rows = np.argsort(-scores, axis=1, kind="stable")[:, :K]
        return rows, np.take_along_axis(scores, rows, axis=1)

    return search


def static_encoder() -> tuple[Bm25, Callable[[Any], npt.NDArray[np.float32]]]:
    """Return what weighs the words of English texts, and what turns weights into static embeddings.

    The transformer is not loaded.
    """
    from importlib.resources import files

    from denslice.encoders.bm25 import Bm25, Bm25Config
    from denslice.encoders.model_config import CONFIG_FILE
    from denslice.encoders.word_table import TokenRows, WordTable
    from denslice.store.vocabulary import Growth, Vocabulary

    folder = Path(str(files("denslice"))) / "mini"
    settings = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    named = {name: settings[name] for name in ("b", "average_length", "phrases")}
    table, words = WordTable.load(folder), Growth(Vocabulary())
    rows = TokenRows(table, words)
    read = Bm25(Bm25Config(language="english", **named), words)
    return read, lambda encoded: table.vectors(encoded.lexical, rows.of(encoded.lexical.indices))


def minilm_search(texts: Sequence[str], minilm: Path | None) -> Search:
    """Return the exact search of faiss over the vectors of sentence-transformers."""
    import faiss
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(minilm), device="cpu")

    def vectors(some: Sequence[str]) -> Any:
        return model.encode(list(some), normalize_embeddings=True, show_progress_bar=False)

    matrix = vectors(texts)
    index = faiss.IndexFlatIP(matrix.shape[1])
    index.add(matrix)

    def search(queries: Sequence[str]) -> Found:
        scores, rows = index.search(vectors(queries), min(K, len(texts)))
        return rows, scores

    return search


CONTENDERS: dict[str, Callable[[Sequence[str], Path | None], Search]] = {
    "bm25s": bm25s_search,
    "static": static_search,
    "minilm": minilm_search,
}


def _read(path: Path) -> tuple[list[str], list[str]]:
    """Return the ids and texts of a file of BEIR: of documents, title and text."""
    with path.open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file if line.strip()]
    return [one["_id"] for one in lines], [f"{one.get('title') or ''} {one['text']}".lstrip() for one in lines]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("queries", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--minilm", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
