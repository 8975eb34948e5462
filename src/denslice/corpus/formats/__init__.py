"""The formats of files. A new format is one file here that yields documents, and a line in FORMATS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from denslice.corpus.formats.arrow_tables import read_arrow
from denslice.corpus.formats.csv_tables import read_csv, read_tsv
from denslice.corpus.formats.epub_books import read_epub
from denslice.corpus.formats.html_pages import read_html
from denslice.corpus.formats.json_records import read_json, read_json_lines
from denslice.corpus.formats.latex import LATEX_ENDINGS, read_latex
from denslice.corpus.formats.mail_messages import read_eml
from denslice.corpus.formats.mailboxes import read_mbox
from denslice.corpus.formats.markdown import MARKDOWN_ENDINGS, read_markdown
from denslice.corpus.formats.notebooks import read_notebook
from denslice.corpus.formats.odf_texts import read_odf
from denslice.corpus.formats.org_mode import read_org
from denslice.corpus.formats.pdf_pages import read_pdf
from denslice.corpus.formats.plain_text import read_plain_text
from denslice.corpus.formats.restructured_text import read_restructured_text
from denslice.corpus.formats.slides_pptx import read_pptx
from denslice.corpus.formats.source_code import SOURCE_ENDINGS, read_source_code
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.spreadsheets import read_spreadsheet
from denslice.corpus.formats.web_archives import read_mhtml
from denslice.corpus.formats.word_docx import read_docx
from denslice.records import Doc


class Format(NamedTuple):
    """How a file becomes documents. They have empty ids, unless the file itself has an id for each.

    A reader returns the title that the file gives itself, if any, and what it knows of itself as metadata: `author`,
    `date` (ISO 8601), `language`. The caller adds the id, the path, the time of modification, and the file's name as
    the title of a document without one.
    """

    read: Callable[[SourceFile], Iterable[Doc]]
    many: bool = False  # documents; without ids they are numbered


PLAIN_TEXT = Format(read_plain_text)  # of files with any other extension, too
FORMATS: dict[str, Format] = {
    ".txt": PLAIN_TEXT,
    **dict.fromkeys(MARKDOWN_ENDINGS, Format(read_markdown)),
    **dict.fromkeys((".rst", ".rest"), Format(read_restructured_text)),
    ".org": Format(read_org),
    **dict.fromkeys(LATEX_ENDINGS, Format(read_latex)),
    **dict.fromkeys(SOURCE_ENDINGS, Format(read_source_code)),
    ".ipynb": Format(read_notebook),
    **dict.fromkeys((".html", ".htm", ".xhtml", ".shtml"), Format(read_html)),
    **dict.fromkeys((".mhtml", ".mht"), Format(read_mhtml)),
    ".epub": Format(read_epub),
    ".eml": Format(read_eml),
    ".mbox": Format(read_mbox, many=True),
    ".pdf": Format(read_pdf),
    **dict.fromkeys((".docx", ".docm", ".dotx"), Format(read_docx)),
    **dict.fromkeys((".pptx", ".pptm", ".ppsx"), Format(read_pptx)),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), Format(read_spreadsheet)),
    **dict.fromkeys((".odt", ".fodt", ".odp"), Format(read_odf)),
    **dict.fromkeys((".csv", ".psv"), Format(read_csv, many=True)),
    **dict.fromkeys((".tsv", ".tab"), Format(read_tsv, many=True)),
    ".json": Format(read_json, many=True),
    **dict.fromkeys((".jsonl", ".ndjson"), Format(read_json_lines, many=True)),
    **dict.fromkeys((".parquet", ".arrow", ".feather", ".ipc"), Format(read_arrow, many=True)),
}
