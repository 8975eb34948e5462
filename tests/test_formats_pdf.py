"""PDFs become documents: pages, reading order, words whole, properties, and what cannot be read."""

from __future__ import annotations

import gzip
import sys
from datetime import datetime
from pathlib import Path

import pytest
from fpdf import FPDF
from PIL import Image

from denslice.corpus.formats import pdf_pages
from denslice.corpus.formats.own_metadata import date_of_pdf, iso_date, own_title
from denslice.corpus.formats.pdf_pages import read_pdf
from denslice.corpus.formats.printed_text import searchable_text
from denslice.corpus.formats.source_file import Problem, SourceFile
from denslice.corpus.passages import cut
from denslice.errors import InputError, MissingExtraError, UnreadableError
from denslice.records import Doc
from office_files import pdf_bytes, raw_pdf, source
from office_files import pdf_pages as pages

LEFT = [
    "The quick brown fox jumps over a lazy dog, and it exam-",
    "ines the bank of the river for more of the same, while",
    "the sun goes down behind the mountains in the far west",
]
RIGHT = [
    "The second column begins here with the prices of grain",
    "in the northern provinces, which rose by a third in the",
    "year of the great flood and then fell again, as did oil",
]


def read(file: SourceFile) -> Doc:
    (doc,) = read_pdf(file)
    return doc


def unreadable(file: SourceFile) -> UnreadableError:
    with pytest.raises(UnreadableError) as raised:
        list(read_pdf(file))
    return raised.value


# Pages


def test_pages_have_form_feeds_between_them_and_an_empty_page_counts(tmp_path: Path) -> None:
    file = source(tmp_path, "a.pdf", pdf_bytes(pages("one", "", "three")))
    assert read(file).text == "one\f\fthree"
    assert file.problems == []


def test_passages_know_the_page_of_the_pdf_that_they_are_on(tmp_path: Path) -> None:
    full = "\n".join(f"Line {number} is about steam engines and their many uses." for number in range(40))
    text = read(source(tmp_path, "a.pdf", pdf_bytes(pages("", full, full)))).text
    found = {(place.page, text[place.start : place.end].count("Line 0")) for place in cut(text)}
    assert {(2, 1), (3, 1)} <= found
    assert {page for page, _ in found} == {2, 3}


def test_a_compressed_pdf_is_read(tmp_path: Path) -> None:
    assert read(source(tmp_path, "a.pdf.gz", gzip.compress(pdf_bytes(pages("packed"))))).text == "packed"


def test_a_name_that_is_not_utf_8_is_read(tmp_path: Path) -> None:
    path = tmp_path / "caf\udce9.pdf"
    path.write_bytes(pdf_bytes(pages("words")))
    assert read(SourceFile(path, "cafe.pdf")).text == "words"


def test_pages_after_the_limit_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_pages, "MOST_PAGES", 2)
    file = source(tmp_path, "a.pdf", pdf_bytes(pages("one", "two", "three")))
    assert read(file).text == "one\ftwo"
    assert file.problems == [Problem("a.pdf", "long document", "only the first 2 of 3 pages are read")]


def test_characters_after_the_limit_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_pages, "MOST_CHARACTERS", 5)
    file = source(tmp_path, "a.pdf", pdf_bytes(pages("one", "two", "three")))
    assert read(file).text == "one\ftwo"
    assert [problem.kind for problem in file.problems] == ["long document"]


def test_two_pdfs_can_be_read_in_turns(tmp_path: Path) -> None:
    one, two = (iter(read_pdf(source(tmp_path, f"{n}.pdf", pdf_bytes(pages(n))))) for n in ("one", "two"))
    assert (next(one).text, next(two).text) == ("one", "two")


# Reading order


def two_columns(*, line_by_line: bool, word_by_word: bool = False) -> FPDF:
    pdf = pages("")
    pdf.set_font("helvetica", size=16)
    pdf.text(20, 20, "A title that reaches over both columns of the page")
    pdf.set_font("helvetica", size=9)
    left = [(15.0, 30 + 5 * at, LEFT[at % 3]) for at in range(9)]
    right = [(110.0, 30 + 5 * at, RIGHT[at % 3]) for at in range(9)]
    ordered = [one for both in zip(left, right, strict=True) for one in both] if line_by_line else [*left, *right]
    for x, y, line in ordered:
        for word in line.split() if word_by_word else [line]:
            pdf.text(x, y, word)
            x += pdf.get_string_width(f"{word} ")
    pdf.text(100, 285, "17")
    return pdf


