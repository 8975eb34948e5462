"""Web pages that a browser saved in one file, MHTML: a message whose first part of HTML is the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from denslice.corpus.formats.html_pages import page_doc
from denslice.corpus.formats.mail_messages import decoded_part, header_text, parsed_message
from denslice.corpus.formats.source_file import SourceFile
from denslice.errors import UnreadableError
from denslice.records import Doc


def read_mhtml(file: SourceFile) -> Iterator[Doc]:
    """Yield a saved page as one document; the pages in its frames and its pictures are not read."""
    message = parsed_message(file.data())
    page = next((part for part in message.walk() if part.get_content_type() == "text/html"), None)
    if page is None:
        raise UnreadableError("damaged file", "no saved page: it has no part of HTML")
    doc = page_doc(decoded_part(page))
    address = header_text(message, "Snapshot-Content-Location")
    yield replace(doc, meta={**doc.meta, "url": address}) if address else doc
