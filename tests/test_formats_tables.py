"""CSV, JSON, Parquet and Arrow files become documents, whatever their fields are called."""

from __future__ import annotations

import csv
import gzip
import io
import json
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from denslice.corpus.formats.arrow_tables import read_arrow
from denslice.corpus.formats.csv_tables import read_csv, read_tsv
from denslice.corpus.formats.json_records import read_json, read_json_lines
from denslice.corpus.formats.source_file import SourceFile
from denslice.errors import InputError, MissingExtraError, UnreadableError
from denslice.records import Doc

READERS: dict[str, Callable[[SourceFile], Iterable[Doc]]] = {
    ".csv": read_csv,
    ".psv": read_csv,
    ".tsv": read_tsv,
    ".tab": read_tsv,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
    ".parquet": read_arrow,
    ".arrow": read_arrow,
    ".feather": read_arrow,
}
FOX, WHALE = "the red fox is quick", "a blue whale is slow"


def file_of(folder: Path, name: str, content: str | bytes, text_field: str | None = None) -> SourceFile:
    """A file with exactly these bytes, gzipped if it is named so."""
    raw = content.encode() if isinstance(content, str) else content
    path = folder / name
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return SourceFile(path, name, text_field)


def docs_in(file: SourceFile) -> list[Doc]:
    return list(READERS[file.ending](file))


def docs_of(folder: Path, name: str, content: str | bytes) -> list[Doc]:
    """The documents of a file in which there is no problem."""
    file = file_of(folder, name, content)
    docs = docs_in(file)
    assert file.problems == []
    return docs


def problems_of(file: SourceFile) -> list[str]:
    """What is reported while the file is read."""
    docs_in(file)
    return [f"{problem.place}: {problem.problem}" for problem in file.problems]


def unreadable(file: SourceFile) -> tuple[str, str]:
    """Why nothing of the file is read."""
    with pytest.raises(UnreadableError) as caught:
        docs_in(file)
    return caught.value.kind, str(caught.value)


def parquet_bytes(columns: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns), stream)
    return stream.getvalue()


