"""Filters: what each operator means, that tables and definition agree, and that they hold before the top k is taken."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from denslice import DensliceWarning, Doc, Index, InputError, Query, Ranking
from denslice.errors import collected_warnings
from denslice.records import filter_fields
from denslice.search.filter import DEEPEST, matches, parse, passing
from denslice.store.folder import Folder
from denslice.store.manifest import Manifest
from denslice.store.recent_masks import MASKS
from denslice.store.segment import SEGMENTS, Segment
from denslice.store.segment_writer import SegmentWriter, StoredBatch

Meta = Mapping[str, Any]
EVERYTHING = 10**6
DROP = "'; DROP TABLE docs; --"


@pytest.fixture(scope="module", autouse=True)
def _small_segments() -> Iterator[None]:
    """Segments of 100 documents and blocks of 64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("denslice.index.create.Manifest", partial(Manifest, block=64))
        patch.setattr("denslice.index.doc_batches.BATCH", 25)
        patch.setattr("denslice.store.tiers.SEGMENT_DOCS", 100)
        yield


def passes(where: object, meta: Meta) -> bool:
    return matches(parse(where), meta)


def segment_of(folder: Path, metas: Sequence[Meta], filterable: Sequence[str], titles: Sequence[str] = ()) -> Segment:
    """A segment of documents with this metadata, these titles and no words. Their ids are their rows."""
    writer = SegmentWriter(folder / SEGMENTS / "one", 64, filterable)
    none = sp.csr_array((len(metas), 1), dtype=np.float32)
    titled = zip(metas, titles or [""] * len(metas), strict=True)
    docs = [Doc(str(row), title=title, meta=meta) for row, (meta, title) in enumerate(titled)]
    writer.add(StoredBatch(docs, none, none, np.zeros(len(docs), np.int64)))
    return Segment(Folder(folder), writer.finish(), 64)


def pairs(ranking: Ranking) -> list[tuple[str, float]]:
    return list(zip(ranking.ids, ranking.scores, strict=True))


# What a filter means. Each case also goes through the table of a filterable field.

