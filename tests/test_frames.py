"""Data frames, Arrow tables and datasets become records, and rankings become tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from denslice import Index, InputError, MissingExtraError
from denslice.frames import records_of
from denslice.json_cells import arrow_rows, distinct_names, json_cell
from denslice.rankings import Ranking
from denslice.records import Doc, checked_docs

ROWS = [{"id": 1, "text": "a red fox", "year": 2020}, {"id": 2, "text": "a blue whale"}]


class Streams:
    """A table of a package that is not known, as a relation of duckdb is one."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def dataset(rows: list[dict[str, Any]]) -> Any:
    import datasets

    return datasets.Dataset.from_list(rows)


def rows_of(given: object) -> list[Any]:
    return list(cast(Iterable[Any], records_of(given)))


TABLES: dict[str, Callable[[], object]] = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.LazyFrame(ROWS),
    "arrow": lambda: pa.Table.from_pylist(ROWS),
    "record batch": lambda: pa.RecordBatch.from_pylist(ROWS),
    "record batch reader": lambda: pa.Table.from_pylist(ROWS).to_reader(),
    "arrow stream": lambda: Streams(pa.Table.from_pylist(ROWS)),
    "dataset": lambda: dataset(ROWS),
    "iterable dataset": lambda: dataset(ROWS).to_iterable_dataset(),
    "list": lambda: ROWS,
    "generator": lambda: (row for row in ROWS),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_rows_of_any_table_are_documents(name: str) -> None:
    docs = list(checked_docs(TABLES[name]()))
    assert docs == [Doc("1", "a red fox", meta={"year": 2020}), Doc("2", "a blue whale")]


def test_a_frame_is_added_to_an_index_and_its_ranking_is_a_frame(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    assert index.add(pd.DataFrame(ROWS)) == 2
    found = index.search("fox").to_pandas()
    assert list(found.columns) == ["rank", "id", "score", "lexical", "dense", "title", "text", "year"]
    assert found[["rank", "id", "text", "year"]].to_dict("records") == [
        {"rank": 1, "id": "1", "text": "a red fox", "year": 2020}
    ]


def test_a_dataset_that_was_shuffled_or_selected_keeps_its_order() -> None:
    assert [row["id"] for row in rows_of(dataset(ROWS).select([1, 0]))] == [2, 1]


def test_a_split_dataset_is_not_one_list_of_documents() -> None:
    import datasets

    with pytest.raises(InputError, match="documents come in a list, not as one DatasetDict"):
        list(checked_docs(datasets.DatasetDict({"train": dataset(ROWS)})))


def test_a_column_alone_is_no_table() -> None:
    for column in (pd.Series([1]), pl.Series([1]), pa.chunked_array([[1]])):
        with pytest.raises(InputError, match=f"in a table or a list, not as one {type(column).__name__}"):
            list(checked_docs(column))


# --- pandas


def test_the_index_of_a_frame_is_ignored_unless_it_has_a_name() -> None:
    frame = pd.DataFrame({"text": ["x", "y"]}, index=["a", "b"])
    assert rows_of(frame) == [{"text": "x"}, {"text": "y"}]
    assert rows_of(frame.rename_axis("id")) == [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}]
    assert rows_of(frame.rename_axis("text")) == [{"text": "x"}, {"text": "y"}]


def test_the_levels_of_an_index_are_columns() -> None:
    frame = pd.DataFrame({"book": ["a"], "page": [3], "text": ["x"]}).set_index(["book", "page"])
    assert rows_of(frame) == [{"book": "a", "page": 3, "text": "x"}]


def test_what_a_frame_holds_becomes_json() -> None:
    frame = pd.DataFrame(
        {
            "when": [pd.Timestamp("2020-01-02 03:04")],
            "zone": [pd.Timestamp("2020-01-02 03:04", tz="Europe/Berlin")],
            "took": [pd.Timedelta("90s")],
            "kind": pd.Categorical(["a"]),
            "whole": pd.array([7], dtype="Int64"),
            "half": np.array([0.5], dtype=np.float32),
            "yes": [True],
            "list": [np.array([1, 2])],
            "nested": [{"a": {"b": np.int64(1), "c": None}}],
            "month": [pd.Period("2020-01", "M")],
            5: ["named by a number"],
        }
    )
    assert rows_of(frame) == [
        {
            "when": "2020-01-02T03:04:00",
            "zone": "2020-01-02T02:04:00+00:00",
            "took": 90.0,
            "kind": "a",
            "whole": 7,
            "half": 0.5,
            "yes": True,
            "list": [1, 2],
            "nested": {"a": {"b": 1}},
            "month": "2020-01",
            "5": "named by a number",
        }
    ]


