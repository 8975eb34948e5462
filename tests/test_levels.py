"""Levels: documents are searchable at once by a table of words, and deepened until nothing tells them apart."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import denslice
from denslice import Index, InputError, open_index
from denslice.encoders.word_table import TABLE_FILE, TokenRows, WordTable
from denslice.index.writer import Writer
from denslice.store.manifest import LEVELS, QUICK
from denslice.store.vocabulary import Growth, Vocabulary
from denslice.vectors import csr

MINI = Path(__file__).parent.parent / "src" / "denslice" / "mini"
WORDS = ["fox", "sleep", "night", "heat", "pump", "wing", "layer", "bread", "oven"]
LONG = " ".join(f"Part {n}. Foxes sleep by day in the old oven number {n}, and bake bread at night." for n in range(99))
DOCS: list[dict[str, Any]] = [
    {"id": "fox", "title": "Animals", "text": "Foxes sleep by day and hunt at night.", "meta": {"year": 2001}},
    {"id": "pump", "text": "A heat pump moves heat from a cold place to a warm one."},
    {"id": "wing", "text": "The wing of an aircraft meets the boundary layer."},
    {"id": "bread", "text": "Bake the bread in a hot oven."},
    {"id": "long", "text": LONG},
    {"id": "german", "text": "Der Fuchs schläft am Tag und jagt in der Nacht nach Mäusen und Vögeln."},
    {"id": "none", "text": "?!"},
]
ADDED = [{"id": "fox", "text": "Owls wake."}, {"id": "new", "text": "A wing"}]
QUERIES = ["how do foxes sleep", "boundary layer", "warm place", "Fuchs", "oven number 42"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The embedded model with a table of words."""
    folder = tmp_path_factory.mktemp("model") / "mini"
    shutil.copytree(MINI, folder)
    write_table(folder)
    return str(folder)


def write_table(folder: Path, dimensions: int = 384) -> None:
    dice = np.random.default_rng(1)
    np.savez(
        folder / TABLE_FILE,
        words=np.frombuffer("\n".join(WORDS).encode(), np.uint8),
        rows=dice.integers(-127, 128, (len(WORDS) + 4, 16)).astype(np.int8),
        scale=dice.uniform(0.01, 0.02, len(WORDS) + 4).astype(np.float16),
        straight=dice.normal(size=(16, dimensions)).astype(np.float16),
        inner=dice.normal(size=(16, 8)).astype(np.float16),
        inner_bias=dice.normal(size=8).astype(np.float16),
        outer=dice.normal(size=(8, dimensions)).astype(np.float16),
        outer_bias=dice.normal(size=dimensions).astype(np.float16),
    )


def created(path: Path, model: str, level: str = "quick") -> Index:
    index = Index.create(path, model)
    for doc in DOCS:  # each in a commit of its own
        index.add([doc], level=level)
    return index


def seen(index: Index) -> dict[str, Any]:
    """All that an index holds of each document, and what it finds."""
    held: dict[str, Any] = {}
    for segment in index.reader.snapshot.segments:
        for batch in segment.live_batches(100):
            for at, doc in enumerate(batch.docs):
                row = batch.kept[[at]]
                ids = map(index.reader.snapshot.words.word, row.indices.tolist())
                words = dict(zip(ids, row.data.tolist(), strict=True))
                places = index.places(doc.id)
                held[doc.id] = (doc, words, places)
    for query in QUERIES:
        for mode in ("lexical", "dense", "hybrid"):
            found = index.search(query, k=10, mode=mode, pruning=0.0)
            held[f"{mode}: {query}"] = list(zip(found.ids, found.scores, strict=True))
    return held


def test_quick_documents_have_words_and_a_vector(tmp_path: Path, model: str) -> None:
    index = created(tmp_path / "my.idx", model)
    assert index.info().quick == len(DOCS)
    assert index.search("heat pumps", mode="lexical")[0].id == "pump"
    assert {"fox", "pump", "wing", "bread", "long"} == set(index.search("foxes", mode="dense").ids)
    assert LEVELS in open_index(index.path).reader.snapshot.manifest.needs


def test_deepened_completely_it_is_the_index_that_was_encoded_fully(tmp_path: Path, model: str) -> None:
    index, full = created(tmp_path / "quick.idx", model), created(tmp_path / "full.idx", model, "full")
    assert seen(index) != seen(full)
    counts: list[int] = []
    assert index.deepen(3, progress=counts.append) == 3 == sum(counts)
    assert index.info().quick == len(DOCS) - 3
    assert {doc.id for doc in docs_at(index, QUICK)} == {"fox", "pump", "wing", "bread"}  # the newest are deep
    assert index.deepen() == len(DOCS) - 3
    assert index.deepen() == 0
    assert index.info().quick == 0
    assert seen(index) == seen(full)