def arrow_bytes(columns: dict[str, Any], opened: Callable[..., Any] = ipc.new_file) -> bytes:
    stream = io.BytesIO()
    table = pa.table(columns)
    with opened(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


# --- which field is what


@pytest.mark.parametrize("name", ["text", "Contents", " CONTENT ", "body", "Passage", "abstract", "description"])
def test_the_text_goes_by_many_names(tmp_path: Path, name: str) -> None:
    rows = f"id,{name}\n1,{FOX}\n"
    assert docs_of(tmp_path, "a.csv", rows) == [Doc("1", FOX)]
    assert docs_of(tmp_path, "a.jsonl", json.dumps({"id": "1", name: FOX})) == [Doc("1", FOX)]


def test_a_certain_name_goes_before_a_likely_one(tmp_path: Path) -> None:
    row = {"summary": "in short words", "body": FOX, "description": "long " * 50}
    assert [doc.text for doc in docs_of(tmp_path, "a.json", json.dumps([row]))] == [FOX]


def test_the_title_is_called_title_or_else_name(tmp_path: Path) -> None:
    assert docs_of(tmp_path, "a.csv", "name,title,text\nn,t,x\n") == [Doc("", "x", "t", {"name": "n"})]
    assert docs_of(tmp_path, "b.csv", "Name,text\nn,x\n") == [Doc("", "x", "n")]


def test_a_question_is_the_title_of_its_answer(tmp_path: Path) -> None:
    assert docs_of(tmp_path, "a.csv", f"question,answer\nWho?,{FOX}\n") == [Doc("", FOX, "Who?")]
    assert docs_of(tmp_path, "b.csv", "question\nWho is quick?\n") == [Doc("", "Who is quick?")]


def test_without_a_known_name_the_longest_words_are_the_text(tmp_path: Path) -> None:
    rows = f"url,code,what\nhttps://example.org/a/very/long/address/of/a/page,a1,{FOX}\n"
    file = file_of(tmp_path, "a.csv", rows)
    [doc] = docs_in(file)
    assert doc.text == FOX
    assert file.remarks == ["a.csv: text is taken from the column `what`"]


def test_words_without_spaces_are_a_text_too(tmp_path: Path) -> None:
    text = "東京は日本の首都であり、世界最大の都市圏の一つです。"
    assert [doc.text for doc in docs_of(tmp_path, "a.csv", f"k,v\nx,{text}\n")] == [text]


def test_a_list_of_labels_is_no_text(tmp_path: Path) -> None:
    content = json.dumps([{"labels": ["one label", "another label", "and a third"], "n": 1}])
    assert docs_of(tmp_path, "a.json", content) == [Doc("a.json", content)]


def test_a_usual_name_is_not_enough_if_it_holds_no_words(tmp_path: Path) -> None:
    rows = f"review,what_was_said\n5,{FOX}\n4,{WHALE}\n"
    assert [doc.text for doc in docs_of(tmp_path, "a.csv", rows)] == [FOX, WHALE]


def test_a_guess_is_told_and_a_certain_name_is_not(tmp_path: Path) -> None:
    for name, told in (("text", []), ("contents", []), ("body", ["a.csv: text is taken from the column `body`"])):
        file = file_of(tmp_path, "a.csv", f"title,{name}\nt,{FOX}\n")
        docs_in(file)
        assert file.remarks == told


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_a_table_without_text_is_told_apart(tmp_path: Path, name: str) -> None:
    rows = {"id": [1, 2], "price": [2.5, 3.5]}
    contents: dict[str, str | bytes] = {
        "a.csv": "id,price\n1,2.5\n2,3.5\n",
        "a.jsonl": '{"id": 1, "price": 2.5}\n{"id": 2, "price": 3.5}\n',
        "a.parquet": parquet_bytes(rows),
    }
    expected = ("table without text", "no column holds text; name one with --text-field")
    assert unreadable(file_of(tmp_path, name, contents[name])) == expected


def test_a_table_of_titles_is_read_and_told(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.csv", "id,name,price\n1,Hammer,5\n")
    assert docs_in(file) == [Doc("1", "", "Hammer", {"price": 5})]
    assert file.remarks == ["a.csv: no column holds text; only titles are read, from the column `name`"]


def test_the_text_field_that_was_asked_for_is_taken(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.csv", "id,text,Notes\n1,x,y\n2,x,\n", text_field="notes")
    assert docs_in(file) == [Doc("1", "y", meta={"text": "x"}), Doc("2", "", meta={"text": "x"})]
    assert file.remarks == []
    lines = file_of(tmp_path, "a.jsonl", '{"id": 1, "text": "x", "n": "y"}\n{"id": 2, "text": "z"}', text_field="n")
    assert docs_in(lines) == [Doc("1", "y", meta={"text": "x"}), Doc("2", "", meta={"text": "z"})]


def test_a_text_field_that_no_record_has_is_an_error_that_lists_those_there_are(tmp_path: Path) -> None:
    told = ("table without text", "no column is named `notes`; found `id`, `text`")
    assert unreadable(file_of(tmp_path, "a.csv", "id,text\n1,x\n", text_field="notes")) == told
    assert unreadable(file_of(tmp_path, "a.jsonl", '{"id": 1, "text": "x"}', text_field="notes")) == told
    assert unreadable(file_of(tmp_path, "a.json", '[{"id": 1, "text": "x"}]', text_field="notes")) == told


# --- CSV


def test_a_table_becomes_documents_with_typed_metadata(tmp_path: Path) -> None:
    rows = (
        "id,title,text,year,price,good,postcode,note,mixed\n"
        "a,T,x,2020,1.50,true,01234,,1\n"
        "b,,y,,2.25,False,56789,nan,one\n"
    )
    assert docs_of(tmp_path, "a.csv", rows) == [
        Doc("a", "x", "T", {"year": 2020, "price": 1.5, "good": True, "postcode": "01234", "mixed": "1"}),
        Doc("b", "y", "", {"price": 2.25, "good": False, "postcode": "56789", "mixed": "one"}),
    ]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    rows = [["id", "text", "n"], ["1", "one, two; three| four", "5"], ["2", "x", "6"]]
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows(rows)
    expected = [Doc("1", rows[1][1], meta={"n": 5}), Doc("2", "x", meta={"n": 6})]
    assert docs_of(tmp_path, "a.csv", stream.getvalue()) == expected


def test_a_delimiter_that_divides_the_header_goes_before_one_in_every_text(tmp_path: Path) -> None:
    rows = "id;text\n" + "".join(f'{number};one, "two"{number}\n' for number in range(9)) + '9;"x, y" z\n'
    assert [doc.id for doc in docs_of(tmp_path, "a.csv", rows)] == [str(number) for number in range(10)]


def test_a_pipe_separates_the_cells_of_psv(tmp_path: Path) -> None:
    assert docs_of(tmp_path, "a.psv", "id|text\n1|a, b, c\n") == [Doc("1", "a, b, c")]


def test_the_line_that_excel_reads_names_the_delimiter(tmp_path: Path) -> None:
    assert docs_of(tmp_path, "a.csv", "sep=;\r\nid;text\r\n1;a, b\r\n") == [Doc("1", "a, b")]


def test_a_column_alone_may_hold_commas(tmp_path: Path) -> None:
    assert docs_of(tmp_path, "a.csv", "text\nHello, world\nx\n") == [Doc("", "Hello, world"), Doc("", "x")]


def test_a_title_above_the_table_is_left_out(tmp_path: Path) -> None:
    rows = "Orders of 2020\n\nNo;What\n" + "".join(f"{number};{FOX}, {number}\n" for number in range(9))
    docs = docs_of(tmp_path, "a.csv", rows)
    assert len(docs) == 9
    assert docs[0] == Doc("", f"{FOX}, 0", meta={"No": 0})


def test_cells_may_have_quotes_line_breaks_and_delimiters(tmp_path: Path) -> None:
    rows = 'id,text\r\n1,"one, ""two""\r\nthree"\r\n2,x\r\n'
    assert docs_of(tmp_path, "a.csv", rows) == [Doc("1", 'one, "two"\r\nthree'), Doc("2", "x")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_any_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    text = "Die Straße führt über die Brücke, und der Fluß fließt darunter hindurch in die See."
    rows = f'id,text\n1,"{text}"\n'
    assert docs_of(tmp_path, "a.csv", rows.encode(encoding)) == [Doc("1", text)]


def test_a_compressed_table_is_read(tmp_path: Path) -> None:
    assert docs_of(tmp_path, "a.csv.gz", "id,text\n1,x\n") == [Doc("1", "x")]


def test_rows_with_too_few_or_too_many_cells_are_reported_with_their_line(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.csv", 'id,text\n1,"x\ny"\n2\n3,x,y\n4,z,,\n\n5,w\n')
    assert problems_of(file) == ["a.csv:4: 1 cells, expected 2", "a.csv:5: 3 cells, expected 2"]
    assert [doc.id for doc in docs_in(file)] == ["1", "4", "5"]


def test_a_quote_that_is_not_closed_is_reported(tmp_path: Path) -> None:
    rows = "id,text,n\n" + "".join(f'{n},"a, b",1\n' for n in range(5)) + '5,"never closed,1\n6,x,1\n'
    file = file_of(tmp_path, "a.csv", rows)
    assert len(docs_in(file)) == 5
    assert [problem.place for problem in file.problems] == ["a.csv:7"]
    assert file.problems[0].problem == "2 cells, expected 3; is a quote not closed?"


def test_quotes_that_enclose_no_cells_are_part_of_the_text(tmp_path: Path) -> None:
    rows = 'id\ttext\n1\t"Stop" he said\n2\tx\n3\t"y\n'
    assert [doc.text for doc in docs_of(tmp_path, "a.tsv", rows)] == ['"Stop" he said', "x", '"y']


def test_bytes_in_another_encoding_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    good = "".join(f"{number},{FOX}\n" for number in range(4_000))  # longer than what the encoding is found from
    file = file_of(tmp_path, "a.csv", f"id,text\n{good}".encode() + b"x,caf\xe9\ny,last\n")
    docs = docs_in(file)
    assert (len(docs), docs[-1].id) == (4_001, "y")
    [problem] = file.problems
    assert problem.place == "a.csv:4002"
    assert problem.problem == "byte 0xe9 is not in the encoding of the file; convert it to UTF-8"


def test_zeros_after_the_beginning_are_spaces(tmp_path: Path) -> None:
    good = "".join(f"{number},{FOX}\n" for number in range(4_000))
    assert docs_of(tmp_path, "a.csv", f"id,text\n{good}x,a\0b\n")[-1] == Doc("x", "a b")


def test_a_first_row_that_is_data_is_a_document(tmp_path: Path) -> None:
    rows = f'"3","Fox","{FOX}"\n"1","Whale","{WHALE}"\n'
    assert docs_of(tmp_path, "a.csv", rows) == [
        Doc("", FOX, meta={"column 1": 3, "column 2": "Fox"}),
        Doc("", WHALE, meta={"column 1": 1, "column 2": "Whale"}),
    ]


def test_a_missing_id_is_left_to_the_caller_and_a_present_one_stays(tmp_path: Path) -> None:
    assert [doc.id for doc in docs_of(tmp_path, "a.csv", "ID,text\n007,x\n,y\n 8 ,z\n")] == ["007", "", " 8 "]


def test_columns_without_a_name_or_with_one_twice_are_kept(tmp_path: Path) -> None:
    rows = ",text,a,a\n0,x,1,2\n"
    assert docs_of(tmp_path, "a.csv", rows) == [Doc("", "x", meta={"column 1": 0, "a": 1, "a 2": 2})]


def test_metadata_may_be_called_anything(tmp_path: Path) -> None:
    rows = "id,text,meta,metadata,score,_id,content\n1,x,m,n,5,i,c\n"
    meta = {"meta": "m", "metadata": "n", "score": 5, "_id": "i", "content": "c"}
    assert docs_of(tmp_path, "a.csv", rows) == [Doc("1", "x", meta=meta)]


def test_a_very_long_cell_is_read(tmp_path: Path) -> None:
    text = "long text " * 50_000
    assert docs_of(tmp_path, "a.csv", f"id,text\n1,{text}\n") == [Doc("1", text)]


def test_a_strict_reader_raises_at_the_first_bad_row(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.csv", "id,text\n1,x\n2\n")
    file.strict = True
    with pytest.raises(InputError, match=r"^a\.csv:3: 1 cells, expected 2$"):
        docs_in(file)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet"])
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_has_no_documents(tmp_path: Path, name: str, content: str) -> None:
    kind, told = unreadable(file_of(tmp_path, name, content))
    expected = ("empty file", "has no documents")
    assert (kind, told) == expected or (kind == "damaged file" and name == "a.parquet" and content)


def test_a_header_without_rows_has_no_documents(tmp_path: Path) -> None:
    assert unreadable(file_of(tmp_path, "a.csv", "id,text\n")) == ("empty file", "has no documents")


# --- TSV


def test_a_tsv_with_a_header_is_a_table(tmp_path: Path) -> None:
    rows = "id\ttitle\ttext\n1\tt\tx, y\n"
    assert docs_of(tmp_path, "a.tsv", rows) == docs_of(tmp_path, "a.tab", rows) == [Doc("1", "x, y", "t")]


def test_a_tsv_without_a_header_has_an_id_and_a_text_in_each_line(tmp_path: Path) -> None:
    rows = '0\tthe "cat\n1\ttwo\ttabs\n2\t\n'
    assert docs_of(tmp_path, "a.tsv", rows) == [Doc("0", 'the "cat'), Doc("1", "two\ttabs"), Doc("2", "")]


@pytest.mark.parametrize("first", ["12\ttext", "text\ttext", f"id\t{'long ' * 20}", "id", "alpha\tbeta"])
def test_a_first_line_that_may_be_data_is_no_header(tmp_path: Path, first: str) -> None:
    docs = docs_in(file_of(tmp_path, "a.tsv", f"{first}\nx\ty\n"))
    assert docs[-1] == Doc("x", "y")
    assert len(docs) == 1 + first.count("\t")


def test_a_line_without_a_tab_is_reported(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.tsv", "1\ta\nno tab\n\tno id\n2\tb\n")
    assert problems_of(file) == ["a.tsv:2: no tab; expected an id, a tab and a text", "a.tsv:3: the id is empty"]


def test_a_file_that_only_is_called_tsv_is_given_up(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.tsv", "no tabs\n" * 500)
    assert unreadable(file) == ("damaged file", "none of its first 100 lines is an id, a tab and a text")
    assert file.problems == []


# --- JSON lines


def test_json_lines_are_read_as_documents_are(tmp_path: Path) -> None:
    lines = (
        '{"_id": "1", "title": "t", "text": "x", "metadata": {"url": "u"}, "year": 2020}\n'
        '{"id": 2, "contents": "y", "vector": {"cat": 1.5}}\n'
        '{"id": "3", "score": 1, "lexical": 1, "dense": 0, "text": "z", "title": "", "meta": {}, "passages": []}\n'
        '{"text": "without id"}\n'
        '{"id": null, "text": null}\n'
    )
    expected = [
        Doc("1", "x", "t", {"url": "u", "year": 2020}),
        Doc("2", "y", vector={"cat": 1.5}),
        Doc("3", "z"),
        Doc("", "without id"),
        Doc("", ""),
    ]
    assert docs_of(tmp_path, "a.jsonl", lines) == docs_of(tmp_path, "a.ndjson", lines) == expected
    assert docs_of(tmp_path, "a.json", lines) == expected


def test_ready_vectors_need_no_text(tmp_path: Path) -> None:
    line = '{"id": "1", "vector": {"cat": 1.5}}'
    expected = [Doc("1", vector={"cat": 1.5})]
    assert docs_of(tmp_path, "a.jsonl", line) == docs_of(tmp_path, "a.json", line) == expected


def test_a_text_may_come_in_sentences(tmp_path: Path) -> None:
    line = '{"id": 1, "abstract": ["One is here.", "Two is there."]}'
    assert docs_of(tmp_path, "a.jsonl", line) == [Doc("1", "One is here.\nTwo is there.")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "2", "text": ', "broken JSON at column 21: Expecting value; expected one object per line"),
        ("[1, 2]", "the JSON is list, expected an object per line"),
        ('{"id": 2.5, "text": "b"}', "id 2.5 is float, expected a string or a whole number"),
        ('{"id": "", "text": "b"}', "the id is empty"),
        ('{"id": "2", "text": 5}', "text is int, expected a string"),
        ('{"id": "2", "n": NaN}', "broken JSON: NaN is not a JSON number"),
        ('{"id": "2", "n": 1e999}', "field 'n' is inf, which JSON cannot hold; give a finite number or null"),
        ('{"id": "2", "vector": {"cat": -1}}', "the weight of token 'cat' is -1, expected a finite number, 0 or more"),
    ],
)
def test_a_bad_line_is_reported_and_the_others_are_read(tmp_path: Path, line: str, problem: str) -> None:
    content = f'{{"id": "1", "text": "a"}}\n\n{line}\n{{"id": "3", "text": "c"}}\n'
    file = file_of(tmp_path, "a.jsonl", content)
    assert [doc.id for doc in docs_in(file)] == ["1", "3"]
    assert file.problems == [("a.jsonl:3", "bad line", problem)]
    strict = SourceFile(file.path, "a.jsonl", strict=True)
    docs = iter(read_json_lines(strict))
    assert next(docs) == Doc("1", "a")
    with pytest.raises(InputError) as caught:
        next(docs)
    assert str(caught.value) == f"a.jsonl:3: {problem}"


def test_a_line_that_is_nested_too_deep_is_reported(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.jsonl", '{"text": "x"}\n{"text": "y", "deep": ' + "[" * 100_000 + "\n")
    assert docs_in(file) == [Doc("", "x")]
    assert file.problems[0].problem.startswith("broken JSON: ")


def test_a_model_s_vectors_are_reported_once_and_the_documents_read(tmp_path: Path) -> None:
    file = file_of(
        tmp_path, "a.jsonl", '{"id": 1, "text": "x", "vector": [0.5]}\n{"id": 2, "text": "y", "vector": [1]}'
    )
    assert docs_in(file) == [Doc("1", "x"), Doc("2", "y")]
    assert file.problems == [("a.jsonl:1", "ready vector", "vector is list, expected an object of weights")]


def test_lines_of_anything_but_json_are_given_up(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.jsonl", "not JSON\n" * 500)
    assert unreadable(file) == ("damaged file", "none of its first 100 lines is a JSON object")


def test_documents_come_before_the_rest_of_the_file_is_read(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.jsonl", '{"text": "x"}\nbroken\n')
    assert next(iter(read_json_lines(file))) == Doc("", "x")
    assert file.problems == []


# --- JSON


def test_an_array_of_objects_has_a_document_for_each(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "x", "n": [1]}, {"text": "y", "title": 1984}]
    for content in (json.dumps(rows), json.dumps(rows, indent=2), f" \n{json.dumps(rows)}\n"):
        assert docs_of(tmp_path, "a.json", content) == [Doc("1", "x", meta={"n": [1]}), Doc("", "y", "1984")]


def test_an_array_of_strings_has_a_text_for_each(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.json", '["x", "y",\n 5, "\\ud800", "z"]')
    assert docs_in(file) == [Doc("", "x"), Doc("", "y"), Doc("", "z")]
    assert [problem.place for problem in file.problems] == ["a.json:2", "a.json:2"]


def test_one_object_with_a_text_is_one_document(tmp_path: Path) -> None:
    record = {"title": "t", "text": "x", "year": 2020}
    for content in (json.dumps(record, indent=2), json.dumps(record)):
        assert docs_of(tmp_path, "a.json", content) == [Doc("a.json", "x", "t", {"year": 2020})]
    assert docs_of(tmp_path, "a.json", json.dumps({"id": 7, **record}, indent=2)) == [
        Doc("7", "x", "t", {"year": 2020})
    ]


@pytest.mark.parametrize(
    "content",
    [
        '{\n  "name": "left-pad",\n  "description": "pads to the left"\n}',
        '{"name": "left-pad", "description": "pads to the left"}',
        "[1, 2, 3]",
        "[]",
        '[{"x": 1}, {"x": 2}]',
        '"a string"',
        "12",
        '{\n  // a comment\n  "strict": true\n}',
        '{"a": NaN\n}',
        '{\n"deep": ' + "[" * 100_000,
    ],
    ids=lambda content: content[:20],
)
def test_any_other_json_is_a_text(tmp_path: Path, content: str) -> None:
    assert docs_of(tmp_path, "a.json", content) == [Doc("a.json", content)]


def test_what_is_no_json_is_told(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.json", '{\n  // a comment\n  "strict": true\n}')
    docs_in(file)
    problem = "a.json:2: broken JSON at column 3: Expecting property name enclosed in double quotes"
    assert file.remarks == [f"a.json: read as plain text ({problem}; expected one object per line)"]
    file.strict = True
    with pytest.raises(InputError, match=rf"^{problem}"):
        docs_in(file)


@pytest.mark.parametrize("content", ['{"id": 2.5, "text": "x"}', '{\n"id": 2.5, "text": "x"}'])
def test_one_object_that_is_no_document_is_a_text_or_an_error(tmp_path: Path, content: str) -> None:
    file = file_of(tmp_path, "a.json", content)
    assert docs_in(file) == [Doc("a.json", content)]
    file.strict = True
    with pytest.raises(InputError, match=r"^a\.json:1: id 2.5 is float, expected a string or a whole number$"):
        docs_in(file)


def test_a_broken_first_line_does_not_hide_json_lines(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.json", '{"text": \n{"text": "y"}\n')
    assert docs_in(file) == [Doc("", "y")]
    assert [problem.place for problem in file.problems] == ["a.json:1"]


def test_an_array_that_breaks_off_is_read_up_to_there(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.json", '[{"text": "x"},\n {"text": "y", "n": NaN},\n {"text": "z"},\n {"text": ')
    assert docs_in(file) == [Doc("", "x"), Doc("", "z")]
    assert problems_of(file)[:2] == [
        "a.json:2: broken JSON: NaN is not a JSON number",
        "a.json:4: broken JSON at column 11: Expecting value; the rest of the array is left out",
    ]


def test_an_array_with_an_element_that_is_nested_too_deep_is_reported(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.json", '[{"text": "x"},\n ' + "[" * 100_000)
    assert docs_in(file) == [Doc("", "x")]
    assert file.problems[0].problem.endswith("the rest of the array is left out")


def test_json_lines_called_json_are_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SourceFile, "data")
    assert docs_of(tmp_path, "a.json", '{"text": "x"}\n{"text": "y"}\n') == [Doc("", "x"), Doc("", "y")]


# --- Parquet and Arrow

COLUMNS: dict[str, Any] = {
    "id": [1, 2],
    "Body": [FOX, None],
    "title": ["t", None],
    "when": [date(2020, 1, 2), None],
    "price": [Decimal("1.25"), Decimal("2.00")],
    "tags": [["a"], []],
    "nested": [{"a": 1, "b": None}, None],
    "raw": [b"\xff", b""],
    "picture": [{"bytes": b"\xff", "path": "p"}, None],
    "rate": [float("nan"), float("inf")],
    "embedding": [[0.5] * 32, [0.5] * 32],
    "place": [[52.5, 13.4], None],
    "__index_level_0__": [0, 1],
}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a.parquet", parquet_bytes),
        ("a.parquet.gz", parquet_bytes),
        ("a.arrow", arrow_bytes),
        ("a.arrow", lambda columns: arrow_bytes(columns, ipc.new_stream)),
        ("a.feather", arrow_bytes),
    ],
)
def test_a_table_of_arrow_becomes_documents(tmp_path: Path, name: str, written: Callable[..., bytes]) -> None:
    file = file_of(tmp_path, name, written(COLUMNS))
    nested = {"when": "2020-01-02", "price": 1.25, "tags": ["a"], "nested": {"a": 1}, "place": [52.5, 13.4]}
    assert docs_in(file) == [Doc("1", FOX, "t", nested), Doc("2", "", "", {"price": 2, "tags": []})]
    assert file.remarks == [
        f"{name}: vectors are left out: `embedding`",
        f"{name}: text is taken from the column `Body`",
    ]


def test_ids_that_pandas_made_fractions_of_are_whole_numbers(tmp_path: Path) -> None:
    content = parquet_bytes({"id": [1.0, None], "text": ["x", "y"]})
    assert [doc.id for doc in docs_of(tmp_path, "a.parquet", content)] == ["1", ""]


def test_a_bad_row_is_reported_with_its_number(tmp_path: Path) -> None:
    file = file_of(tmp_path, "a.parquet", parquet_bytes({"id": [1.0, 2.5], "text": ["x", "y"]}))
    assert [problem.place for problem in file.problems] == []
    docs_in(file)
    assert file.problems[-1][:2] == ("a.parquet:2", "bad row")


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:100] + bytes(200) + raw[300:],
        lambda raw: raw[:-20] + b"\xff" * 20,
        lambda raw: b"no table at all",
    ],
    ids=["cut", "zeros", "footer", "text"],
)
def test_a_damaged_file_is_told(tmp_path: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    columns = {"id": list(range(100)), "text": [FOX] * 100}
    raw = (parquet_bytes if name == "a.parquet" else arrow_bytes)(columns)
    kind, told = unreadable(file_of(tmp_path, name, damage(raw)))
    assert kind == "damaged file"
    assert "\n" not in told


def test_offsets_outside_of_the_file_are_not_followed(tmp_path: Path) -> None:
    raw = arrow_bytes({"text": [FOX, FOX, FOX]})
    offsets = struct.pack("<4i", 0, 20, 40, 60)
    assert offsets in raw
    damaged = raw.replace(offsets, struct.pack("<4i", 0, 20, 2**31 - 1, 60))
    assert unreadable(file_of(tmp_path, "a.arrow", damaged))[0] == "damaged file"


def test_encrypted_and_very_old_files_are_told(tmp_path: Path) -> None:
    assert unreadable(file_of(tmp_path, "a.parquet", b"PARE" + bytes(50) + b"PARE"))[0] == "encrypted file"
    assert unreadable(file_of(tmp_path, "a.feather", b"FEA1" + bytes(50) + b"FEA1"))[0] == "old Feather file"


def test_reading_parquet_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_of(tmp_path, "a.parquet", parquet_bytes({"text": ["x"]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"reading Parquet and Arrow files needs .*denslice\[files\]"):
        docs_in(file)


# --- what is written is read

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.text(characters, max_size=30)
ids = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=8)


def csv_bytes(columns: dict[str, Any], delimiter: str = ",") -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter)
    writer.writerows([list(columns), *zip(*columns.values(), strict=True)])
    return stream.getvalue().encode()


def records(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))


WRITERS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "a.csv": csv_bytes,
    "b.csv": lambda columns: csv_bytes(columns, ";"),
    "a.tsv": lambda columns: csv_bytes(columns, "\t"),
    "a.jsonl": lambda columns: "\n".join(map(json.dumps, records(columns))).encode(),
    "a.json": lambda columns: json.dumps(list(records(columns)), ensure_ascii=False, indent=1).encode(),
    "a.parquet": parquet_bytes,
    "a.arrow": arrow_bytes,
}


@example(rows=[(";", "\n;", "")])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(ids, texts, texts), min_size=1, max_size=8, unique_by=lambda row: row[0]))
def test_records_are_read_back_as_they_were_written(tmp_path: Path, rows: Sequence[tuple[str, str, str]]) -> None:
    columns = {name: list(cells) for name, cells in zip(("id", "title", "text"), zip(*rows, strict=True), strict=True)}
    for name, written in WRITERS.items():
        docs = docs_of(tmp_path, name, written(columns))
        assert [(doc.id, doc.title, doc.text) for doc in docs] == list(rows), name
