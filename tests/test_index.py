"""Index: what is put in comes out, a failed add leaves nothing behind, and wrong folders are told apart."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import denslice
from denslice import Doc, Index, IndexFormatError, InputError, Query, open_index

few = settings(max_examples=20, deadline=None)

DOCS = [
    Doc("wings", "Wings lift the aircraft.", "Flight", {"year": 1958, "tags": ["air", "lift"]}),
    Doc("boats", "Boats float on water; water carries boats."),
    Doc("planes", "An aircraft needs wings, and the wings need air."),
    Doc("cooks", "Cooks boil water."),
]
STRANGE = [
    Doc(
        "emoji 🛩️",
        "🛩️ flies 🎈\U0001f9d1\u200d\U0001f373",
        "🎈",
        {"mood": "🎉", "ключ": ["значение", None, 1.5, {"a": True}]},
    ),
    Doc("שלום", "שלום עולם", "مرحبا بالعالم", {}),
    Doc("lines", "one\ntwo\r\nthree\ttab\x00nul\u2028end", "a\nb", {"text": "in meta", "n": -(10**18)}),
    Doc("空", "全文検索は楽しい", "", {"empty": "", "deep": {"er": [[]]}}),
    Doc("nothing"),
]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add(DOCS)
    return index


def pairs(index: Index, text: str, k: int = 10) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in index.search(text, k)]


def files(folder: Path) -> dict[str, bytes]:
    """Every file below the folder; the lock file, whose contents say who wrote last, only by its name."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): b"" if path.name == "lock" else path.read_bytes() for path in found}


# In and out


def test_search_gives_hits_best_first_with_their_texts(index: Index) -> None:
    hits = index.search("aircraft wings")
    assert [hit.id for hit in hits] == ["planes", "wings"]
    assert hits[0].score > hits[1].score > 0
    assert hits[1].text == "Wings lift the aircraft."
    assert hits[1].title == "Flight"
    assert hits[1].meta == {"year": 1958, "tags": ["air", "lift"]}
    assert (hits[1].lexical, hits[1].dense) == (hits[1].score, 0.0)


def test_titles_are_searched_too(index: Index) -> None:
    assert index.search("flight").ids == ("wings",)


def test_the_score_is_bm25_as_lucene_has_it(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "bm25", options={"language": "none", "k1": 1.0, "b": 0.0})
    index.add([{"id": "1", "text": "red red red fish"}, {"id": "2", "text": "blue fish"}])
    idf = np.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    [(id, score)] = pairs(index, "red")
    assert id == "1"
    assert score == pytest.approx(idf * 3 / (3 + 1), rel=1e-3)


def test_k_larger_than_the_collection_gives_what_there_is(index: Index) -> None:
    assert len(index.search("water aircraft", k=1000)) == 4
    assert len(index.search("water aircraft", k=3)) == 3


def test_a_query_of_unknown_words_finds_nothing(index: Index) -> None:
    assert len(index.search("zebra")) == 0
    assert len(index.search("")) == 0
    assert len(index.search("the and of")) == 0


@pytest.mark.parametrize("text", [None, 5, b"wings"], ids=repr)
def test_a_query_that_is_no_text_is_refused(index: Index, text: Any) -> None:
    with pytest.raises(InputError):
        index.search(text)


def test_an_empty_collection_finds_nothing(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "bm25")
    assert len(index) == 0
    assert list(index.docs()) == []
    assert len(index.search("anything")) == 0
    assert [len(ranking) for ranking in index.search_batch(["a word", "another"])] == [0, 0]
    with pytest.raises(InputError, match="no document 'x'"):
        index.explain("anything", "x")


def test_adding_nothing_adds_nothing(index: Index) -> None:
    before = files(index.path)
    assert index.add([]) == 0
    assert files(index.path) == before


def test_a_collection_of_one_document_is_found(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "bm25")
    assert index.add([{"_id": "only", "contents": "one word"}]) == 1
    assert index.search("words").ids == ("only",)


def test_documents_without_words_are_kept_and_never_found(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "bm25")
    assert index.add([{"id": "1", "text": ""}, {"id": "2", "text": "the"}]) == 2
    assert len(index.search("anything")) == 0
    index.add([{"id": "3", "text": "anything"}])
    assert index.search("anything").ids == ("3",)
    assert [doc.id for doc in index.docs()] == ["1", "2", "3"]