CASES: list[tuple[Meta, dict[str, Any], bool]] = [
    # eq
    ({"a": "en"}, {"a": {"eq": "en"}}, True),
    ({"a": "en"}, {"a": {"eq": "EN"}}, False),
    ({"a": "en"}, {"a": {"eq": "en "}}, False),
    ({"a": ""}, {"a": {"eq": ""}}, True),
    ({"a": 1}, {"a": {"eq": 1}}, True),
    ({"a": 1}, {"a": {"eq": 1.0}}, True),
    ({"a": 1.0}, {"a": {"eq": 1}}, True),
    ({"a": 1}, {"a": {"eq": "1"}}, False),
    ({"a": "1"}, {"a": {"eq": 1}}, False),
    ({"a": 0.1}, {"a": {"eq": 0.1}}, True),
    ({"a": 0.0}, {"a": {"eq": -0.0}}, True),
    ({"a": -0.0}, {"a": {"eq": 0}}, True),
    ({"a": True}, {"a": {"eq": True}}, True),
    ({"a": True}, {"a": {"eq": False}}, False),
    ({"a": True}, {"a": {"eq": 1}}, False),
    ({"a": 1}, {"a": {"eq": True}}, False),
    ({"a": False}, {"a": {"eq": 0}}, False),
    ({"a": 0}, {"a": {"eq": False}}, False),
    ({"a": None}, {"a": {"eq": None}}, True),
    ({"a": None}, {"a": {"eq": 0}}, False),
    ({"a": None}, {"a": {"eq": ""}}, False),
    ({"a": 0}, {"a": {"eq": None}}, False),
    ({"a": {"x": 1}}, {"a": {"eq": {"x": 1.0}}}, True),
    ({"a": {"x": 1}}, {"a": {"eq": {"x": True}}}, False),
    ({"a": {"x": 1}}, {"a": {"eq": {"x": 1, "y": 1}}}, False),
    # eq and lists: any element, or the whole
    ({"a": ["x", "y"]}, {"a": {"eq": "y"}}, True),
    ({"a": ["x", "y"]}, {"a": {"eq": "z"}}, False),
    ({"a": [1, True]}, {"a": {"eq": True}}, True),
    ({"a": [1, 2]}, {"a": {"eq": True}}, False),
    ({"a": [None]}, {"a": {"eq": None}}, True),
    ({"a": []}, {"a": {"eq": None}}, False),
    ({"a": ["x", "y"]}, {"a": {"eq": ["x", "y"]}}, True),
    ({"a": ["x", "y"]}, {"a": {"eq": ["y", "x"]}}, False),
    ({"a": ["x", "y"]}, {"a": {"eq": ["x"]}}, False),
    ({"a": [1, 2]}, {"a": {"eq": [1.0, 2.0]}}, True),
    ({"a": [1]}, {"a": {"eq": [True]}}, False),
    ({"a": "x"}, {"a": {"eq": ["x"]}}, False),
    ({"a": []}, {"a": {"eq": []}}, True),
    ({"a": [[1, 2], 3]}, {"a": {"eq": [1, 2]}}, True),
    ({"a": [[1, 2], 3]}, {"a": {"eq": 1}}, False),
    # ne is the opposite of eq
    ({"a": "en"}, {"a": {"ne": "en"}}, False),
    ({"a": "en"}, {"a": {"ne": "de"}}, True),
    ({"a": 1}, {"a": {"ne": True}}, True),
    ({"a": ["x", "y"]}, {"a": {"ne": "y"}}, False),
    ({"a": ["x", "y"]}, {"a": {"ne": ["x", "y"]}}, False),
    ({"a": ["x", "y"]}, {"a": {"ne": "z"}}, True),
    # in
    ({"a": "en"}, {"a": {"in": ["de", "en"]}}, True),
    ({"a": "en"}, {"a": {"in": ["de", "fr"]}}, False),
    ({"a": "en"}, {"a": {"in": []}}, False),
    ({"a": 1}, {"a": {"in": [True, "1", 1.0]}}, True),
    ({"a": 1}, {"a": {"in": [True, "1", None]}}, False),
    ({"a": None}, {"a": {"in": [None]}}, True),
    ({"a": ["x", "y"]}, {"a": {"in": ["y", "z"]}}, True),
    ({"a": ["x", "y"]}, {"a": {"in": ["z", "w"]}}, False),
    ({"a": ["x", "y"]}, {"a": {"in": [["x", "y"]]}}, True),
    # order, between numbers or between strings
    ({"a": 2020}, {"a": {"gt": 2020}}, False),
    ({"a": 2020}, {"a": {"gte": 2020}}, True),
    ({"a": 2020}, {"a": {"lt": 2020}}, False),
    ({"a": 2020}, {"a": {"lte": 2020}}, True),
    ({"a": 2020.5}, {"a": {"gt": 2020}}, True),
    ({"a": 2020}, {"a": {"lt": 2020.5}}, True),
    ({"a": -5}, {"a": {"lt": 0}}, True),
    ({"a": "2021-05-01"}, {"a": {"gte": "2021"}}, True),
    ({"a": "2020-12-31"}, {"a": {"gte": "2021"}}, False),
    ({"a": "b"}, {"a": {"lt": "a"}}, False),
    ({"a": "Z"}, {"a": {"lt": "a"}}, True),
    ({"a": "\uffff"}, {"a": {"lt": "😀"}}, True),  # by code points, not by UTF-16
    ({"a": "2020"}, {"a": {"gte": 2020}}, False),
    ({"a": 2020}, {"a": {"gte": "2020"}}, False),
    ({"a": 2020}, {"a": {"lt": "2020"}}, False),
    ({"a": True}, {"a": {"gte": 0}}, False),
    ({"a": None}, {"a": {"lte": 0}}, False),
    ({"a": {}}, {"a": {"gte": 0}}, False),
    ({"a": [1, 9]}, {"a": {"gt": 5}}, True),
    ({"a": [1, 9]}, {"a": {"gt": 9}}, False),
    ({"a": ["x", 9]}, {"a": {"gt": 5}}, True),
    ({"a": [[9]]}, {"a": {"gt": 5}}, False),
    ({"a": []}, {"a": {"lt": 5}}, False),
    ({"a": [1, 9]}, {"a": {"gt": 5, "lt": 5}}, True),  # each by an element of its own
    # numbers meet exactly, not as floats
    ({"a": 2**53 + 1}, {"a": {"eq": float(2**53)}}, False),
    ({"a": 2**53 + 1}, {"a": {"gt": float(2**53)}}, True),
    ({"a": float(2**53)}, {"a": {"lt": 2**53 + 1}}, True),
    ({"a": float(2**53)}, {"a": {"eq": 2**53 + 1}}, False),
    ({"a": 2**63 - 1}, {"a": {"lt": float(2**63)}}, True),
    ({"a": 2**63 - 1}, {"a": {"eq": float(2**63)}}, False),
    ({"a": 2**63 - 1}, {"a": {"lt": 2**63}}, True),
    ({"a": -(2**63)}, {"a": {"eq": float(-(2**63))}}, True),
    ({"a": 1e300}, {"a": {"gt": 10**299}}, True),
    ({"a": 1e300}, {"a": {"lt": 10**400}}, True),
    ({"a": 5e-324}, {"a": {"gt": 0}}, True),
    # exists
    ({"a": None}, {"a": {"exists": True}}, True),
    ({"a": []}, {"a": {"exists": True}}, True),
    ({"a": {}}, {"a": {"exists": True}}, True),
    ({"a": 0}, {"a": {"exists": False}}, False),
    ({"b": 0}, {"a": {"exists": True}}, False),
    # a missing field passes only what asks for its absence
    ({}, {"a": {"exists": False}}, True),
    ({}, {"a": {"ne": 1}}, True),
    ({}, {"a": {"ne": None}}, True),
    ({}, {"not": {"a": 1}}, True),
    ({}, {"a": {"eq": None}}, False),
    ({}, {"a": None}, False),
    ({}, {"a": {"in": [None, 1]}}, False),
    ({}, {"a": {"gt": 0}}, False),
    ({}, {"a": {"gte": ""}}, False),
    ({}, {"a": {"lt": 0}}, False),
    ({}, {"a": {"lte": ""}}, False),
    # the short form is eq
    ({"a": "en"}, {"a": "en"}, True),
    ({"a": ["de", "en"]}, {"a": "en"}, True),
    ({"a": ["de", "en"]}, {"a": ["de", "en"]}, True),
    ({"a": None}, {"a": None}, True),
    ({"a": 1}, {"a": True}, False),
    # several conditions, and, or, not
    ({"a": 3, "b": "x"}, {"a": 3, "b": "x"}, True),
    ({"a": 3, "b": "x"}, {"a": 3, "b": "y"}, False),
    ({"a": 3}, {"a": {"gte": 3, "lt": 4, "ne": 5}}, True),
    ({"a": 3}, {"a": {"gte": 3, "lt": 3}}, False),
    ({"a": 3}, {"and": [{"a": {"gt": 1}}, {"a": {"lt": 4}}]}, True),
    ({"a": 3}, {"and": [{"a": {"gt": 1}}, {"a": {"lt": 2}}]}, False),
    ({"a": 3}, {"or": [{"a": 1}, {"a": 3}]}, True),
    ({"a": 3}, {"or": [{"a": 1}, {"a": 2}]}, False),
    ({"a": 3}, {"not": {"a": 3}}, False),
    ({"a": 3}, {"not": {"not": {"a": 3}}}, True),
    ({"a": 3, "b": 1}, {"not": {"a": 3, "b": 2}}, True),
    ({"a": 3, "b": 1}, {"a": 3, "or": [{"b": 2}, {"not": {"b": 2}}]}, True),
    ({"a": 3, "b": 1}, {"a": 4, "or": [{"b": 2}, {"not": {"b": 2}}]}, False),
    ({"a": 3, "b": 1}, {"or": [{"a": 3, "b": 2}, {"b": 2}]}, False),
    ({"a": 3}, {"and": []}, True),
    ({"a": 3}, {"or": []}, False),
    ({"a": 3}, {"not": {"or": []}}, True),
    ({"a": 3}, {"not": {}}, False),
    ({"a": 3}, {}, True),
    ({}, {}, True),
    # strings that are not for SQL
    ({DROP: DROP}, {DROP: DROP}, True),
    ({"a": 'say "hi"'}, {"a": 'say "hi"'}, True),
    ({"a": "x\0y"}, {"a": "x\0y"}, True),
    ({"a": "x\0y"}, {"a": "x"}, False),
    ({"a": "x"}, {"a": "x\0y"}, False),
    ({"a": "x\0y"}, {"a": {"gt": "x"}}, True),
    ({"a": "x\n"}, {"a": "x\n"}, True),
    ({"a": "%"}, {"a": "anything"}, False),
    ({"a": "é"}, {"a": "e\u0301"}, False),
    ({"a": "x"}, {"a": "\ud800"}, False),
]


