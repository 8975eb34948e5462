"""Filter, update, replace and delete documents, and see when another reader of the same index notices.
Run: python examples/living_index.py"""

from pathlib import Path
from tempfile import TemporaryDirectory

import denslice as ds

PAPERS = [
    {"id": "bm25", "text": "Ranking documents by term frequency", "year": 1994, "tags": ["lexical"]},
    {"id": "dpr", "text": "Ranking documents by dense vectors", "year": 2020, "tags": ["dense"]},
    {"id": "splade", "text": "Ranking documents by sparse vectors", "year": 2021, "tags": ["lexical", "learned"]},
]
RECENT = {"year": {"gte": 2020}}
LEXICAL_OR_OLD = {"or": [{"tags": "lexical"}, {"year": {"lt": 2000}}]}


def main() -> None:
    """Print what filtered searches find before and after three commits, in the writer and in a reader."""
    with TemporaryDirectory() as temporary:
        index = ds.Index.create(Path(temporary, "papers.idx"), "bm25", filterable=["year"])
        index.add(PAPERS)
        print("since 2020:", *(hit.id for hit in index.search("ranking documents", where=RECENT)))
        print("lexical or old:", *(hit.id for hit in index.search("ranking documents", where=LEXICAL_OR_OLD)))

        reader = ds.open_index(index.path)
        index.update("bm25", {"year": 2024})  # other metadata; the text is not encoded again
        index.add([{"id": "dpr", "text": "Ranking passages", "year": 2020}])  # replaces the document with this id
        index.delete(["splade"])
        print("writer, since 2020:", *(hit.id for hit in index.search("ranking documents", where=RECENT)))
        print("reader, since 2020:", *(hit.id for hit in reader.search("ranking documents", where=RECENT)))
        reader.refresh()
        print("reader after refresh:", *(hit.id for hit in reader.search("ranking documents", where=RECENT)))


if __name__ == "__main__":
    main()