@pytest.mark.parametrize("slicing", ["learned", "stride", "contiguous", "random"])
def test_an_index_opened_again_is_the_same(tmp_path: Path, slicing: str) -> None:
    index = Index.create(tmp_path / "i", "bm25", slicing=slicing, slices=4)
    index.add(DOCS)
    index.add(STRANGE)
    again = open_index(tmp_path / "i")
    assert list(again.docs()) == DOCS + STRANGE
    assert again.info() == index.info()
    for text in ("aircraft wings", "water", "全文検索", "שלום"):
        assert pairs(again, text) == pairs(index, text) != []
        assert again.search(text)[0] == index.search(text)[0]


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
json_values = (
    scalars | st.lists(scalars | st.lists(scalars, max_size=2), max_size=3) | st.dictionaries(st.text(), scalars)
)
documents = st.builds(
    Doc,
    st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda text: text.isprintable() and text.strip()),
    st.text(st.characters(codec="utf-8")),
    st.text(st.characters(codec="utf-8")),
    st.dictionaries(st.text(st.characters(codec="utf-8")), json_values, max_size=3),
)


@few
@given(st.lists(documents, max_size=4, unique_by=lambda doc: doc.id))
def test_any_documents_come_back_as_they_were(docs: list[Doc]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert Index.create(Path(folder) / "i", "bm25").add(docs) == len(docs)
        index = Index.open(Path(folder) / "i")
        assert len(index) == len(docs)
        assert list(index.docs()) == docs


@pytest.mark.parametrize("slicing", ["stride", "learned"])
def test_documents_added_in_several_commits_are_found_as_if_added_in_one(tmp_path: Path, slicing: str) -> None:
    at_once = Index.create(tmp_path / "one", "bm25", slicing=slicing, slices=768)
    at_once.add(DOCS)
    in_turn = Index.create(tmp_path / "many", "bm25", slicing=slicing, slices=768)
    assert [in_turn.add([doc]) for doc in DOCS] == [1, 1, 1, 1]
    for text in ("aircraft wings", "water boats", "flight", "the air needs lift"):
        assert pairs(in_turn, text) == pairs(at_once, text) != []
    assert list(in_turn.docs()) == DOCS
    assert in_turn.info()["segments"] == 4


def test_the_vocabulary_grows_with_each_commit(index: Index) -> None:
    before = index.info()["vocabulary"]
    assert len(index.search("zebra")) == 0
    index.add([{"id": "new", "text": "a zebra in water"}])
    assert index.info()["vocabulary"] == before + 1
    assert index.search("zebra").ids == ("new",)
    assert set(index.search("water").ids) == {"boats", "cooks", "new"}


def test_a_reader_stays_at_the_commit_it_opened(index: Index) -> None:
    reader = open_index(index.path)
    index.add([{"id": "new", "text": "more wings"}])
    assert len(reader) == 4
    assert "new" not in reader.search("wings").ids
    assert "new" in index.search("wings").ids


def test_info_tells_what_the_index_is(index: Index) -> None:
    info = index.info()
    assert info.path == str(index.path)
    assert (info.documents, info.segments, info.generation) == (4, 1, 1)
    assert (info["encoder"], info["slicing"], info["slices"], info["query"]) == ("bm25", None, None, "full")
    assert info["encoder_options"]["k1"] == 0.9
    words = {"wing", "lift", "aircraft", "flight", "boat", "float", "water", "carri", "need", "air", "cook", "boil"}
    assert info["vocabulary"] == len(words)
    assert info["weights"] == 4 + 4 + 4 + 3  # distinct words of each document
    assert 0 < info["bytes"] <= sum(path.stat().st_size for path in index.path.rglob("*") if path.is_file())
    assert json.loads(json.dumps(info.to_dict())) == info.to_dict()


# Many queries


def test_search_batch_is_search_one_by_one(index: Index) -> None:
    texts = ["aircraft wings", "", "water", "zebra", "water", "flight of boats"]
    found = index.search_batch(texts, k=2)
    assert found == [index.search(text, k=2) for text in texts]
    assert [ranking[0].text for ranking in found if ranking] == [
        index.search(t)[0].text for t in texts if index.search(t)
    ]
    assert index.search_batch([]) == []


def test_rank_gives_every_query_its_ranking_in_order(index: Index) -> None:
    texts = ["wings", "water", "zebra"]
    queries = (Query(f"q{i}", texts[i % 3]) for i in range(600))
    rankings = list(index.rank(queries, k=2))
    assert [ranking.query_id for ranking in rankings] == [f"q{i}" for i in range(600)]
    assert [ranking.ids for ranking in rankings] == 200 * [index.search(text, k=2).ids for text in texts]


def test_rank_reads_queries_as_it_goes(index: Index) -> None:
    def endless() -> Iterator[Query]:
        while True:
            yield Query("q", "wings")

    assert next(index.rank(endless())).ids == ("planes", "wings")


# A failed add


def then_fails(error: BaseException) -> Iterator[dict[str, str]]:
    yield {"id": "new", "text": "brand new words"}
    raise error


BAD_ADDS: list[tuple[str, Any, str]] = [
    ("no id", [{"text": "x"}], "no id"),
    ("fraction as id", [{"id": 5.5, "text": "x"}], "id 5.5 is float, expected a string or a whole number"),
    ("true as id of a Doc", [Doc(True, "x")], "id True is bool, expected a string"),  # type: ignore[arg-type]
    ("empty id", [{"id": " ", "text": "x"}], "the id is empty"),
    ("empty id of a Doc", [Doc("", "x")], "the id is empty"),
    ("id with a line break", [{"id": "a\nb", "text": "x"}], "cannot be printed"),
    ("half a surrogate pair in an id", [{"id": "\ud800", "text": "x"}], "cannot be printed"),
    ("text that is none", [{"id": "a", "text": 5}], "text is int, expected a string"),
    ("text of a Doc that is none", [Doc("a", None)], "text"),  # type: ignore[arg-type]
    ("half a surrogate pair in a text", [{"id": "a", "text": "word \ud800"}], "surrogate"),
    ("half a surrogate pair in a title", [{"id": "a", "title": "\udfff"}], "surrogate"),
    ("half a surrogate pair in metadata", [{"id": "a", "text": "x", "author": "\ud800"}], "surrogate"),
    ("half a surrogate pair in a name", [{"id": "a", "text": "x", "\ud800": 1}], "surrogate"),
    ("NaN in metadata", [{"id": "a", "text": "x", "size": float("nan")}], "field 'size' is nan"),
    ("object in metadata", [{"id": "a", "text": "x", "size": object()}], "field 'size' is object"),
    ("metadata that is none", [{"id": "a", "metadata": [1]}], "metadata is list, expected an object"),
    ("id twice", [{"id": "a", "text": "x"}, {"id": "b", "text": "x"}, {"id": "a", "text": "y"}], "'a' is given twice"),
    ("texts", ["just a text"], "document"),
    ("one document", {"id": "a", "text": "x"}, "document"),
]
bad_adds = pytest.mark.parametrize(
    ("docs", "told"), [(d, t) for _, d, t in BAD_ADDS], ids=[name for name, *_ in BAD_ADDS]
)


@bad_adds
def test_a_bad_document_is_told_and_leaves_every_file_as_it_was(index: Index, docs: Any, told: str) -> None:
    before = files(index.path)
    with pytest.raises(InputError, match=told):
        index.add([{"id": "fine", "text": "fine new words"}, *docs] if isinstance(docs, list) else docs)
    assert files(index.path) == before
    assert len(index) == 4
    index.add([{"id": "fine", "text": "fine new words"}])
    assert index.search("fine").ids == ("fine",)


def test_a_bad_first_add_leaves_an_empty_index(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "bm25")
    index.add([])  # makes the lock file
    before = files(index.path)
    with pytest.raises(InputError, match="which JSON cannot hold"):
        index.add([{"id": "a", "text": "some words"}, {"id": "b", "text": "x", "size": float("inf")}])
    assert files(index.path) == before
    assert len(index) == 0


@pytest.mark.parametrize("error", [ValueError("the source broke"), KeyboardInterrupt()], ids=repr)
def test_a_source_that_fails_midway_leaves_every_file_as_it_was(index: Index, error: BaseException) -> None:
    before = files(index.path)
    with pytest.raises(type(error)) as caught:
        index.add(then_fails(error))
    assert caught.value is error
    assert files(index.path) == before
    assert len(index) == 4


def test_an_add_that_fails_after_whole_segments_leaves_every_file_as_it_was(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("denslice.encoders.bm25.Bm25.batch_docs", 2)
    monkeypatch.setattr("denslice.store.tiers.SEGMENT_DOCS", 2)
    docs = [{"id": f"new {i}", "text": f"new words {i:03}"} for i in range(7)]
    before = files(index.path)
    with pytest.raises(InputError, match="'new 0' is given twice"):
        index.add([*docs, docs[0]])
    assert files(index.path) == before
    assert index.add(docs) == 7
    assert index.info()["segments"] == 5


@pytest.mark.parametrize("ids", [["a", "a"], ["a", 5.5], ["a", ""], ["a"], ["a", "b", "c"]], ids=str)
def test_bad_ids_of_ready_vectors_leave_every_file_as_it_was(tmp_path: Path, ids: list[Any]) -> None:
    index = Index.create(tmp_path / "i", "vectors", vocab=2)
    index.add_vectors(["first"], np.eye(2)[:1])
    before = files(index.path)
    with pytest.raises(InputError):
        index.add_vectors(ids, np.eye(2))
    assert files(index.path) == before


@pytest.mark.parametrize("texts", [["one"], ["one", 2], ["one", None], ["one", "\ud800"]], ids=ascii)
def test_bad_texts_of_ready_vectors_are_refused(tmp_path: Path, texts: list[Any]) -> None:
    index = Index.create(tmp_path / "i", "vectors", vocab=2)
    with pytest.raises(InputError):
        index.add_vectors(["a", "b"], np.eye(2), texts)
    assert len(index) == 0


# Ready vectors


def test_ready_vectors_keep_their_texts(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "vectors", vocab=3)
    assert index.add_vectors(["a", "b"], np.array([[1, 0, 2], [0, 3, 0]]), texts=["first", "second"]) == 2
    hit = index.search_vectors([[0, 1, 0]])[0]
    assert (hit.id, hit.score, hit.text) == ("b", 3.0, "second")


def test_ready_vectors_may_bring_their_own_words(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "vectors")
    index.add([{"id": "a", "vector": {"cat": 2}}])
    index.add([{"id": "b", "vector": {"dog": 1, "cat": 1}}])
    (ranking,) = index.rank([Query("q", vector={"cat": 1, "dog": 3, "never seen": 9})])
    assert (ranking.ids, ranking.scores) == (("b", "a"), (4.0, 2.0))


def test_an_index_of_vectors_takes_no_texts_and_one_of_texts_no_vectors(tmp_path: Path, index: Index) -> None:
    vectors = Index.create(tmp_path / "v", "vectors", vocab=2)
    with pytest.raises(InputError, match="a query must be a vector too"):
        vectors.search("text")
    with pytest.raises(InputError, match="document 'a' has no vector"):
        vectors.add([{"id": "a", "text": "text"}])
    with pytest.raises(InputError, match="takes no ready vectors"):
        index.add_vectors(["a"], np.eye(2)[:1])
    with pytest.raises(InputError, match="takes no ready vectors"):
        index.search_vectors(np.eye(2)[:1])


# Making and opening


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"encoder": "word2vec"}, "unknown encoder 'word2vec': it is none of mini"),
        ({"slicing": "zigzag"}, "slicing must be one of stride, contiguous, random, learned, not 'zigzag'"),
        ({"slices": 0}, "slices must be a whole number of at least 1"),
        ({"slices": 1.5}, "slices must be a whole number of at least 1"),
        ({"query": "half"}, "query must be one of full, sliced, not 'half'"),
        ({"slicing": "stride"}, "slicing stride needs a number of slices; give slices too"),
        ({"query": "sliced"}, "query sliced needs a number of slices; give slices too"),
        ({"skip": -1}, "skip must be a whole number of at least 0"),
        ({"encoder": "vectors", "vocab": 5, "skip": 6}, "skip must lie between 0 and"),
        ({"encoder": "vectors", "vocab": 0}, "vocab must be a whole number of at least 1, not 0"),
        ({"vocab": 10}, "bm25 has no setting vocab"),
        ({"options": {"k2": 1}}, "bm25 has no setting k2"),
    ],
    ids=str,
)
def test_an_index_with_settings_that_make_no_sense_is_not_made(tmp_path: Path, settings: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Index.create(tmp_path / "i", **{"encoder": "bm25", **settings})
    assert not (tmp_path / "i").exists()


def test_an_index_is_not_made_over_another(index: Index) -> None:
    before = files(index.path)
    with pytest.raises(InputError, match="an index is already there"):
        Index.create(index.path, "bm25")
    assert files(index.path) == before


def test_an_index_is_not_made_in_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="the folder is not empty"):
        Index.create(tmp_path, "bm25")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(InputError, match="cannot make an index here"):
        Index.create(tmp_path / "letter.txt", "bm25")


