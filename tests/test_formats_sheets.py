"""Spreadsheets become documents: rows with the names of their columns, and cells as people see them."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest
import xlsxwriter
from hypothesis import given
from hypothesis import strategies as st
from python_calamine import CalamineWorkbook

from denslice.corpus.formats import spreadsheets
from denslice.corpus.formats.number_formats import NumberKind, kind_of_format, shown_number
from denslice.corpus.formats.source_file import Problem, SourceFile
from denslice.corpus.formats.spreadsheets import read_spreadsheet
from denslice.errors import MissingExtraError
from denslice.records import Doc
from office_files import odf_xml, ods_file, old_workbook, rezipped, sheets_file, source

PEOPLE: list[list[str | float]] = [["Name", "Year"], ["Ada", 1843], ["Grace", 1952.5]]
SHOWN = "Name | Year\nName: Ada; Year: 1843\nName: Grace; Year: 1952.5"


def read(file: SourceFile) -> Doc:
    (doc,) = read_spreadsheet(file)
    return doc


def shown(folder: Path, rows: Sequence[Sequence[str | float]]) -> str:
    """Return how these rows are shown, below the heading of their sheet."""
    return read(source(folder, "a.xlsx", sheets_file({"A": rows}))).text.removeprefix("## A").strip()


# Rows


def test_each_sheet_is_a_section_and_each_row_a_line(tmp_path: Path) -> None:
    text = read(source(tmp_path, "a.xlsx", sheets_file({"People": PEOPLE, "Notes": [["free text"]]}))).text
    assert text == f"## People\n\n{SHOWN}\n\n## Notes\n\nfree text"


def test_old_and_open_workbooks_are_read_as_new_ones(tmp_path: Path) -> None:
    for name, raw in (("a.xls", old_workbook("A", PEOPLE)), ("old.xlsx", old_workbook("A", PEOPLE))):
        assert read(source(tmp_path, name, raw)).text == f"## A\n\n{SHOWN}"
    assert read(source(tmp_path, "a.ods", ods_file(PEOPLE))).text == f"## A\n\n{SHOWN}"


def test_titles_above_the_names_of_columns_stay_lines(tmp_path: Path) -> None:
    assert shown(tmp_path, [["Report 1843"], [], *PEOPLE]) == f"Report 1843\n{SHOWN}"


@pytest.mark.parametrize(
    "first",
    [["Ada", 1843], ["same", "same"], ["Name", "x" * 61]],
    ids=["a number", "a name twice", "a sentence"],
)
def test_a_first_row_that_does_not_look_like_names_is_a_row(tmp_path: Path, first: list[str | float]) -> None:
    assert shown(tmp_path, [first, ["Grace", 1952]]) == f"{first[0]} | {first[1]}\nGrace | 1952"


def test_empty_cells_and_columns_without_a_name_are_shown_without_one(tmp_path: Path) -> None:
    rows: list[list[str | float]] = [["", "Name:", "Year"], ["0", "Ada", ""], ["", "", 1952, "extra"]]
    assert shown(tmp_path, rows) == "Name: | Year\n0; Name: Ada\nYear: 1952; extra"


def test_line_ends_in_a_cell_do_not_end_its_row(tmp_path: Path) -> None:
    assert shown(tmp_path, [["two\nlines", "and a\fform feed"]]) == "two lines | and a form feed"


def test_two_cells_at_opposite_corners_take_no_memory_for_those_between(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with xlsxwriter.Workbook(whole) as workbook:
        sheet = workbook.add_worksheet("A")
        sheet.write(0, 0, "first")
        sheet.write(1_048_575, 16_383, "last")
    assert read(source(tmp_path, "a.xlsx", whole.getvalue())).text == "## A\n\nfirst\nlast"


def test_cells_that_ods_repeats_are_repeated_within_limits(tmp_path: Path) -> None:
    cell = '<table:table-cell table:number-columns-repeated="{}">{}</table:table-cell>'
    row = '<table:table-row table:number-rows-repeated="{}">{}</table:table-row>'
    rows = [
        row.format(2, cell.format(3, "<text:p>x</text:p>")),
        row.format(1_000_000, cell.format(16_384, "")),
        row.format(1, cell.format(999_999_999, "<text:p>y</text:p>")),
    ]
    table = f'<office:spreadsheet><table:table table:name="A">{"".join(rows)}</table:table></office:spreadsheet>'
    lines = read(source(tmp_path, "a.ods", odf_xml(table))).text.split("\n")
    assert lines[:4] == ["## A", "", "x | x | x", "x | x | x"]
    assert lines[4] == " | ".join(["y"] * 1000)


def test_rows_after_the_limit_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreadsheets, "MOST_CELLS", 5)
    file = source(tmp_path, "a.xlsx", sheets_file({"A": PEOPLE, "B": [["more"]]}))
    assert read(file).text == "## A\n\nName | Year\nName: Ada; Year: 1843\n\n## B"
    assert file.problems == [
        Problem("a.xlsx", "long spreadsheet", "sheet 'A' is not read from row 3 on"),
        Problem("a.xlsx", "long spreadsheet", "sheet 'B' is not read from row 1 on"),
    ]


# Cells


def test_cells_are_shown_as_people_see_them(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with xlsxwriter.Workbook(whole, {"default_date_format": "dd/mm/yy"}) as workbook:
        sheet = workbook.add_worksheet("A")
        formats = {code: workbook.add_format({"num_format": code}) for code in ("0.0%", "d.m.yyyy hh:mm", "[h]:mm")}
        sheet.write_datetime(0, 0, datetime(2024, 5, 1))
        sheet.write_datetime(1, 0, datetime(2024, 5, 1, 13, 30), formats["d.m.yyyy hh:mm"])
        sheet.write_number(2, 0, 0.123456, formats["0.0%"])
        sheet.write_number(3, 0, 1.5, formats["[h]:mm"])
        sheet.write_number(4, 0, 0.1 + 0.2)
        sheet.write_boolean(5, 0, True)
        sheet.write_formula(6, 0, "=6*7", None, 42)
        sheet.write_formula(7, 0, '="a"&"b"', None, "ab")
        sheet.write_formula(8, 0, "=1/0", None, "#DIV/0!")
        sheet.write_rich_string(9, 0, "rich ", workbook.add_format({"bold": True}), "text")
    text = read(source(tmp_path, "a.xlsx", whole.getvalue())).text
    cells = ["2024-05-01", "2024-05-01 13:30:00", "12.35%", "36:00:00", "0.3", "TRUE", "42", "ab", "rich text"]
    assert text.split("\n")[2:] == cells


def test_a_workbook_that_counts_days_from_1904_shows_the_same_dates(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with xlsxwriter.Workbook(whole, {"date_1904": True, "default_date_format": "yyyy-mm-dd"}) as workbook:
        workbook.add_worksheet("A").write_datetime(0, 0, date(2024, 5, 1))
    assert read(source(tmp_path, "a.xlsx", whole.getvalue())).text == "## A\n\n2024-05-01"


def test_cells_without_references_follow_each_other(tmp_path: Path) -> None:
    raw = sheets_file({"A": [["Name", "Year"]]})
    raw = rezipped(raw, "xl/worksheets/sheet1.xml", "</sheetData>", "<row><c t='inlineStr'><is><t>Ada</t></is></c>"
                   "<c><v>1843</v></c></row></sheetData>")  # fmt: skip
    assert read(source(tmp_path, "a.xlsx", raw)).text == "## A\n\nName | Year\nName: Ada; Year: 1843"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("General", NumberKind.PLAIN),
        ("0.00E+00", NumberKind.PLAIN),
        ('#,##0 "days"', NumberKind.PLAIN),
        ("[Red]#,##0.00;[Blue]-#,##0.00", NumberKind.PLAIN),
        ("0%", NumberKind.PERCENT),
        ("yyyy-mm-dd", NumberKind.DATE),
        ("mmm", NumberKind.DATE),
        ("[$-409]d-mmm-yy;@", NumberKind.DATE),
        ("m/d/yy h:mm AM/PM", NumberKind.DATE_TIME),
        ("mm:ss", NumberKind.TIME),
        ("[h]:mm:ss", NumberKind.TIME),
    ],
)
def test_the_format_of_a_number_says_what_it_means(code: str, kind: NumberKind) -> None:
    assert kind_of_format(code) is kind


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (1843.0, NumberKind.PLAIN, "1843"),
        (-0.0, NumberKind.PLAIN, "0"),
        (1e300, NumberKind.PLAIN, "1e+300"),
        (float("inf"), NumberKind.PLAIN, "inf"),
        (float("nan"), NumberKind.DATE, "nan"),
        (1.0, NumberKind.DATE, "1900-01-01"),
        (59.0, NumberKind.DATE, "1900-02-28"),
        (61.0, NumberKind.DATE, "1900-03-01"),
        (2_958_465.0, NumberKind.DATE, "9999-12-31"),
        (2_958_465.999999999, NumberKind.DATE_TIME, "9999-12-31 23:59:59"),
        (-5.0, NumberKind.DATE, "-5"),
        (0.75, NumberKind.DATE_TIME, "18:00:00"),
        (0.25, NumberKind.PERCENT, "25%"),
    ],
)
def test_numbers_are_shown_by_what_they_mean(number: float, kind: NumberKind, text: str) -> None:
    assert shown_number(number, kind) == text


@given(st.floats(), st.sampled_from(NumberKind), st.booleans())
def test_every_number_can_be_shown(number: float, kind: NumberKind, from_1904: bool) -> None:
    assert shown_number(number, kind, from_1904).strip()


def test_dates_are_those_that_calamine_reads(tmp_path: Path) -> None:
    days = [datetime(1901, 1, 1, 0, 0, 1) + timedelta(days=1234 * at, seconds=4321 * at) for at in range(80)]
    whole = io.BytesIO()
    with xlsxwriter.Workbook(whole, {"default_date_format": "yyyy-mm-dd hh:mm:ss"}) as written:
        written.add_worksheet("A").write_column(0, 0, days)
    workbook = CalamineWorkbook.from_filelike(io.BytesIO(whole.getvalue()))
    assert [row[0] for row in workbook.get_sheet_by_index(0).to_python()] == days
    text = read(source(tmp_path, "a.xlsx", whole.getvalue())).text
    assert text.split("\n")[2:] == [day.isoformat(" ") for day in days]


# Files


def test_the_properties_of_a_workbook_are_its_metadata(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with xlsxwriter.Workbook(whole) as workbook:
        workbook.set_properties({"title": "Budget", "author": "Ada", "created": datetime(2024, 5, 1, 9, 30)})
        workbook.add_worksheet("A").write(0, 0, "words")
    doc = read(source(tmp_path, "a.xlsx", whole.getvalue()))
    assert (doc.title, doc.meta) == ("Budget", {"author": "Ada", "date": "2024-05-01T09:30:00Z"})


def test_an_old_workbook_that_needs_the_missing_package_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtraError, match=r"\.xls and \.xlsb needs .*'denslice\[files\]'"):
        read(source(tmp_path, "a.xls", old_workbook("A", [["words"]])))
