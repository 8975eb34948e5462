"""PDF: the text of each page in reading order, with form feeds between pages, and the properties of the document."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from denslice.corpus.compression import is_compressed
from denslice.corpus.formats.file_damage import damage_reported
from denslice.corpus.formats.own_metadata import date_of_pdf, own_metadata, own_title
from denslice.corpus.formats.pdf_columns import PrintedCharacter, TextBox, alternating_gutter, in_columns
from denslice.corpus.formats.printed_text import searchable_text
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.lines import reading
from denslice.errors import MissingExtraError, UnreadableError
from denslice.records import Doc

MOST_PAGES = 20_000
MOST_CHARACTERS = 64 << 20
MOST_BOXES = 5_000  # of a page that may have columns: one with more is a drawing or a map
DEEPEST_IMAGE = 4  # levels of forms in which an image is looked for
LONGEST_LANGUAGE = 64  # characters
_one_thread = threading.Lock()  # PDFium must not be used by two at once


def read_pdf(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document; page n of the PDF is behind n - 1 form feeds.

    A page that shows an image and has no text is reported. Raise UnreadableError if no page has text, or if the file
    is damaged or needs a password.
    """
    with _one_thread, reading(file.path), damage_reported(), closing(_opened(file)) as pdf:
        text = "\f".join(_page_texts(file, pdf))
        doc = Doc("", text, own_title(_property(pdf, "Title")), _metadata(pdf))
    yield doc


def _opened(file: SourceFile) -> Any:
    """Return the document of PDFium; the caller closes it."""
    try:
        from pypdfium2 import PdfDocument, PdfiumError, raw
    except ImportError:
        raise MissingExtraError("reading PDF", "files") from None
    file.open().close()  # if it cannot be opened, this says why
    try:
        # From its path, a file is not read whole: one of scanned images may be large.
        return PdfDocument(file.data() if is_compressed(file.path) else file.path.absolute())
    except PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise UnreadableError("encrypted file", "encrypted with a password") from None
        raise UnreadableError("damaged file", "damaged, or not a PDF") from None


def _page_texts(file: SourceFile, pdf: Any) -> list[str]:
    """Return the text of each page; raise UnreadableError if none has any."""
    texts: list[str] = []
    scanned: list[int] = []
    characters = 0
    for number in range(1, min(len(pdf), MOST_PAGES) + 1):
        text, is_scanned = _page(file, pdf, number)
        texts.append(text)
        scanned += [number] * is_scanned
        characters += len(text)
        if characters > MOST_CHARACTERS:
            break
    if not characters:
        raise UnreadableError("scanned PDF", "pages are images without text" if scanned else "pages have no text")
    for number in scanned:
        file.skip("scanned page", f"page {number} has no text")
    if len(texts) < len(pdf):
        file.skip("long document", f"only the first {len(texts):,} of {len(pdf):,} pages are read")
    return texts


def _page(file: SourceFile, pdf: Any, number: int) -> tuple[str, bool]:
    """Return the text of a page, and whether it is an image instead; a damaged page is reported."""
    from pypdfium2 import PdfiumError

    try:
        _show_fields(pdf, number)
        with closing(pdf[number - 1]) as page, closing(page.get_textpage()) as text_page:
            text = searchable_text(_in_reading_order(text_page))
            return text, not text and _has_image(page)
    except PdfiumError:
        file.skip("damaged page", f"page {number} cannot be read")
        return "", False


def _show_fields(pdf: Any, number: int) -> None:
    """Make what is filled in the fields of a form a part of the page's text, in memory."""
    from pypdfium2 import raw

    if pdf.get_formtype() != raw.FORMTYPE_NONE:
        with closing(pdf[number - 1]) as page:
            raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)


def _in_reading_order(text_page: Any) -> str:
    boxes = text_page.count_rects()
    gutter = alternating_gutter(_boxes(text_page, boxes)) if boxes <= MOST_BOXES else None
    return text_page.get_text_range() if gutter is None else in_columns(_characters(text_page), gutter)


def _boxes(text_page: Any, count: int) -> list[TextBox]:
    """Return the boxes of the text in the order in which it was written."""
    from pypdfium2 import raw

    left, bottom, right, top = (ctypes.c_double() for _ in range(4))
    boxes = []
    for number in range(count):
        raw.FPDFText_GetRect(text_page, number, left, top, right, bottom)
        boxes.append(TextBox(left.value, bottom.value, right.value, top.value))
    return boxes


def _characters(text_page: Any) -> Iterator[PrintedCharacter]:
    """Yield the characters of a page with their boxes; those that PDFium adds have none."""
    from pypdfium2 import raw

    for at in range(text_page.count_chars()):
        box = TextBox(*text_page.get_charbox(at))
        yield chr(raw.FPDFText_GetUnicode(text_page, at)), box if box.right > box.left else None


def _has_image(page: Any) -> bool:
    from pypdfium2 import raw

    return any(True for _ in page.get_objects([raw.FPDF_PAGEOBJ_IMAGE], max_depth=DEEPEST_IMAGE))


def _metadata(pdf: Any) -> Mapping[str, str]:
    date = date_of_pdf(_property(pdf, "CreationDate")) or date_of_pdf(_property(pdf, "ModDate"))
    return own_metadata(_property(pdf, "Author"), date, _language(pdf))


def _property(pdf: Any, name: str) -> str:
    """Return a property of the document, or nothing if it is no text."""
    try:
        return str(pdf.get_metadata_value(name)).replace("\0", "")
    except UnicodeDecodeError:
        return ""


def _language(pdf: Any) -> str:
    """Return the language that the catalog names, such as en-GB."""
    from pypdfium2 import raw

    buffer = (raw.FPDF_WCHAR * LONGEST_LANGUAGE)()
    size = raw.FPDFCatalog_GetLanguage(pdf, buffer, ctypes.sizeof(buffer))
    if size > ctypes.sizeof(buffer):
        return ""
    return bytes(buffer)[: max(size - 2, 0)].decode("utf-16-le", "replace")