def test_missing_cells_are_left_out() -> None:
    frame = pd.DataFrame(
        {
            "none": [None],
            "nan": [float("nan")],
            "nat": [pd.NaT],
            "na": pd.array([pd.NA], dtype="Int64"),
            "infinite": [float("inf")],
            "bytes": [b"raw"],
            "x": [0],
        }
    )
    assert rows_of(frame) == [{"x": 0}]
    assert rows_of(pl.DataFrame({"nan": [float("nan")], "none": [None], "bytes": [b"raw"], "x": [0]})) == [{"x": 0}]


def test_a_missing_text_is_an_empty_text_and_a_missing_id_an_error() -> None:
    frame = pd.DataFrame({"id": ["1", None], "text": [None, "x"], "author": ["Ann Lee", "Bo Li"]})
    docs = checked_docs(frame)
    assert next(docs) == Doc("1", "", meta={"author": "Ann Lee"})
    with pytest.raises(InputError, match="document 1: no id"):
        next(docs)


def test_columns_of_the_same_name_are_told_apart() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["a", "a", ""])
    assert rows_of(frame) == [{"a": 1, "a 2": 2, "column 3": 3}]
    assert distinct_names(["a", "a 2", "a"]) == ["a", "a 2", "a 3"]


def test_more_rows_than_are_converted_at_once_all_come() -> None:
    frame = pd.DataFrame({"id": range(2_500)})
    expected = [{"id": number} for number in range(2_500)]
    assert rows_of(frame) == rows_of(pa.Table.from_pandas(frame)) == rows_of(pl.from_pandas(frame)) == expected


def test_a_frame_of_pandas_needs_no_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert rows_of(pd.DataFrame({"id": [1], "text": ["x"]})) == [{"id": 1, "text": "x"}]
    assert rows_of(pl.DataFrame({"id": [1], "text": ["x"]})) == [{"id": 1, "text": "x"}]


def test_an_arrow_stream_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Streams(pa.table({"id": [1]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"reading Streams needs .*denslice\[files\]"):
        records_of(table)


def test_importing_denslice_imports_no_package_of_tables() -> None:
    heavy = "{'pandas', 'polars', 'pyarrow', 'datasets'}"
    program = f"import sys, denslice; denslice.records.records_of([{{}}]); assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


# --- cells


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (Decimal("12.50"), 12.5),
        (Decimal("12"), 12),
        (Decimal("1E+400"), None),
        (Decimal("NaN"), None),
        (date(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, tzinfo=UTC), "2020-01-02T03:00:00+00:00"),
        (time(3, 4), "03:04:00"),
        (timedelta(minutes=1), 60.0),
        (np.timedelta64(1500, "ms"), 1.5),
        (np.timedelta64("NaT"), None),
        (np.datetime64("NaT"), None),
        (pd.NA, None),
        (np.float64("nan"), None),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([("a", 1), ("b", None)], {"a": 1}),
        ([float("nan"), 1], [None, 1]),
        ([], []),
    ],
    ids=repr,
)
def test_a_cell_is_what_json_holds(cell: object, expected: object) -> None:
    found = json_cell(cell)
    assert (found, type(found)) == (expected, type(expected))


def test_arrow_cells_become_json() -> None:
    columns = {
        "ns": pa.array([1_577_934_240_000_000_001], pa.timestamp("ns")),
        "far": pa.array([316_500_000_000], pa.timestamp("s")),  # the year 11999, which Python has not
        "took": pa.array([1_500_000_001], pa.duration("ns")),
        "noon": pa.array([43_200_000_000_001], pa.time64("ns")),
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"a": [1, None], "raw": b"x"}]),
        "price": pa.array([Decimal("1.25")]),
        "word": pa.array(["x"]).dictionary_encode(),
        "raw": pa.array([b"x"], pa.large_binary()),
    }
    [row] = arrow_rows(pa.table(columns).to_batches())
    assert row == {
        "ns": "2020-01-02T03:04:00",
        "took": 1.5,
        "noon": "12:00:00",
        "map": {"a": 1},
        "struct": {"a": [1, None]},
        "price": 1.25,
        "word": "x",
    }