def test_an_index_is_made_in_an_empty_folder_or_a_new_one_of_any_depth(tmp_path: Path) -> None:
    assert len(Index.create(tmp_path, "bm25")) == 0
    assert len(Index.create(str(tmp_path / "a" / "b" / "c"), "bm25")) == 0


def test_opening_what_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such index"):
        open_index(tmp_path / "nowhere")


def test_opening_a_file_or_another_folder_says_it_is_no_index(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(IndexFormatError, match="not an index, which is a folder"):
        open_index(tmp_path / "letter.txt")
    with pytest.raises(IndexFormatError, match=r"not an index \(no manifest.json in it\)"):
        open_index(tmp_path)


def test_an_index_of_a_later_format_asks_for_an_upgrade(index: Index) -> None:
    manifest = index.path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_bytes()), "format": 99}))
    with pytest.raises(IndexFormatError, match="index format 99, this version reads format 3; upgrade denslice"):
        open_index(index.path)


def test_an_index_of_an_earlier_format_asks_to_be_built_again(index: Index) -> None:
    manifest = index.path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_bytes()), "format": 1}))
    with pytest.raises(IndexFormatError, match="index format 1, this version reads format 3; make the index again"):
        open_index(index.path)


@pytest.mark.parametrize(
    "contents",
    ["", "{", "[]", "{}", '{"format": "3"}', '{"format": 3}', '{"format": 3, "index": {}, "checksum": "x"}'],
)
def test_a_damaged_manifest_is_told(index: Index, contents: str) -> None:
    (index.path / "manifest.json").write_text(contents)
    with pytest.raises(IndexFormatError, match=r"manifest\.json.*damaged"):
        open_index(index.path)


