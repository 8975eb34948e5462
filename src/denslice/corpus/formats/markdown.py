"""Markdown, and its dialects with code and components: MDX, Quarto and R Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from denslice.corpus.formats.front_matter import front_matter
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.stated_fields import stated
from denslice.corpus.markup import markup_of
from denslice.records import Doc

MARKDOWN_ENDINGS = (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd")
TITLE_WITHIN = 8_000  # characters: a heading further down is that of a part
_image = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])")
_link = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
_tag = re.compile(r"<[^<>]*>")
_attributes = re.compile(r"\{[#.:][^{}]*\}$")
_emphasis = re.compile(r"`+|\*+|~~")
_html_heading = re.compile(r"<h1\b[^>]{0,200}>(.{0,500}?)</h1>", re.DOTALL | re.IGNORECASE)


def read_markdown(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document, with its front matter as metadata."""
    yield markdown_doc(file, file.text())


def markdown_doc(file: SourceFile, text: str) -> Doc:
    """Return the document of a text in Markdown, with its front matter as metadata."""
    fields, text = front_matter(file, text)
    title, meta = stated(fields)
    return Doc("", text, title or first_title(text), meta)


def first_title(text: str) -> str:
    """Return the heading that names a text: the first of level 1 near its start, else the first one, else nothing."""
    start = text[:TITLE_WITHIN]
    lines, headings, _, _ = markup_of(start)
    found = [(heading.level > 1, lines[heading.first].start, heading.text) for heading in headings]
    found += [(False, html.start(), html[1]) for html in _html_heading.finditer(start)]
    return next((title for _, _, heading in sorted(found) if (title := plain_title(heading))), "")


def plain_title(heading: str) -> str:
    """Return a heading without images, the addresses of links, tags, attributes and emphasis."""
    for pattern, kept in ((_image, ""), (_link, r"\1"), (_tag, ""), (_attributes, ""), (_emphasis, "")):
        heading = pattern.sub(kept, heading.strip())
    return " ".join(heading.split())