@pytest.mark.parametrize(("meta", "where", "expected"), CASES)
def test_a_filter_means_what_the_page_says(meta: Meta, where: dict[str, Any], expected: bool) -> None:
    assert passes(where, meta) is expected


def test_the_tables_of_filterable_fields_say_the_same(tmp_path: Path) -> None:
    metas = [meta for meta, _, _ in CASES]
    segment = segment_of(tmp_path / "segment", metas, ("a", "b", DROP))
    for row, (_, where, expected) in enumerate(CASES):
        assert bool(passing(parse(where), segment, ("a", "b", DROP))[row]) is expected, where


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"a": {"equals": 1}}, "unknown operator 'equals' for 'a'.*known: eq, ne, in"),
        ({"a": {"$gt": 1}}, "unknown operator '\\$gt'"),
        ({"a": {"eq": 1, "GT": 1}}, "unknown operator 'GT'"),
        ({"a": {1: 1}}, "unknown operator 1"),
        ({"a": {"in": "en"}}, "\"in\" for 'a' in where takes a list, not str"),
        ({"a": {"in": 1}}, "takes a list, not int"),
        ({"a": {"in": {"x": 1}}}, "takes a list, not dict"),
        ({"a": {"exists": 1}}, "\"exists\" for 'a' in where takes true or false, not 1"),
        ({"a": {"exists": None}}, "takes true or false, not None"),
        ({"a": {"gt": True}}, "\"gt\" for 'a' in where takes a number or a string, not True"),
        ({"a": {"gte": None}}, "takes a number or a string, not None"),
        ({"a": {"lt": [1]}}, "takes a number or a string"),
        ({"a": {"lte": {}}}, "takes a number or a string"),
        ({"and": {"a": 1}}, '"and" in where takes a list of conditions, not dict'),
        ({"or": "a"}, '"or" in where takes a list of conditions, not str'),
        ({"or": [{"a": 1}, "b"]}, "where is str, expected an object"),
        ({"not": [{"a": 1}]}, "where is list, expected an object"),
        ({1: 2}, "field 1 in where is not a string"),
        ({None: 2}, "field None in where is not a string"),
        ([], "where is list, expected an object such as"),
        ("year > 2020", "where is str, expected an object"),
        (True, "where is bool, expected an object"),
    ],
)
def test_a_filter_that_cannot_be_understood_is_told_in_full(where: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse(where)


NOT_FINITE = [float("nan"), float("inf"), float("-inf"), np.float32("nan"), np.float64("inf")]


@pytest.mark.parametrize("value", NOT_FINITE, ids=repr)
@pytest.mark.parametrize(
    "around",
    [
        lambda value: value,
        *(lambda value, operator=operator: {operator: value} for operator in ("eq", "ne", "gt", "gte", "lt", "lte")),
        lambda value: {"in": [1, value]},
        lambda value: {"eq": [1, [value]]},
        lambda value: {"ne": {"deep": value}},
    ],
)
def test_nan_and_infinity_are_no_operands(around: Any, value: Any) -> None:
    for where in ({"a": around(value)}, {"or": [{"b": 1}, {"not": {"a": around(value)}}]}):
        with pytest.raises(InputError, match=r"for 'a' in where.* is -?(nan|inf), which JSON cannot hold"):
            parse(where)


def test_an_operand_that_is_no_json_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for operand, told in (({1}, "is set"), (b"x", "is bytes"), (timedelta(1), "is timedelta"), (circle, "too deeply")):
        with pytest.raises(
            InputError, match=f"\"eq\" for 'a' in where {told}|\"eq\" for 'a' in where is nested {told}"
        ):
            parse({"a": {"eq": operand}})


@pytest.mark.parametrize("filterable", [(), ("day", "n")], ids=["documents", "tables"])
def test_dates_and_numpys_scalars_are_compared_as_they_are_stored(tmp_path: Path, filterable: Sequence[str]) -> None:
    index = Index.create(tmp_path / "index", "bm25", filterable=filterable)
    days = [date(2021, 5, 1), datetime(2021, 5, 2, 12), np.datetime64("2021-05-03"), "2021-05-04"]
    index.add([{"id": n, "text": "ant", "day": day, "n": np.int64(n)} for n, day in enumerate(days)])
    for where, ids in (
        ({"day": {"gte": date(2021, 5, 2)}}, "123"),
        ({"day": {"lt": datetime(2021, 5, 2, 12, 30)}}, "01"),
        ({"day": np.datetime64("2021-05-03T00:00")}, ""),
        ({"day": {"in": [date(2021, 5, 1), date(2021, 5, 4)]}}, "03"),
        ({"n": {"gt": np.float32(1.5)}}, "23"),
        ({"n": np.int8(2)}, "2"),
    ):
        assert index.search("ant", where=where).ids == tuple(ids), where


def test_a_filter_reaches_the_id_and_the_title(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "index", "bm25")
    index.add([
        {"id": "a", "title": "Ants", "text": "ant", "metadata": {"id": "z", "title": "lost to its own"}},
        {"id": "b", "text": "ant", "metadata": {"title": "of the metadata"}},
        {"id": "7", "text": "ant"},
    ])  # fmt: skip
    for where, ids in (
        ({"id": "a"}, ("a",)),
        ({"id": "z"}, ()),
        ({"id": 7}, ("7",)),
        ({"id": {"in": ["b", 7, "unknown"]}}, ("7", "b")),
        ({"id": {"gt": "7"}}, ("a", "b")),
        ({"not": {"id": "a"}}, ("7", "b")),
        ({"title": "Ants"}, ("a",)),
        ({"title": "lost to its own"}, ()),
        ({"title": "of the metadata"}, ("b",)),
        ({"title": {"exists": False}}, ("7",)),
    ):
        assert index.search("ant", where=where).ids == ids, where
    assert index.get("a") == Doc("a", "ant", "Ants", {"id": "z", "title": "lost to its own"})


@pytest.mark.parametrize("filterable", [(), ("year",)], ids=["documents", "tables"])
def test_a_filter_on_a_field_that_no_document_has_warns_when_it_finds_nothing(
    tmp_path: Path, filterable: Sequence[str]
) -> None:
    index = Index.create(tmp_path / "index", "bm25", filterable=filterable)
    assert index.search("ant", where={"yeer": 2020}).ids == ()  # nobody has anything yet
    index.add([{"id": "1", "text": "ant", "year": None, "a.b": 1}])
    with pytest.warns(DensliceWarning, match="no document has the field 'yeer', which where names") as caught:
        assert index.search("ant", where={"yeer": 2020}).ids == ()
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
    for field in ("lang", "title", "a", "y\0ear", "\ud800"):
        with pytest.warns(DensliceWarning, match="no document has the field"):
            list(index.rank([Query("q", "ant")], where={"or": [{"year": 1}, {field: 1}]}))
    for where in ({"year": 2020}, {"a.b": 2}, {"id": "2"}, {"not": {"year": {"exists": True}}}):
        assert index.search("ant", where=where).ids == ()
    assert index.search("ant", where={"yeer": {"ne": 2020}}).ids == ("1",)


def test_warnings_can_be_collected_instead(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "index", "bm25")
    index.add([{"id": "1", "text": "ant"}])
    with collected_warnings() as told:
        index.search_batch(["ant", "bee"], where={"or": [{"year": 1}, {"lang": "en"}]})
    assert told == [f"no document has the field '{field}', which where names" for field in ("lang", "year")]


@pytest.mark.parametrize("join", ["and", "or", "not"])
def test_filters_nest_down_to_a_limit(join: str) -> None:
    def nested(levels: int) -> dict[str, Any]:
        where: dict[str, Any] = {"a": 1}
        for _ in range(levels):
            where = {join: where if join == "not" else [where]}
        return where

    assert passes(nested(DEEPEST), {"a": 1}) is True
    for levels in (DEEPEST + 1, 5_000):
        with pytest.raises(InputError, match=f"nested deeper than {DEEPEST} levels"):
            parse(nested(levels))


# The important law: whatever the metadata, the filter and the fields in tables, rows pass as the definition says.

FIELDS = ("a", "year", DROP)
TEXTS = (
    "", "a", "A", "b", "ab", "a b", "a\0", "a\0b", "a\nb", "\t", "it's", '"', DROP, "1", "1.0", "null", "true", "é",
    "e\u0301", "ß", "İ", "日本", "\uffff", "\U00010000", "😀", "\u200b", "\x7f", "%", "_", "?", "a\\",
)  # fmt: skip
INTS = (0, 1, -1, 2, 10, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**62 + 1, 2**63 - 1, 2**63 - 512, -(2**63), 1 - 2**63)
BEYOND = (2**63, -(2**63) - 1, 2**64, 10**30, -(10**400))  # what 64 bits cannot hold
FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.1, 1.5, 2.0**31, 2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, -(2.0**63), 2.0**64, 1e30, 1e300,
    -1.7e308, 5e-324, -5e-324, 2.2250738585072014e-308,
)  # fmt: skip
STORED_NUMBERS = (
    st.sampled_from(INTS)
    | st.sampled_from(FLOATS)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
SCALARS = st.none() | st.booleans() | STORED_NUMBERS | st.sampled_from(TEXTS) | st.text(max_size=4)
VALUES = (
    SCALARS
    | st.lists(SCALARS, max_size=3)
    | st.lists(st.lists(SCALARS, max_size=2) | SCALARS, max_size=2)
    | st.dictionaries(st.sampled_from("xy"), SCALARS, max_size=2)
)
OWN = ("id", "title")
METAS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys((*FIELDS, *OWN), VALUES) | {"big": VALUES | st.sampled_from(BEYOND)}
)
NUMBERS = STORED_NUMBERS | st.sampled_from(BEYOND)
OPERANDS = VALUES | NUMBERS | st.just("\ud800")
ORDERED = NUMBERS | st.sampled_from((*TEXTS, "\ud800")) | st.text(max_size=4)
CONDITIONS = st.one_of(
    st.fixed_dictionaries({"eq": OPERANDS}),
    st.fixed_dictionaries({"ne": OPERANDS}),
    st.fixed_dictionaries({"in": st.lists(OPERANDS, max_size=3)}),
    st.fixed_dictionaries({"exists": st.booleans()}),
    st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), ORDERED, min_size=1, max_size=2),
    OPERANDS.filter(lambda operand: not isinstance(operand, dict)),
)
ONE_FIELD = st.dictionaries(st.sampled_from((*FIELDS, *OWN, "big", "absent", "\ud800")), CONDITIONS, max_size=2)
WHERES = st.recursive(
    ONE_FIELD,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"and": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"or": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
        st.builds(lambda plain, other: plain | {"or": [other]}, ONE_FIELD, inner),
        st.builds(lambda plain, other: plain | {"not": other}, ONE_FIELD, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=80, deadline=None)
@given(st.lists(METAS, min_size=1, max_size=12), st.lists(WHERES, min_size=1, max_size=8))
@example([{"a": value} for value in (*INTS, *FLOATS)], [{"a": {"lt": value}} for value in (*INTS, *FLOATS, *BEYOND)])
@example([{"a": value} for value in (*INTS, *FLOATS)], [{"a": {"gte": value}} for value in (*INTS, *FLOATS, *BEYOND)])
@example([{"a": value} for value in (*INTS, *FLOATS)], [{"a": value} for value in (*INTS, *FLOATS, *BEYOND)])
@example([{"a": value} for value in TEXTS], [{"a": {"gt": value}} for value in TEXTS])
@example([{"a": value} for value in TEXTS], [{"a": {"in": [value, 1]}} for value in TEXTS])
@example(
    [{}] * 12, [{"id": {operator: id}} for operator in ("eq", "ne", "gt", "gte", "lt", "lte") for id in ("1", "10")]
)
@example([{}] * 12, [{"id": 3}, {"id": {"ne": 3}}, {"id": {"in": [3, "4", None]}}, {"not": {"id": {"exists": False}}}])
def test_rows_pass_as_the_definition_says_whichever_fields_have_tables(
    metas: list[Meta], wheres: list[dict[str, Any]]
) -> None:
    titles = [("", "a", "1", "ab")[row % 4] for row in range(len(metas))]
    fields = [filter_fields(str(row), titles[row], meta) for row, meta in enumerate(metas)]
    for filterable in ((), FIELDS[:1], FIELDS, OWN):
        with tempfile.TemporaryDirectory() as folder:
            segment = segment_of(Path(folder, "segment"), metas, filterable, titles)
            for where in wheres:
                parsed = parse(where)
                expected = [matches(parsed, one) for one in fields]
                assert passing(parsed, segment, filterable).astype(bool).tolist() == expected, where


def test_a_condition_on_a_filterable_field_reads_no_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [{"year": year, "lang": "en"} for year in range(10)]
    segment = segment_of(tmp_path / "segment", metas, ("year",))
    read: list[int] = []
    fields = segment.documents.fields

    def counted(rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        read.extend(rows)
        return fields(rows)

    monkeypatch.setattr(segment.documents, "fields", counted)
    assert passing(parse({"year": {"gte": 7}}), segment, ("year",)).tolist() == [0] * 7 + [1] * 3
    assert passing(parse({"id": {"in": [7, "9"]}}), segment, ()).tolist() == [0] * 7 + [1, 0, 1]
    assert read == []
    assert passing(parse({"lang": "en", "year": {"gte": 7}}), segment, ("year",)).tolist() == [0] * 7 + [1] * 3
    assert read == [7, 8, 9]  # only what the table left over
    again = passing(parse({"lang": "en", "year": {"gte": 7}}), segment, ("year",))
    again[:] = 1  # another search may change its mask
    assert passing(parse({"lang": "en", "year": {"gte": 7}}), segment, ("year",)).tolist() == [0] * 7 + [1] * 3
    assert read == [7, 8, 9]  # the filter was remembered
    for number in range(MASKS):
        passing(parse({"lang": f"en{number}", "year": {"gte": 7}}), segment, ("year",))
    passing(parse({"lang": "en", "year": {"gte": 7}}), segment, ("year",))
    assert read == [7, 8, 9] * (2 + MASKS)  # and is forgotten after so many others


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, [1, 2**64]])
def test_a_filterable_field_refuses_numbers_beyond_64_bits_and_others_keep_them(tmp_path: Path, value: Any) -> None:
    index = Index.create(tmp_path / "index", "bm25", filterable=["size"])
    index.add([{"id": "1", "text": "ant", "other": value}])
    with pytest.raises(InputError, match="does not fit 64 bits"):
        index.add([{"id": "2", "text": "ant", "size": value}])
    assert [hit.meta for hit in index.search("ant", where={"other": value})] == [{"other": value}]