@pytest.mark.parametrize("word_by_word", [False, True])
@pytest.mark.parametrize("line_by_line", [False, True])
def test_two_columns_are_in_reading_order(tmp_path: Path, line_by_line: bool, word_by_word: bool) -> None:
    pdf = two_columns(line_by_line=line_by_line, word_by_word=word_by_word)
    words = read(source(tmp_path, "a.pdf", pdf_bytes(pdf))).text.split()
    columns = " ".join([*LEFT * 3, *RIGHT * 3]).replace("exam- ines", "examines")
    assert " ".join(words) == f"A title that reaches over both columns of the page {columns} 17"


def test_the_rows_of_a_table_stay_together(tmp_path: Path) -> None:
    rows = [(f"Person number {at}", f"{1800 + at}, in a town by the sea") for at in range(12)]
    pdf = pages("")
    with pdf.table() as table:
        for row in rows:
            table.row(row)
    text = read(source(tmp_path, "a.pdf", pdf_bytes(pdf))).text
    assert text.split("\n") == [" ".join(row) for row in rows]


def test_cells_of_prose_that_a_table_has_side_by_side_stay_in_their_rows(tmp_path: Path) -> None:
    pdf = pages("")
    with pdf.table(gutter_width=6, borders_layout="NONE") as table:
        for at in range(4):
            table.row([f"Left {at}. {' '.join(LEFT[1:])}", f"Right {at}. {' '.join(RIGHT[1:])}"])
    text = read(source(tmp_path, "a.pdf", pdf_bytes(pdf))).text
    order = [word + number for word, number in zip(text.split(), text.split()[1:], strict=False) if number[0] in "0123"]
    assert order == [f"{side}{at}." for at in range(4) for side in ("Left", "Right")]


# Words


@pytest.mark.parametrize(
    ("printed", "searched"),
    [
        ("exam\ufffeple", "example"),
        ("exam-\r\nple", "example"),
        ("exam\x02\nple", "example"),
        ("rep\u00adorts of soft\u00ad\r\nware", "reports of software"),
        ("well\ufffeKnown", "well-Known"),
        ("Jean-\nPaul", "Jean-\nPaul"),
        ("1990-\n1995", "1990-\n1995"),
        ("state-of-the\ufffeart", "state-of-the-art"),
        ("pre-\nand postwar", "pre- and postwar"),
        ("a dash -\nlike this", "a dash -\nlike this"),
        ("oﬃce ﬁnds ﬂow, ﬀ, ﬄ, ﬆ", "office finds flow, ff, ffl, st"),
        ("a\fb\0\x07c", "a bc"),
        ("ends\ufffe", "ends-"),
        (" Straße \r\n über ", "Straße \n über"),
    ],
)
def test_words_are_whole_and_have_no_ligatures(printed: str, searched: str) -> None:
    assert searchable_text(printed) == searched


def test_a_word_that_a_line_end_cuts_is_joined(tmp_path: Path) -> None:
    assert read(source(tmp_path, "a.pdf", pdf_bytes(pages("A good exam-\nple of it")))).text == "A good example of it"


def test_what_is_filled_in_a_form_is_read(tmp_path: Path) -> None:
    stream = "BT /F 12 Tf 10 10 Td (Lovelace) Tj ET"
    form = "/Type /XObject /Subtype /Form /BBox [0 0 200 40] /Resources << /Font << /F 6 0 R >> >>"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [4 0 R] >> >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Annots [4 0 R] >>",
        "<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Lovelace) /Rect [10 10 210 50] /F 4 /P 3 0 R"
        " /AP << /N 5 0 R >> >>",
        f"<< {form} /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    assert read(source(tmp_path, "a.pdf", raw_pdf(objects))).text == "Lovelace"


# Properties


def test_title_author_date_and_language_are_those_of_the_document(tmp_path: Path) -> None:
    pdf = pages("words")
    pdf.set_title("On Computable  Numbers")
    pdf.set_author("Alan Turing")
    pdf.set_creation_date(datetime(1936, 11, 12, 9, 30))
    pdf.set_lang("en-GB")
    doc = read(source(tmp_path, "a.pdf", pdf_bytes(pdf)))
    assert doc.title == "On Computable Numbers"
    assert doc.meta == {"author": "Alan Turing", "date": "1936-11-12T09:30:00Z", "language": "en-GB"}


@pytest.mark.parametrize(
    "given",
    ["report_final.docx", "C:\\x\\thesis.tex", "Microsoft Word - Letter", "untitled", "Untitled-1", "Slide 1", "  ",
     "PowerPoint Presentation", "Document1", "(anonymous)", "paper.DVI"],
)  # fmt: skip
def test_a_title_that_a_program_wrote_is_no_title(given: str) -> None:
    assert own_title(given) == ""


@pytest.mark.parametrize("given", ["Slides about pandas", "Untitled Goose Game", "Node.js in Action", "A document"])
def test_a_title_that_people_gave_is_one(given: str) -> None:
    assert own_title(given) == given


