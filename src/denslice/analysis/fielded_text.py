"""FieldedText: a text that knows which part of it is a title and which headings are above it."""

from __future__ import annotations


class FieldedText(str):
    """What an encoder reads of a document or passage: its title, then its text. Encoders may read it as a plain string.

    Its words count by field: those before `title_end` belong to the title, and those of `heading`, which is not in the
    string, to the headings above a passage.
    """

    title_end: int
    heading: str

    @classmethod
    def of(cls, title: str, text: str, heading: str = "") -> FieldedText:
        """Return a text with its title and the headings above it."""
        made = cls(f"{title} {text}" if title else text)
        made.title_end, made.heading = len(title), heading
        return made

    @property
    def fields(self) -> tuple[str, str, str]:
        """The title, the text without it, and the headings."""
        return self[: self.title_end], self[self.title_end :], self.heading


def fields_of(text: str) -> tuple[str, str, str]:
    """Return title, text and headings; a plain string is all text."""
    return text.fields if isinstance(text, FieldedText) else ("", text, "")