def test_a_manifest_changed_in_one_digit_is_told(index: Index) -> None:
    manifest = index.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(IndexFormatError, match="contents differ from what was written"):
        open_index(index.path)


def stored_files(index: Index) -> list[Path]:
    """Every file the last commit relies on, but for the manifest."""
    found = [path for path in index.path.rglob("*") if path.is_file() and path.stat().st_size]
    return [path for path in found if path.name not in ("manifest.json", "lock", "lock.next")]


def test_verify_passes_over_an_index_that_is_whole(index: Index) -> None:
    index.verify()
    open_index(index.path).verify()


def test_verify_names_any_file_with_one_byte_changed(index: Index) -> None:
    index.delete(["boats"])
    paths = stored_files(index)
    assert {path.relative_to(index.path).parts[0] for path in paths} == {"deletions", "segments", "vocabulary"}
    for path in paths:
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(IndexFormatError, match=path.name):
            open_index(index.path).verify()
        path.write_bytes(whole)
    index.verify()


@pytest.mark.parametrize(
    "damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-1])], ids=["lost", "cut"]
)
def test_an_index_with_a_file_lost_or_cut_short_does_not_open(index: Index, damage: Any) -> None:
    for path in stored_files(index):
        whole = path.read_bytes()
        damage(path)
        with pytest.raises(IndexFormatError, match=path.name):
            open_index(index.path)
        path.write_bytes(whole)
    assert len(open_index(index.path)) == 4


# The front door


def test_the_public_names_are_these() -> None:
    assert sorted(denslice.__all__) == [
        "AsyncClient",
        "AsyncIndex",
        "Clause",
        "Client",
        "DensliceError",
        "DensliceWarning",
        "Doc",
        "Encoded",
        "Explanation",
        "Hit",
        "Index",
        "IndexFormatError",
        "IndexInfo",
        "Indexes",
        "InputError",
        "LockedError",
        "MissingExtraError",
        "MissingShardsError",
        "NotShownError",
        "PartialWriteError",
        "Profile",
        "Query",
        "Ranking",
        "Slices",
        "Slicing",
        "UnavailableError",
        "densify",
        "gip",
        "open_cluster",
        "open_index",
        "open_indexes",
        "profiled",
    ]
    assert all(hasattr(denslice, name) for name in denslice.__all__)


def test_importing_denslice_loads_nothing_that_takes_long() -> None:
    script = "import sys, denslice; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "denslice" in loaded
    assert not {"numba", "llvmlite", "torch", "transformers", "onnxruntime", "asyncio", "httpx"} & set(loaded)