def test_a_tuple_in_metadata_is_the_list_it_becomes(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "index", "bm25", filterable=["tags"])
    index.add([Doc("1", "ant", meta={"tags": ("x", "y"), "more": ("x", "y")}), Doc("2", "ant")])
    assert index.search("ant", where={"tags": "x"}).ids == index.search("ant", where={"more": "x"}).ids == ("1",)


@pytest.mark.parametrize("filterable", ["year", [1], [None], ["\ud800"]])
def test_filterable_takes_a_list_of_field_names(tmp_path: Path, filterable: Any) -> None:
    with pytest.raises(InputError, match="filterable"):
        Index.create(tmp_path / "index", "bm25", filterable=filterable)
    assert not (tmp_path / "index" / "manifest.json").exists()


# In search: before the top k is taken, with the scores of the whole collection


def test_the_best_documents_that_pass_are_found_however_many_better_ones_do_not(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "index", "bm25", filterable=["lang"])
    index.add([{"id": f"en{n}", "text": "ant ant ant", "lang": "en"} for n in range(120)])
    index.add([{"id": f"de{n}", "text": "ant " + "bee " * n, "lang": "de", "year": n} for n in range(1, 4)])
    everything = dict(pairs(index.search("ant", EVERYTHING)))
    for where in ({"lang": "de"}, {"year": {"exists": True}}):
        for k in (1, 2, 3, 10):
            found = index.search("ant", k, where=where)
            assert found.ids == ("de1", "de2", "de3")[:k]
            assert dict(pairs(found)) == {id: everything[id] for id in found.ids}
    assert index.search("ant", where={"lang": "fr"}).ids == ()
    assert index.search("bee", where={"lang": "en"}).ids == ()


