"""Small indexes of every format since 2, kept as they were written, with the answers they gave then.

`python tests/golden.py` writes those of the format that this version writes, where they are not there yet: once a
format is released its golden indexes never change.
"""

import json
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice import Index
from denslice.store.manifest import INDEX_FORMAT

FOLDER = Path(__file__).with_name("golden")
TEXTS = (
    "Foxes sleep by day and hunt at night.",
    "A heat pump moves heat from a cold place to a warm one.",
    "The wing of an aircraft meets the boundary layer.",
    "Owls hunt at night too, and sleep by day.",
    "Heat transfer through a thin wall.",
    "Zürich liegt am See; 東京 is a city.",
    "Pumps, pumps and more pumps.",
)
QUERIES = ("foxes sleep", "heat transfer pump", "東京 city", "night")
Told = dict[str, Any]


def docs(first: int, end: int) -> list[dict[str, Any]]:
    """Some of the documents."""
    meta: dict[str, Any] = {"deep": {"x": [1, None]}}
    return [
        {
            "id": f"d{i}", "title": f"Note {i}" if i % 2 else "", "text": TEXTS[i],
            "year": 2018 + i, "tags": ["a", f"t{i % 3}"], **meta,
        }
        for i in range(first, end)
    ]  # fmt: skip


def write_bm25(path: Path) -> Index:
    """Three segments, a deletion, a replacement, phrases, a filterable field."""
    index = Index.create(path, "bm25", slices=16, filterable=["year"], options={"phrases": 0.3})
    index.add(docs(0, 4))
    index.add(docs(4, 7))
    index.delete(["d4"])
    index.add([{"id": "d1", "text": "Replaced: a pump for heat.", "year": 2030}])
    return index


def write_mini(path: Path) -> Index:
    """The embedded model as it was then, and a deletion."""
    index = Index.create(path, "mini", slices=32, slicing="stride")
    index.add(docs(0, 5))
    index.delete(["d2"])
    return index


def long_docs() -> list[dict[str, Any]]:
    """Two notes of some thousand words, each word of the second part once, and two short ones."""
    once = [f"kelp{n} drifts past buoy{n}." for n in range(900)]
    notes = [" ".join([*TEXTS[:4] * 30, *once[half::2]]) for half in (0, 1)]
    return [{"id": f"long{n}", "title": f"Log {n}", "text": text} for n, text in enumerate(notes)] + docs(0, 2)


def write_long(path: Path) -> Index:
    """Long documents with default settings. `format-3-long` was written before documents were cut into passages."""
    index = Index.create(path, "bm25")
    index.add(long_docs())
    return index


def write_words(path: Path) -> Index:
    """The second analysis of words: languages that are recognised, titles, headings, identifiers."""
    index = Index.create(path, "bm25")
    languages = [
        "Die Häuser am See sind im Sommer sehr teuer, und niemand kann sie kaufen.",
        "Les maisons près du lac sont très chères en été, et personne ne peut les acheter.",
        "湖のそばの家は夏になるととても高くて、誰も買えません。",
    ]
    index.add([*docs(0, 7), *({"id": f"l{n}", "title": f"parseDate {n}", "text": t} for n, t in enumerate(languages))])
    return index


def write_vectors(path: Path) -> Index:
    """Ready vectors with dense ones, two segments, a deletion, sliced queries."""
    weights, dense = vectors()
    index = Index.create(path, "vectors", vocab=50, slices=8, skip=2, slicing="random", query="sliced", seed=4)
    index.add_vectors([f"v{n}" for n in range(6)], weights[:6], dense=dense[:6], texts=[f"text {n}" for n in range(6)])
    index.add_vectors(["v6", "v7"], weights[6:8], dense=dense[6:8])
    index.delete(["v3"])
    return index


def vectors() -> tuple[sp.csr_array, np.ndarray]:
    """Nine vectors: eight of documents and one of a query."""
    rng = np.random.default_rng(3)
    weights = sp.random_array((9, 50), density=0.2, rng=rng, format="csr", dtype=np.float32)
    return sp.csr_array(weights), rng.normal(size=(9, 4)).astype(np.float32)


def told(index: Index, query: Sequence[Any] | None = None) -> Told:
    """What an index answers."""
    asked: list[tuple[str, Any]] = [("", index.search_vectors(query[0], dense=query[1]))] if query else []
    asked += [] if query else [(text, index.search(text)) for text in QUERIES]
    return {
        "docs": [[doc.id, doc.title, doc.text, dict(doc.meta)] for doc in index.docs()],
        "answers": [[text, [[hit.id, hit.score, hit.lexical, hit.dense] for hit in hits]] for text, hits in asked],
    }


def unpacked(name: str, to: Path) -> Told:
    """Unpacks a golden index to a folder; the answers it gave."""
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as packed:
        packed.extractall(to, [one for one in packed.namelist() if one != "expected.json"])
        expected: Told = json.loads(packed.read("expected.json"))
    return expected


def pack(name: str, index: Index, expected: Told) -> None:
    """Keeps an index and its answers."""
    with zipfile.ZipFile(FOLDER / f"{name}.zip", "x", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(index.path.rglob("*")):
            if path.is_file() and not path.name.startswith("lock"):
                packed.writestr(zipfile.ZipInfo(str(path.relative_to(index.path))), path.read_bytes(), 8)
        packed.writestr(zipfile.ZipInfo("expected.json"), json.dumps(expected, indent=1, ensure_ascii=False), 8)


KINDS = {
    "bm25": write_bm25,
    "mini": write_mini,
    "vectors": write_vectors,
    "passages": write_long,
    "words": write_words,
    "words-mini": write_mini,  # the first edition of the model, with the second analysis of words
}


def main() -> int:
    """Writes what is not there yet."""
    weights, dense = vectors()
    for name, write in KINDS.items():
        if not (FOLDER / f"format-{INDEX_FORMAT}-{name}.zip").exists():
            with tempfile.TemporaryDirectory() as folder:
                index = write(Path(folder) / "index")
                pack(
                    f"format-{INDEX_FORMAT}-{name}",
                    index,
                    told(index, (weights[8:9], dense[8]) if name == "vectors" else None),
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
