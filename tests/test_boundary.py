"""What the Python API takes and what it refuses, and what its errors say."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from denslice import Doc, Index, InputError, Query, Slicing
from denslice.capacity.plan import Need
from denslice.cluster.replicas import ReplicaOptions
from denslice.encoders.bm25 import Bm25Config
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.ready_vectors import VectorsConfig
from denslice.options import SearchOptions
from denslice.scalars import number, python_scalar, whole_number

NOT_NUMBERS = [True, False, np.True_, "5", None, float("nan"), np.float32("nan"), float("inf"), 1j, [5]]
NOT_WHOLE = [*NOT_NUMBERS, 5.0, np.float64(5)]
WHOLE = [5, np.int64(5), np.uint8(5), np.int32(5)]
REAL = [*WHOLE, 5.0, np.float32(5), np.float64(5), np.float16(5)]


@pytest.fixture
def pair(tmp_path: Path) -> Index:
    """Two documents of ready vectors, with dense ones."""
    index = Index.create(tmp_path / "pair.idx", "vectors", vocab=3)
    index.add_vectors(["a", "b"], np.array([[1, 0, 2], [0, 3, 0]]), dense=[[1, 0], [0, 1]])
    return index


@pytest.fixture
def words(tmp_path: Path) -> Index:
    """A BM25 index without documents."""
    return Index.create(tmp_path / "words.idx", "bm25")


# Numbers


@pytest.mark.parametrize("value", WHOLE, ids=repr)
def test_a_whole_number_is_pythons_or_numpys(value: Any) -> None:
    found = whole_number("n", value, 5)
    assert (found, type(found)) == (5, int)


@pytest.mark.parametrize("value", [*NOT_WHOLE, 4], ids=repr)
def test_what_is_not_a_whole_number_or_too_small_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="n must be a whole number of at least 5, not"):
        whole_number("n", value, 5)


@pytest.mark.parametrize("value", REAL, ids=repr)
def test_a_number_is_pythons_or_numpys(value: Any) -> None:
    found = number("x", value, 0)
    assert (found, type(found)) == (5.0, float)


@pytest.mark.parametrize("value", [*NOT_NUMBERS, -0.5], ids=repr)
def test_what_is_not_a_number_or_out_of_range_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="x must be a number of 0 or more, not"):
        number("x", value, 0)


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"least": 0, "above": True}, "a number above 0"),
        ({"least": 0, "most": 1}, "a number from 0 to 1"),
        ({"least": 0, "most": 1, "above": True}, "a number above 0 and at most 1"),
    ],
    ids=str,
)
def test_an_error_tells_the_range_of_a_number(bounds: Any, told: str) -> None:
    with pytest.raises(InputError, match=f"x must be {told}, not 'many'"):
        number("x", "many", **bounds)


COUNTS = [
    (SearchOptions, "k"),
    (lambda **given: SearchOptions(1, **given), "candidates"),
    (ReplicaOptions, "replicas"),
    (VectorsConfig, "vocab"),
    (lambda **given: ModelConfig("splade", **given), "max_length"),
    (lambda **given: ModelConfig("splade", **given), "query_length"),
    (lambda **given: ModelConfig("splade", "cls", **given), "dimensions"),
    (lambda **given: ModelConfig("unicoil", **given), "head_width"),
    (lambda **given: Slicing.stride(**({"vocab": 9, "slices": 2} | given)), "vocab"),
    (lambda **given: Slicing.stride(**({"vocab": 9, "slices": 2} | given)), "slices"),
    (lambda **given: Slicing.stride(9, 2, **given), "skip"),
    (lambda **given: Slicing.random(9, 2, **given), "seed"),
]
AMOUNTS = [
    (lambda **given: SearchOptions(1, **given), "theta"),
    (lambda **given: SearchOptions(1, **given), "lam"),
    (lambda **given: SearchOptions(1, **given), "pruning"),
    (ReplicaOptions, "cpus"),
    (ReplicaOptions, "gpus"),
    (ReplicaOptions, "patience"),
    (ReplicaOptions, "wait"),
    (Bm25Config, "k1"),
    (Bm25Config, "b"),
    (Bm25Config, "phrases"),
    (Bm25Config, "average_length"),
    (lambda **given: ModelConfig("splade", **given), "lam"),
    (lambda **given: Need(**({"docs": 9} | given)), "docs"),
    (lambda **given: Need(9, **given), "latency"),
]
NAMES = [name for _, name in COUNTS + AMOUNTS]


@pytest.mark.parametrize(("make", "name"), COUNTS + AMOUNTS, ids=NAMES)
@pytest.mark.parametrize("value", [True, float("nan"), "1", np.float32("nan")], ids=repr)
def test_no_numeric_option_takes_what_is_not_a_number(make: Any, name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} must be a"):
        make(**{name: value})


@pytest.mark.parametrize(("make", "name"), COUNTS, ids=[name for _, name in COUNTS])
def test_every_count_takes_numpys_whole_numbers_and_no_fractions(make: Any, name: str) -> None:
    made = make(**{name: np.int64(4)})
    assert getattr(made, name, 4) == 4
    with pytest.raises(InputError, match=f"{name} must be a whole number"):
        make(**{name: 4.0})


@pytest.mark.parametrize(("make", "name"), AMOUNTS, ids=[name for _, name in AMOUNTS])
def test_every_amount_takes_numpys_numbers(make: Any, name: str) -> None:
    assert getattr(make(**{name: np.float32(0.5)}), name) == 0.5


def test_an_index_made_with_numpys_numbers_keeps_them(tmp_path: Path) -> None:
    numbers: Any = {"slices": np.int64(2), "skip": np.int32(1), "seed": np.uint8(3), "vocab": np.int64(4)}
    made = Index.create(tmp_path / "my.idx", "vectors", slicing="random", **numbers).info()
    assert {name: made[name] for name in ("slices", "skip", "seed", "vocabulary")} == {
        "slices": 2, "skip": 1, "seed": 3, "vocabulary": 4,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["slices", "skip", "seed", "vocab"])
def test_an_index_is_not_made_with_true_as_a_number(tmp_path: Path, name: str) -> None:
    options: Any = {"vocab": 4} | {name: True}
    with pytest.raises(InputError, match=f"{name} must be a whole number"):
        Index.create(tmp_path / "my.idx", "vectors", **options)
    assert not (tmp_path / "my.idx").exists()


def test_k_may_be_numpys(pair: Index) -> None:
    assert len(pair.search_vectors([[1, 1, 1]], k=np.int64(1))) == 1  # type: ignore[arg-type]


# Vectors


def test_what_could_be_mixed_up_is_given_by_name(pair: Index) -> None:
    call: Any = pair.search_vectors
    with pytest.raises(TypeError):
        call([[1, 1, 1]], 100)
    call = pair.explain_vectors
    with pytest.raises(TypeError):
        call([[1, 1, 1]], "a", [1, 0])


@pytest.mark.parametrize(
    ("dense", "told"),
    [
        (100, "the single number 100"),
        ([[1, 0], [0, 1]], r"shape \(2, 2\), expected \(1, dimensions\)"),
        ("text", "not str"),
        ([1, 0, 0], "the query has 3 dimensions, the index 2"),
        ([1, float("nan")], "NaN, infinite or too large numbers, first in row 0"),
    ],
    ids=str,
)
def test_a_dense_query_vector_that_is_none_is_refused(pair: Index, dense: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        pair.search_vectors([[1, 1, 1]], dense=dense)


def test_a_dense_vector_is_not_ignored_where_documents_have_none(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=2)
    index.add_vectors(["a"], [[1, 1]])
    with pytest.raises(InputError, match="the documents of this index have none"):
        index.search_vectors([[1, 1]], dense=[1, 0])


@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_array], ids=["csr", "coo"])
def test_a_sparse_row_of_one_dimension_is_a_query(pair: Index, kind: Any) -> None:
    row = kind(np.array([0.0, 1.0, 0.0]))
    assert row.ndim == 1
    assert pair.search_vectors(row).ids == ("b",)
    assert pair.explain_vectors(row, "b").score == 3.0
    assert pair.add_vectors(["c"], row, dense=[1, 1]) == 1


@pytest.mark.parametrize(
    "given", [sp.csr_array([[1.0, 0, 0]]), np.ones((1, 3)), "text", Query("1", "x"), {"id": "1"}, 5, None], ids=repr
)
def test_rank_takes_a_list_of_queries_and_says_so_at_once(pair: Index, given: Any) -> None:
    with pytest.raises(InputError, match="rank takes a list of Query"):
        pair.rank(given)


def test_a_query_that_is_none_is_named_by_its_position(words: Index, pair: Index) -> None:
    with pytest.raises(InputError, match="query 1 is str, expected a Query"):
        list(words.rank([Query("a", "text"), "text"]))  # type: ignore[list-item]
    with pytest.raises(InputError, match="query 300 is float, expected a text"):
        words.search_batch(["text"] * 300 + [float("nan")])  # type: ignore[list-item]
    with pytest.raises(InputError, match="vector is list, expected an object"):
        list(pair.rank([Query("q", vector=[1, 2])]))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the weight of token '1' is nan"):
        list(pair.rank([Query("q", vector={"1": float("nan")})]))


@pytest.mark.parametrize("texts", ["text", 5, None], ids=repr)
def test_search_batch_takes_a_list_of_texts(words: Index, texts: Any) -> None:
    with pytest.raises(InputError, match=f"search_batch takes a list of texts, not {type(texts).__name__}"):
        words.search_batch(texts)


def test_ready_vectors_are_searched_in_batches(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    docs, queries = random.random((40, 8)).round(1), random.random((600, 8)).round(1)
    dense, asked = random.normal(size=(40, 3)).round(2), random.normal(size=(600, 3)).round(2)
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=8, slices=4)
    index.add_vectors([str(i) for i in range(40)], docs, dense=dense)
    for how in ({"mode": "lexical"}, {"mode": "dense"}, {"lam": 0.5, "theta": 0.2}):
        found = index.search_vectors_batch(sp.csr_array(queries), dense=asked, k=7, **how)
        alone = [index.search_vectors(q, dense=d, k=7, **how) for q, d in zip(queries, asked, strict=True)]
        assert [(one.ids, one.scores) for one in found] == [(one.ids, one.scores) for one in alone]
    assert index.search_vectors_batch(sp.csr_array((0, 8))) == []
    with pytest.raises(InputError, match="expected one query, found 2; search_vectors_batch takes many"):
        index.search_vectors(queries[:2])


def test_matrices_are_refused_where_tokens_are_words(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "vectors")
    told = "this index was created without vocab="
    with pytest.raises(InputError, match=told):
        index.add_vectors(["a"], np.eye(2)[:1])
    with pytest.raises(InputError, match=told):
        index.search_vectors(np.eye(2)[:1])


def test_an_error_names_the_row_of_a_bad_weight(pair: Index) -> None:
    bad = np.ones((4, 3))
    bad[2, 1] = np.nan
    with pytest.raises(InputError, match="NaN or infinite weights, first in row 2"):
        pair.add_vectors(["1", "2", "3", "4"], bad)
    bad[2, 1] = -1
    with pytest.raises(InputError, match="negative weights, first in row 2"):
        pair.add_vectors(["1", "2", "3", "4"], bad)
    dense = np.ones((4, 2))
    dense[3, 0] = np.inf
    with pytest.raises(InputError, match="first in row 3"):
        pair.add_vectors(["1", "2", "3", "4"], np.ones((4, 3)), dense=dense)


def test_a_ready_vector_may_have_numpys_weights_and_numbers_as_tokens(pair: Index) -> None:
    pair_of = [{"id": "c", "vector": {0: np.float32(2), np.int64(2): 1}}]
    index = Index.create(pair.path.parent / "numbers.idx", "vectors", vocab=3)
    index.add(pair_of)
    assert index.search_vectors([[1, 0, 1]]).scores == (3.0,)
    (ranking,) = index.rank([Query("q", vector={2: np.int64(4)})])  # type: ignore[dict-item]
    assert ranking.scores == (4.0,)


# Ids


@pytest.mark.parametrize("id", [7, np.int64(7), np.uint8(7)], ids=repr)
def test_a_whole_number_is_an_id_by_its_digits(words: Index, id: Any) -> None:
    words.add([{"id": id, "text": "red fox"}])
    assert words.search("fox").ids == ("7",)
    words.add([Doc(id, "blue fox")])
    assert len(words) == 1
    assert (words.get(id), words.get("7")) == (Doc("7", "blue fox"), Doc("7", "blue fox"))
    assert words.explain("fox", id).id == "7"
    assert words.delete([id]) == 1


def test_whole_numbers_are_ids_of_ready_vectors(pair: Index) -> None:
    pair.add_vectors(np.array([3, 4]), np.eye(3)[:2], dense=np.eye(2))  # type: ignore[arg-type]
    assert {doc.id for doc in pair.docs()} == {"a", "b", "3", "4"}
    assert pair.explain_vectors([[1, 0, 0]], 3).score == 1.0


@pytest.mark.parametrize("id", [True, np.False_, 1.0, np.float64(1), b"x", ("a",)], ids=repr)
def test_what_is_neither_string_nor_whole_number_is_no_id(words: Index, id: Any) -> None:
    told = "expected a string or a whole number"
    for call in (
        lambda: words.add([{"id": id, "text": "x"}]),
        lambda: words.add([Doc(id, "x")]),
        lambda: words.delete([id]),
        lambda: words.get(id),
        lambda: words.explain("x", id),
    ):
        with pytest.raises(InputError, match=told):
            call()


def test_a_query_may_have_a_number_as_its_id(words: Index) -> None:
    (ranking,) = words.rank([Query(np.int64(7), "fox")])  # type: ignore[arg-type]
    assert ranking.query_id == "7"


def test_a_number_and_its_digits_are_one_id(words: Index) -> None:
    with pytest.raises(InputError, match="'1' is given twice"):
        words.add([{"id": 1, "text": "x"}, {"id": "1", "text": "y"}])


# Documents that are wrong


def test_one_bad_document_among_many_is_named_by_position_and_id(words: Index) -> None:
    docs: list[Any] = [{"id": f"d{i}", "text": "fox"} for i in range(5_000)]
    docs[4_321]["text"] = float("nan")
    with pytest.raises(InputError, match=r"^document 4321 \(id 'd4321'\): text is float, expected a string$"):
        words.add(docs)
    with pytest.raises(InputError, match=r"^document 4321 \(id 'd4321'\): text is float, expected a string$"):
        words.add(iter(docs))
    assert len(words) == 0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"_id": "x", "title": 5}, r"^document 1 \(id 'x'\): title is int, expected a string$"),
        ({"text": "no id"}, r"^document 1: no id"),
        ({"id": 1.5}, r"^document 1 \(id 1.5\): id 1.5 is float, expected"),
        (Doc("x", None), r"^document 1 \(id 'x'\): text is NoneType"),  # type: ignore[arg-type]
        (Doc("x", meta={"n": float("nan")}), r"^document 1 \(id 'x'\): field 'n' is nan, which JSON cannot hold"),
        ({"id": "x", "n": np.float32("inf")}, r"^document 1 \(id 'x'\): field 'n' is inf"),
        ({"id": "x", "a": {"b": [1, {2}]}}, r"^document 1 \(id 'x'\): field 'a'.b\[1\] is set, which JSON cannot hold"),
        ({"id": "x", "a": {1: 2}}, r"^document 1 \(id 'x'\): field 'a' has a field 1, and the names of fields"),
        ({"id": "x", "when": np.datetime64("NaT")}, r"^document 1 \(id 'x'\): field 'when' is datetime64"),
        ({"id": "x", "took": timedelta(1)}, r"^document 1 \(id 'x'\): field 'took' is timedelta"),
        ({"id": "x", "took": np.timedelta64(1, "s")}, r"^document 1 \(id 'x'\): field 'took' is timedelta64"),
        ({"id": "x", "vector": {"a": float("nan")}}, r"^document 1 \(id 'x'\): the weight of token 'a' is nan"),
        ({"id": "x", "vector": {1.5: 1}}, r"^document 1 \(id 'x'\): token 1.5 is float"),
        ("text", "^document 1: a document is a Doc or a dict, not str$"),
        (None, "^document 1: a document is a Doc or a dict, not NoneType$"),
    ],
    ids=repr,
)
def test_what_is_wrong_with_a_document_is_told_with_its_place(words: Index, wrong: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        words.add([{"id": "first", "text": "x"}, wrong])


def test_metadata_that_holds_itself_is_refused(words: Index) -> None:
    circle: dict[str, Any] = {}
    circle["self"] = circle
    with pytest.raises(InputError, match=r"document 0 \(id 'x'\): metadata is nested deeper than 64 levels"):
        words.add([Doc("x", "fox", meta=circle)])


def test_a_bad_text_of_ready_vectors_is_named_by_position_and_id(pair: Index) -> None:
    ids, texts = [f"d{i}" for i in range(3_000)], ["x"] * 3_000
    texts[2_500] = None  # type: ignore[call-overload]
    with pytest.raises(InputError, match=r"^document 2500 \(id 'd2500'\): text is NoneType, expected a string$"):
        pair.add_vectors(ids, np.ones((3_000, 3)), texts, np.ones((3_000, 2)))


# Metadata


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (np.int64(2021), 2021),
        (np.uint8(3), 3),
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.longdouble(0.5), 0.5),
        (np.True_, True),
        (np.str_("fox"), "fox"),
        (date(2021, 5, 1), "2021-05-01"),
        (datetime(2021, 5, 1, 12, 30), "2021-05-01T12:30:00"),
        (datetime(2021, 5, 1, 12, 30, tzinfo=UTC), "2021-05-01T12:30:00+00:00"),
        (datetime(2021, 5, 1, 1, 0, tzinfo=timezone(timedelta(hours=2))), "2021-04-30T23:00:00+00:00"),
        (np.datetime64("2021-05-01"), "2021-05-01"),
        (np.datetime64("2021-05"), "2021-05-01"),
        (np.datetime64("2021-05-01T12:30"), "2021-05-01T12:30:00"),
        (np.datetime64("2021-05-01T12:30:00.5", "ns"), "2021-05-01T12:30:00.500000"),
        (np.datetime64("2021-05-01T12:30:00.123456789", "ns"), "2021-05-01T12:30:00.123456789"),
        ([np.int64(1), (date(2020, 1, 1), None)], [1, ["2020-01-01", None]]),
        ({"deep": {"n": np.int8(1)}}, {"deep": {"n": 1}}),
    ],
    ids=repr,
)
def test_metadata_is_kept_as_json_holds_it(words: Index, given: Any, kept: Any) -> None:
    words.add([{"id": "1", "text": "fox", "field": given}, Doc("2", "fox", meta={"field": given})])
    for hit in words.search("fox"):
        assert hit.meta == {"field": kept}
        assert type(hit.meta["field"]) is type(kept)


def test_a_document_made_by_hand_writes_numpys_numbers_and_dates_as_json() -> None:
    doc = Doc("1", meta={"n": np.int64(3), "day": date(2021, 5, 1), "list": [np.float32(0.5)]})
    assert doc.meta_json() == '{"day": "2021-05-01", "list": [0.5], "n": 3}'


def test_dates_are_in_the_order_of_time_as_strings() -> None:
    zone = timezone(timedelta(hours=-5))
    rising = [
        datetime(2021, 1, 1, 0, 0, tzinfo=UTC),
        datetime(2020, 12, 31, 19, 30, tzinfo=zone),
        datetime(2021, 1, 1, 1, 0, 0, 1, tzinfo=UTC),
        datetime(2020, 12, 31, 21, 0, tzinfo=zone),
    ]
    told = [python_scalar(moment) for moment in rising]
    assert told == sorted(told)
