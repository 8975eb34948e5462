"""Index a folder of Markdown notes, ask one question, and print what each part of a score came from.
Run: python examples/search_notes.py [FOLDER [QUESTION]]"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import denslice as ds

NOTES = Path(__file__).parent / "notes"
QUESTION = "how do I keep a loaf from going stale"


def main(folder: str | Path = NOTES, question: str = QUESTION) -> None:
    """Print the three best notes, each with the share of its dense vector and of its words."""
    files = sorted(Path(folder).rglob("*.md"))
    notes = [{"id": str(file.relative_to(folder)), "text": file.read_text(encoding="utf-8")} for file in files]
    with TemporaryDirectory() as temporary, ds.Index.create(Path(temporary, "notes.idx")) as index:
        print(f"indexed {index.add(notes)} notes; asking: {question}")
        for hit in index.search(question, k=3):
            why = index.explain(question, hit.id)
            print(f"\n{hit.id}  {hit.score:.2f} = {why.dense:.2f} dense + {why.lexical:.2f} lexical")
            for term in why.terms:
                print(f"  {term.token:12} {term.query_weight:5.2f} × {term.doc_weight:.2f} = {term.contribution:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