def test_a_filter_holds_before_candidates_are_counted(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "index", "bm25")
    text = "ant ant ant ant ant " + " ".join(f"word{n}" for n in range(20))  # more words than stage one takes
    index.add([{"id": f"en{n}", "text": text, "lang": "en"} for n in range(60)])
    index.add([{"id": "de", "text": "ant and much else that lowers its score", "lang": "de"}])
    assert index.search(text, 1, theta=100.0, candidates=1).ids == ("en0",)
    assert index.search(text, 1, theta=100.0, candidates=1, where={"lang": "de"}).ids == ("de",)


@pytest.mark.parametrize("where", [[], "lang", {"lang": {"like": "e%"}}])
def test_search_refuses_a_bad_filter_even_where_there_is_nothing_to_search(tmp_path: Path, where: Any) -> None:
    index = Index.create(tmp_path / "index", "bm25")
    with pytest.raises(InputError, match="where"):
        index.search("ant", where=where)


WORDS = ("ant", "bee", "cat", "dog", "elk", "fox")


def random_docs(rng: np.random.Generator, ids: Sequence[str]) -> list[dict[str, Any]]:
    pools: dict[str, Sequence[Any]] = {
        "a": (*TEXTS, *INTS, *FLOATS, None, True, False, [], ["a", 1], [True, "b"]),
        "year": (1999, 2020, 2020.0, 2021, "2020", [1999, 2021], None),
        DROP: (DROP, "a", 1, True),
        "big": (*BEYOND, 1, 2**53),
    }
    docs = []
    for id in ids:
        kept = [field for field in pools if rng.random() < 0.7]
        meta = {field: pools[field][int(rng.integers(len(pools[field])))] for field in kept}
        docs.append({"id": id, "text": " ".join(rng.choice(WORDS, rng.integers(1, 9))), **meta})
    return docs


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> list[Index]:
    """The same documents with tables of no, one and three fields; replaced, deleted and merged into a few segments."""
    indexes = []
    for filterable in ((), FIELDS[:1], FIELDS):
        rng = np.random.default_rng(3)
        path = tmp_path_factory.mktemp("lived") / "index"
        index = Index.create(path, "bm25", slices=4, slicing="stride", filterable=filterable)
        index.add(random_docs(rng, [f"d{n}" for n in range(130)]))
        index.merge()
        index.add(random_docs(rng, [f"d{n}" for n in range(120, 270)]))
        index.delete([f"d{n}" for n in range(0, 270, 9)])
        assert index.info()["segments"] > 2
        assert index.info()["deleted"] > 0
        indexes.append(index)
    return indexes