# --- documents without a text


def test_a_record_whose_text_has_another_name_is_told_the_fields_that_were_found() -> None:
    with pytest.raises(
        InputError, match=r"document 0 \(id '1'\): no text \(looked for text, contents, content\)"
    ) as told:
        list(checked_docs([{"id": "1", "body": "a red fox", "stars": 5}]))
    assert str(told.value).endswith("found 'id', 'body', 'stars': rename 'body' to 'text'?")


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "1"},
        {"id": "1", "lang": "en"},
        {"id": "1", "title": "t", "by": "Al Lo"},
        {"id": "1", "text": None, "by": "Al B"},
    ],
    ids=repr,
)
def test_a_record_without_a_text_is_an_empty_document_if_no_field_holds_words(fields: dict[str, Any]) -> None:
    assert Doc.from_dict(fields).text == ""


# --- rankings as tables


def ranking(*docs: Doc, passages: tuple[int, ...] = ()) -> Ranking:
    scores = tuple(float(3 - at) for at in range(len(docs)))
    found = [(doc, ()) for doc in docs]
    return Ranking("q", tuple(doc.id for doc in docs), scores, documents=lambda: found, passages=passages)


def test_a_ranking_is_a_table_of_its_hits() -> None:
    hits = ranking(Doc("a", "x", "t", {"year": 2020, "tags": ["n"]}), Doc("b", "y", meta={"lang": "en"}))
    expected = [
        {"rank": 1, "id": "a", "score": 3.0, "lexical": 3.0, "dense": 0.0, "title": "t", "text": "x",
         "year": 2020, "tags": ["n"], "lang": None},
        {"rank": 2, "id": "b", "score": 2.0, "lexical": 2.0, "dense": 0.0, "title": "", "text": "y",
         "year": None, "tags": None, "lang": "en"},
    ]  # fmt: skip
    assert hits.to_arrow().to_pylist() == expected
    frame = hits.to_pandas()
    assert list(frame.columns) == list(expected[0])
    assert frame["id"].tolist() == ["a", "b"]
    assert frame["year"].tolist()[0] == 2020
    assert frame["lang"].isna().tolist() == [True, False]


def test_metadata_that_has_the_name_of_another_column_is_prefixed() -> None:
    hits = ranking(Doc("a", "x", meta={"score": 9, "rank": "high"}))
    [row] = hits.to_arrow().to_pylist()
    assert (row["score"], row["meta.score"], row["rank"], row["meta.rank"]) == (3.0, 9, 1, "high")
    assert hits.to_pandas()["meta.score"].tolist() == [9]


def test_metadata_of_several_types_is_json_text_in_arrow() -> None:
    hits = ranking(Doc("a", meta={"n": 1, "m": 2**70}), Doc("b", meta={"n": "eins"}), Doc("c"))
    table = hits.to_arrow()
    assert table["n"].to_pylist() == ["1", '"eins"', None]
    assert table["m"].to_pylist() == [str(2**70), None, None]


def test_passages_are_told_apart_by_their_numbers() -> None:
    hits = ranking(Doc("a", "one"), Doc("a", "two"), passages=(4, 2))
    assert hits.to_arrow()["passage"].to_pylist() == hits.to_pandas()["passage"].tolist() == [4, 2]


def test_an_empty_ranking_is_a_table_with_its_columns_and_their_types() -> None:
    frame, table = ranking().to_pandas(), ranking().to_arrow()
    assert list(frame.columns) == table.column_names == ["rank", "id", "score", "lexical", "dense", "title", "text"]
    assert (str(frame["rank"].dtype), str(frame["score"].dtype), len(frame)) == ("int64", "float64", 0)
    assert table.schema.field("id").type == pa.string()
    assert frame["id"].dtype == ranking(Doc("a")).to_pandas()["id"].dtype


@pytest.mark.parametrize(("method", "package"), [("to_pandas", "pandas"), ("to_arrow", "pyarrow")])
def test_a_table_of_hits_says_what_to_install(method: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"Ranking.{method}\(\) needs .*denslice\[files\]"):
        getattr(ranking(Doc("a")), method)()