@pytest.mark.parametrize(
    ("given", "date"),
    [
        ("D:20160713165736-07'00'", "2016-07-13T23:57:36Z"),
        ("D:20160713165736Z00'00'", "2016-07-13T16:57:36Z"),
        ("D:20160713165736", "2016-07-13T16:57:36"),
        ("D:201607131657", "2016-07-13T16:57:00"),
        ("20160713", "2016-07-13"),
        ("D:2016", "2016"),
        ("D:20161399", ""),
        ("D:00010101000000+14'00'", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates_of_pdf_become_iso_dates(given: str, date: str) -> None:
    assert date_of_pdf(given) == date


def test_dates_keep_their_precision_and_become_utc_if_they_have_a_zone() -> None:
    given = ["2020", "2020-05", "2020-05-06", "2020-05-06T07:08:09.123456789", "2020-05-06T07:08:09+02:00", "May 2020"]
    dates = ["2020", "2020-05", "2020-05-06", "2020-05-06T07:08:09", "2020-05-06T05:08:09Z", ""]
    assert [iso_date(one) for one in given] == dates


# What cannot be read


def image_page(pdf: FPDF) -> FPDF:
    pdf.add_page()
    pdf.image(Image.new("RGB", (8, 8), "red"), 10, 10, 100, 100)
    return pdf


def test_a_scanned_page_is_reported(tmp_path: Path) -> None:
    file = source(tmp_path, "a.pdf", pdf_bytes(image_page(pages("one", ""))))
    assert read(file).text == "one\f\f"
    assert file.problems == [Problem("a.pdf", "scanned page", "page 3 has no text")]


def test_a_scanned_page_is_an_error_if_reading_is_strict(tmp_path: Path) -> None:
    file = source(tmp_path, "a.pdf", pdf_bytes(image_page(pages("one"))))
    file.strict = True
    with pytest.raises(InputError, match="page 2 has no text"):
        read(file)


@pytest.mark.parametrize("pdf", [image_page(FPDF()), pages("")])
def test_a_pdf_without_any_text_is_unreadable(tmp_path: Path, pdf: FPDF) -> None:
    file = source(tmp_path, "a.pdf", pdf_bytes(pdf))
    assert unreadable(file).kind == "scanned PDF"
    assert file.problems == []


def test_a_pdf_that_needs_a_password_is_unreadable(tmp_path: Path) -> None:
    pdf = pages("secret")
    pdf.set_encryption(owner_password="owner", user_password="user")
    assert unreadable(source(tmp_path, "a.pdf", pdf_bytes(pdf))).kind == "encrypted file"


def test_a_pdf_that_only_its_owner_may_change_is_read(tmp_path: Path) -> None:
    pdf = pages("open to all")
    pdf.set_encryption(owner_password="owner")
    assert read(source(tmp_path, "a.pdf", pdf_bytes(pdf))).text == "open to all"


@pytest.mark.parametrize("raw", [b"", b"no PDF", b"%PDF-1.7\n" + b"\0" * 500])
def test_what_is_no_pdf_is_damaged(tmp_path: Path, raw: bytes) -> None:
    error = unreadable(source(tmp_path, "a.pdf", raw))
    assert (error.kind, str(error)) == ("damaged file", "damaged, or not a PDF")


def test_a_page_that_is_missing_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    stream = "BT /F 12 Tf 10 10 Td (words) Tj ET"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [9 0 R 3 0 R] /Count 2 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    file = source(tmp_path, "a.pdf", raw_pdf(objects))
    assert read(file).text == "\fwords"
    assert file.problems == [Problem("a.pdf", "damaged page", "page 1 cannot be read")]


def outcome(file: SourceFile) -> str:
    try:
        return read(file).text.replace("\f", "")
    except UnreadableError as error:
        return error.kind


def test_a_pdf_that_is_cut_off_is_read_as_far_as_it_goes_or_damaged(tmp_path: Path) -> None:
    whole = pdf_bytes(pages("one", "two", "three"))
    ends = range(0, len(whole) + 1, len(whole) // 20)
    found = {outcome(source(tmp_path, "a.pdf", whole[:end])) for end in (*ends, len(whole))}
    assert {"damaged file", "onetwothree"} <= found <= {"damaged file", "scanned PDF", "one", "onetwo", "onetwothree"}


def test_a_file_that_does_not_exist_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(SourceFile(tmp_path / "a.pdf", "a.pdf"))


def test_a_missing_package_is_named_with_the_extra_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(MissingExtraError, match=r"reading PDF needs .* 'denslice\[files\]'"):
        read(source(tmp_path, "a.pdf", b"%PDF-1.7"))