@pytest.mark.filterwarnings("ignore::denslice.DensliceWarning")  # of fields that no document has
@settings(max_examples=60, deadline=None)
@given(WHERES, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.integers(1, 40))
@example({"year": {"gte": 2020}}, ["ant", "fox"], 5)
@example({"not": {"year": 2020}, "a": {"exists": True}}, ["bee"], 10)
def test_a_filtered_search_is_the_unfiltered_one_without_what_does_not_pass(
    lived: list[Index], where: dict[str, Any], words: list[str], k: int
) -> None:
    text, parsed = " ".join(words), parse(where)
    whole = lived[0].search(text, EVERYTHING)
    expected = [(hit.id, hit.score) for hit in whole if matches(parsed, filter_fields(hit.id, hit.title, hit.meta))]
    for index in lived:
        assert pairs(index.search(text, k, where=where)) == expected[:k]
        assert pairs(index.search(text, EVERYTHING, where=where)) == expected


def test_a_run_and_a_batch_are_filtered_like_one_search(lived: list[Index]) -> None:
    where = {"year": {"gte": 2020}}
    texts = ["ant", "bee cat", "fox dog elk"]
    for index in lived:
        alone = [pairs(index.search(text, 7, where=where)) for text in texts]
        assert [pairs(ranking) for ranking in index.search_batch(texts, 7, where=where)] == alone
        assert all(alone)