def docs_at(index: Index, level: str) -> list[Any]:
    segments = [segment for segment in index.reader.snapshot.segments if segment.entry.level == level]
    return [doc for segment in segments for doc in segment.live_docs(100)]


@pytest.mark.parametrize("change", ["replaced", "deleted", "merged", "quickly", "updated"])
def test_what_others_change_meanwhile_is_kept(tmp_path: Path, model: str, change: str) -> None:
    index = created(tmp_path / "my.idx", model)
    other = open_index(index.path)
    changes: dict[str, Callable[[], object]] = {
        "replaced": lambda: other.add([{"id": "fox", "text": "Foxes bake bread."}]),
        "deleted": lambda: other.delete(["fox", "long"]),
        "merged": other.merge,
        "quickly": lambda: other.add(ADDED, level=QUICK),
        "updated": lambda: other.update("fox", {"year": 2002}),
    }

    def work(writer: Writer) -> int:
        done = writer.deepen(100)
        changes[change]()
        return done

    index.write(work, 10.0)
    assert index.info().quick == {"quickly": 2, "updated": 1}.get(change, 0)
    index.deepen()
    expected = Index.create(tmp_path / "full.idx", model)
    expected.add(DOCS)
    if change in ("replaced", "deleted", "quickly", "updated"):
        others: dict[str, Any] = {"replaced": [{"id": "fox", "text": "Foxes bake bread."}], "deleted": []}
        others |= {"quickly": ADDED, "updated": [{**DOCS[0], "meta": {"year": 2002}}]}
        expected.add(others[change])
        expected.delete(["fox", "long"] if change == "deleted" else [])
    assert seen(index) == seen(expected)


def test_a_merge_leaves_levels_apart(tmp_path: Path, model: str) -> None:
    index = created(tmp_path / "my.idx", model)
    index.deepen(2)
    before = seen(index)
    index.merge()
    assert sorted(segment.entry.level for segment in index.reader.snapshot.segments) == ["full", "quick"]
    assert (index.info().quick, seen(index)) == (len(DOCS) - 2, before)
    assert index.merge() == 0


def test_a_passage_of_the_quick_level_is_encoded_again(tmp_path: Path, model: str) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "long.md").write_text(LONG)
    index = Index.create(tmp_path / "my.idx", model)
    index.sync(folder)
    index.add([{"id": "notes/long.md", "text": LONG}], level=QUICK)
    (folder / "long.md").write_text(LONG + " The end.")
    assert index.sync(folder).reused == 0


def test_an_encoder_without_a_model_is_as_quick_as_it_can_be(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add(DOCS, level=QUICK)
    assert (index.info().quick, index.deepen()) == (0, 0)


def test_a_model_without_a_table_says_so(tmp_path: Path) -> None:
    shutil.copytree(MINI, tmp_path / "mini")
    (tmp_path / "mini" / TABLE_FILE).unlink(missing_ok=True)
    index = Index.create(tmp_path / "my.idx", str(tmp_path / "mini"))
    with pytest.raises(InputError, match=r"has no words\.npz, so it cannot read documents quickly"):
        index.add(DOCS, level=QUICK)
    with pytest.raises(InputError, match="level is 'quick' or 'full', not 'deep'"):
        index.add(DOCS, level="deep")
    assert len(index) == 0


def test_the_command_goes_on_where_it_was_left(tmp_path: Path, model: str) -> None:
    index = created(tmp_path / "my.idx", model)
    index.deepen(2)
    assert "deepened 5 documents of" in denslice("deepen", index.path).stdout
    assert "nothing to deepen" in denslice("deepen", index.path).stdout
    assert "quick            0" in denslice("info", index.path).stdout


def test_a_vector_is_what_the_table_and_the_network_define(tmp_path: Path) -> None:
    write_table(tmp_path, 12)
    table, words = WordTable.load(tmp_path), Growth(Vocabulary())
    for word in ("unknown", "fox", "sleep", "zebra", "oven"):
        words.place(word)
    rows = TokenRows(table, words)
    weights = np.array([[0.0, 0.5, 0.25, 0.0, 0.0], [0.75, 0.0, 0.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]], np.float32)
    starts = np.cumsum([0, *(weights > 0).sum(1)])
    found = table.vectors(csr((weights[weights > 0], np.nonzero(weights)[1], starts), weights.shape), rows.all())
    for row, vector in zip(weights, found, strict=True):
        total = sum(weight * table.rows[table.row_of(words.word(id))] for id, weight in enumerate(row) if weight)
        if np.isscalar(total):
            assert not vector.any()
            continue
        unit = total / np.linalg.norm(total) * 4
        neurons = np.maximum(unit @ table.inner + table.inner_bias, 0)
        out = unit @ table.straight + neurons @ table.outer + table.outer_bias
        assert vector == pytest.approx(out / np.linalg.norm(out), abs=1e-5)
    assert table.row_of("oven") == WORDS.index("oven")
    assert table.row_of("zebra") >= len(WORDS)
