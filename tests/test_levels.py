"""Levels: documents are searchable at once by a table of words, and deepened until nothing tells them apart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, get_native_id
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import denslice
from denslice import Index, InputError, blas_threads, open_index
from denslice.encoders.onnx_model import ModelOutput, OnnxModel
from denslice.encoders.word_table import TABLE_FILE, TokenRows, WordTable
from denslice.grouping import PASSAGE_SHARE
from denslice.index.deepening import MOST_COUNTED, NICENESS, FoundCounts, Pace, Stopped, rows_to_deepen
from denslice.index.doc_batches import cut_docs
from denslice.index.quick_pass import FIRST_PART, Intake
from denslice.index.writer import Writer
from denslice.options import ReadOptions
from denslice.rankings import Ranking
from denslice.records import Doc
from denslice.store.manifest import LEVELS, QUICK, Manifest
from denslice.store.vocabulary import Growth, Vocabulary
from denslice.vectors import csr
from small_tables import MINI, WORDS, model_with_table, write_table

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
    return model_with_table(tmp_path_factory.mktemp("model") / "mini")


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
    assert seen(open_index(index.path)) != seen(full)
    counts: list[int] = []
    assert index.deepen(3, progress=counts.append) == 3 == sum(counts)
    assert index.info().quick == len(DOCS) - 3
    assert {doc.id for doc in docs_at(index, QUICK)} == {"fox", "pump", "wing", "bread"}  # the newest are deep
    assert index.deepen() == len(DOCS) - 3
    assert index.deepen() == 0
    assert index.info().quick == 0
    assert seen(index) == seen(full)


def by_definition(index: Index, query: str, k: int = 10) -> dict[str, float]:
    """The scores of hybrid search, from those of both parts and the level of each document."""
    lexical, dense = (dict(zip(found.ids, found.scores, strict=True)) for found in both_parts(index, query, k))
    quick = {doc.id for doc in docs_at(index, QUICK)}
    words, vectors = ({id: scale if id in quick else 1.0 for id in lexical | dense} for scale in (2.0, 0.5))
    return {id: words[id] * lexical.get(id, 0) + vectors[id] * dense.get(id, 0) for id in lexical | dense}


def both_parts(index: Index, query: str, k: int) -> list[Ranking]:
    return [index.search(query, k=k, mode=mode) for mode in ("lexical", "dense")]


def test_quick_documents_are_scored_so_that_both_levels_compare(tmp_path: Path, model: str) -> None:
    index = created(tmp_path / "my.idx", model)
    full = index.lam
    for deepened in (0, 3, 2, 2):  # documents: none is deep, some, most, all
        index.deepen(deepened) if deepened else None
        assert index.lam == full
        for query in QUERIES[:3]:
            found, expected = index.search(query, k=10), by_definition(index, query)
            assert dict(zip(found.ids, found.scores, strict=True)) == pytest.approx(expected, rel=1e-4)
            assert list(found.scores) == sorted(found.scores, reverse=True)
            for id, score in zip(found.ids, found.scores, strict=True):
                assert index.explain(query, id).score == pytest.approx(score, rel=1e-4)
            assert {hit.id: hit.score for hit in index.search(query, k=2, offset=1)} == pytest.approx(
                dict(zip(found.ids[1:3], found.scores[1:3], strict=True))
            )
            whole = {hit.id: hit for hit in index.search(query, k=10)}
            for hit in index.search(query, k=20, group=False):
                if hit.id != "long":  # of one passage
                    dense = PASSAGE_SHARE * whole[hit.id].dense
                    assert hit.score == pytest.approx(whole[hit.id].lexical + dense, rel=1e-4)


def test_words_alone_are_not_scaled(tmp_path: Path, model: str) -> None:
    index = created(tmp_path / "my.idx", model)
    index.deepen(3)
    german = index.search("Fuchs", k=10)  # the model does not know the language: the query has no vector
    assert list(german.scores) == list(index.search("Fuchs", k=10, mode="lexical").scores)
    plain = created(tmp_path / "plain.idx", "bm25")
    words = {hit.id: hit.score for hit in plain.search("oven number 42")}
    assert index.search("oven number 42", mode="lexical").ids[0] == "long" == next(iter(words))


def test_what_searches_found_most_often_is_deepened_first_then_the_newest(tmp_path: Path, model: str) -> None:
    index = Index.create(tmp_path / "my.idx", model)
    index.add(DOCS[:3], level=QUICK)
    index.add(DOCS[3:], level=QUICK)
    for query, times in (("hot bread", 3), ("wing", 2)):
        for _ in range(times):
            index.search(query, k=1, mode="lexical")
    deep = set[str]()
    for expected in ("bread", "wing", "none", "german", "long", "pump", "fox"):
        assert index.deepen(1) == 1
        deep.add(expected)
        assert {doc.id for doc in docs_at(index, "full")} == deep


@given(
    commits=st.lists(st.lists(st.integers(0, 20), max_size=8, unique=True), max_size=5),
    often=st.lists(st.integers(0, 25), unique=True, max_size=12),
    count=st.integers(0, 20),
)
@settings(max_examples=25, deadline=None)
def test_the_order_of_deepening_is_as_defined(
    model: str, commits: list[list[int]], often: list[int], count: int
) -> None:
    newest: list[str] = []  # at the quick level
    with TemporaryDirectory() as folder, Index.create(Path(folder) / "my.idx", model) as index:
        for number, ids in enumerate(commits):
            names = list(map(str, ids))
            docs = [{"id": name, "text": f"fox {name}"} for name in names]
            add = partial(Writer.add_docs, docs=docs, level="full" if number == 1 else QUICK)
            index.commit_only(add, 10.0)  # a merge would move documents
            newest = [*(() if number == 1 else reversed(names)), *(name for name in newest if name not in names)]
        first = [str(id) for id in often if str(id) in newest]
        chosen = rows_to_deepen(index.reader.snapshot.segments, count, list(map(str, often)))
        found = [id for segment, rows in chosen for id in segment.ids(rows)]
        assert sorted(found) == sorted([*first, *(name for name in newest if name not in first)][:count])


def test_only_so_many_documents_are_counted_and_those_found_often_stay() -> None:
    counts = FoundCounts()
    counts.add(["often", "oft"] * 2)
    counts.add(["often"])
    for number in range(5 * MOST_COUNTED):
        counts.add([str(number)])
    assert len(counts.often(10 * MOST_COUNTED)) <= 2 * MOST_COUNTED
    assert counts.often(2) == ["often", "oft"]
    counts.forget(["often", "gone"])
    assert counts.often(1) == ["oft"]


def test_a_pace_leaves_the_core_to_others_and_the_index_as_it_would_be(tmp_path: Path, model: str) -> None:
    index, full = created(tmp_path / "quick.idx", model), created(tmp_path / "full.idx", model, "full")
    index.deepen(1)  # loads the model
    began, worked = time.perf_counter(), time.thread_time()
    index.deepen(pace=Pace(0.2, Event()))
    assert time.perf_counter() - began > 3 * (time.thread_time() - worked)
    assert seen(index) == seen(full)


def test_deepening_that_is_told_to_stop_changes_nothing(tmp_path: Path, model: str) -> None:
    index, stop = created(tmp_path / "my.idx", model), Event()
    before = index.commit
    stop.set()
    with pytest.raises(Stopped):
        index.deepen(pace=Pace(1.0, stop))
    assert (index.commit, index.info().quick) == (before, len(DOCS))


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
    for change in (lambda level: index.add(DOCS, level=level), lambda level: index.sync(tmp_path, level=level)):
        with pytest.raises(InputError, match=r"the model mini has no words\.npz, so it cannot read texts quickly"):
            change(QUICK)
        with pytest.raises(InputError, match="level is 'quick' or 'full', not 'deep'"):
            change("deep")
    assert len(index) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority is that of the whole process")
def test_deepening_encodes_at_low_priority_and_commits_at_that_of_its_caller(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = created(tmp_path / "my.idx", model)
    encoding, committing = set[int](), set[int]()
    read, finish = OnnxModel._read, Writer.finish

    def reading(*given: Any, **more: Any) -> ModelOutput:
        encoding.add(os.getpriority(os.PRIO_PROCESS, get_native_id()))
        return read(*given, **more)

    def finishing(*given: Any) -> Manifest:
        committing.add(os.getpriority(os.PRIO_PROCESS, get_native_id()))
        return finish(*given)

    monkeypatch.setattr(OnnxModel, "_read", reading)
    monkeypatch.setattr(Writer, "finish", finishing)
    own = os.getpriority(os.PRIO_PROCESS, get_native_id())
    assert index.deepen() == len(DOCS)
    assert (encoding, committing) == ({min(19, own + NICENESS)}, {own})
    encoding.clear()
    index.add(DOCS)
    assert encoding == {own}


def table_without(folder: Path, name: str) -> None:
    with np.load(folder / TABLE_FILE) as stored:
        np.savez(folder / TABLE_FILE, **{one: stored[one] for one in stored if one != name})


def table_with(folder: Path, **changed: Any) -> None:
    with np.load(folder / TABLE_FILE) as stored:
        np.savez(folder / TABLE_FILE, **{**stored, **changed})


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (partial(table_without, name="outer"), "has no array outer"),
        (partial(table_without, name="words"), "has no array words"),
        (lambda folder: (folder / TABLE_FILE).write_bytes(b""), "is not a zip file"),
        (lambda folder: (folder / TABLE_FILE).write_text("no table"), "is not a zip file"),
        (lambda folder: damage(folder / TABLE_FILE), "Bad CRC-32"),
        (partial(table_with, rows=np.ones(16)), r"rows has the shape \(16,\), expected \(rows, width\)"),
        (partial(table_with, scale=np.ones(2)), r"scale has the shape \(2,\), expected \(rows = 13\)"),
        (
            partial(table_with, outer=np.ones((7, 384))),
            r"outer has the shape \(7, 384\), expected \(neurons = 8, dimensions = 384\)",
        ),
        (partial(table_with, lam=np.ones(2)), r"lam has the shape \(2,\), expected \(\)"),
        (partial(table_with, words=np.frombuffer(b"\xff\xfe", np.uint8)), "can't decode byte 0xff"),
        (
            partial(table_with, words=np.frombuffer(b"\n" * 12, np.uint8)),
            "13 words and those not among them need more than 13 rows",
        ),
    ],
)
def test_a_damaged_table_says_what_is_wrong(tmp_path: Path, harm: Callable[[Path], None], told: str) -> None:
    (tmp_path / "mini").mkdir()
    write_table(tmp_path / "mini")
    harm(tmp_path / "mini")
    with pytest.raises(InputError, match=rf"the model mini cannot read texts quickly: words\.npz: .*{told}"):
        WordTable.load(tmp_path / "mini")


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[300] ^= 1  # in the first array
    path.write_bytes(content)


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
    given = csr((weights[weights > 0], np.nonzero(weights)[1], starts), weights.shape)
    found = table.vectors(given, rows.of(given.indices))
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


def test_a_product_of_matrices_uses_one_thread_and_then_as_many_as_before() -> None:
    found = blas_threads.openblas()
    if found is None:
        pytest.skip("numpy has another library than OpenBLAS")
    with blas_threads.one_blas_thread():
        within = blas_threads.openblas.__wrapped__()
    after = blas_threads.openblas.__wrapped__()
    assert within is not None
    assert after is not None
    assert (within[0], after[0]) == (1, found[0])


def jsonl(path: Path, count: int, *more: dict[str, Any]) -> Path:
    docs = [*({"id": str(number), "text": f"fox {number} sleeps"} for number in range(count)), *more]
    path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return path


def test_the_index_command_deepens_what_it_has_added_quickly(tmp_path: Path, model: str) -> None:
    docs, to = jsonl(tmp_path / "docs.jsonl", 3), tmp_path / "my.idx"
    told = denslice("index", docs, "--to", to, "--encoder", model).stdout
    assert "indexed 3 documents" in told
    assert "deepened 3 documents" in told
    told = denslice("index", jsonl(tmp_path / "more.jsonl", 5), "--to", to, "--quick").stdout
    assert "deepened" not in told
    assert open_index(to).info().quick == 5
    denslice("index", docs, "--to", to, "--full")
    assert open_index(to).info().quick == 2
    assert "exclude each other" in denslice("index", docs, "--to", to, "--full", "--quick").stderr


def test_a_new_index_grows_part_by_part_and_is_gone_after_an_error(tmp_path: Path, model: str) -> None:
    docs = jsonl(tmp_path / "docs.jsonl", FIRST_PART + 10)
    denslice("index", docs, "--to", tmp_path / "my.idx", "--encoder", model, "--quick")
    info = open_index(tmp_path / "my.idx").info()
    assert (info.documents, info.quick, info.generation) == (FIRST_PART + 10, FIRST_PART + 10, 2)
    for wrong, told in (({"id": "7", "text": "again"}, "'7' was already used"), ({"text": 5}, "docs.jsonl")):
        jsonl(docs, FIRST_PART + 10, wrong)
        failed = denslice("index", docs, "--to", tmp_path / "new.idx", "--encoder", model)
        assert told in failed.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["docs.jsonl", "my.idx"]


def test_a_sync_may_leave_documents_at_the_quick_level(tmp_path: Path, model: str) -> None:
    folder, to = tmp_path / "notes", tmp_path / "my.idx"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nA fox sleeps in oven {number}.")
    denslice("sync", folder, "--to", to, "--encoder", model, "--quick")
    index = open_index(to)
    assert (len(index), index.info().quick) == (3, 3)
    (folder / "1.md").write_text("# Note 1\n\nThe wing of an aircraft.")
    assert index.sync().encoded == 1
    assert index.info().quick == 2
    (folder / "1.md").write_text("# Note 1\n\nA heat pump.")
    (folder / "3.md").write_text("# Note 3\n\nBread.")
    denslice("sync", "--to", to, "--quick")
    index.refresh()
    assert (len(index), index.info().quick) == (4, 4)
    index.deepen()
    with Index.create(tmp_path / "full.idx", model) as full:
        full.sync(folder)
        assert seen(index) == seen(full)


@pytest.mark.parametrize("is_alone", [True, False])
def test_parts_are_read_as_by_an_encoder_of_their_own(tmp_path: Path, model: str, is_alone: bool) -> None:
    docs = [Doc(**doc) for doc in DOCS]
    with Index.create(tmp_path / "my.idx", model) as index, Index.create(tmp_path / "plain.idx", model) as plain:
        intake = Intake(cut_docs(docs, True), [], ReadOptions(), Documents(), 10.0, _part=1)
        for start, end in ((0, 1), (1, 3), (3, 7)):
            intake.take_part(index)
            plain.add(docs[start:end], level=QUICK)
            for other in () if is_alone else (index, plain):  # another writer adds words in between
                open_index(other.path).add([{"id": f"other{start}", "text": f"zebra{start} oven"}], level=QUICK)
        assert seen(index) == seen(plain)
        assert words_of(index) == words_of(plain)


def words_of(index: Index) -> list[str]:
    words = open_index(index.path).reader.snapshot.words
    return [words.word(id) for id in range(len(words))]


def test_the_files_of_folders_are_taken_in_parts_too(tmp_path: Path, model: str) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(7):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nA fox sleeps in oven {number}.")
    (folder / "bad.docx").write_bytes(b"no zip")
    counter = Files()
    given = cut_docs([Doc("one", "a wing")], True)
    with Index.create(tmp_path / "my.idx", model) as index:
        intake = Intake(given, [folder], ReadOptions(), counter, 10.0, _part=2)
        parts = 1
        while intake.take_part(index):
            parts += 1
        assert (parts, len(index), index.info().quick) == (3, 8, 8)
        assert (intake.done.documents, intake.done.added, len(intake.done.problems)) == (8, 8, 1)
        assert (counter.expected, counter.done) == ([8], 8)
        assert index.sync().unchanged == 8
        index.deepen()
        assert index.search("note 5 oven")[0].id == "notes/5.md"


class Files:
    """Counts files."""

    def __init__(self) -> None:
        self.expected: list[int] = []
        self.done = 0

    def expect(self, total: int | None) -> None:
        raise AssertionError

    def advance(self, count: int) -> None:
        raise AssertionError

    def expect_files(self, files: int, size: int) -> None:
        self.expected.append(files)

    def advance_files(self, files: int, size: int) -> None:
        self.done += files


class Documents(Files):
    """Counts documents."""

    def advance(self, count: int) -> None:
        self.done += count


def test_nothing_is_lost_when_deepening_and_adding_are_killed() -> None:
    script = Path(__file__).with_name("kill_deepen.py")
    done = subprocess.run([sys.executable, script, "--kills", "4"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 kills" in done.stdout
