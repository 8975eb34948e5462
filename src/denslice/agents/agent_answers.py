"""What the tools return: JSON for a program, and the same as text for a model to read."""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Any

from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from denslice.agents.token_budget import tokens_of


class AgentAnswer(BaseModel):
    """The answer of a tool."""

    warnings: list[str] = Field(default=[], description="Likely mistakes in the call, and what is out of date.")

    @abstractmethod
    def readable(self) -> str:
        """Return the answer as text."""

    def cost(self) -> int:
        """Return the tokens of the answer: of its text or its JSON, whichever has more, as a client shows one."""
        return max(tokens_of(self._text()), tokens_of(self.model_dump_json()))

    def result(self) -> CallToolResult:
        """Return the answer as the protocol has it."""
        return CallToolResult(
            content=[TextContent(type="text", text=self._text())], structured_content=self.model_dump(mode="json")
        )

    def _text(self) -> str:
        return "\n".join([self.readable(), *(f"Warning: {warning}" for warning in self.warnings)])


class PassageText(BaseModel):
    """A passage that was found. `get` with its id and number returns the text around it."""

    id: str = Field(description="Id of the document.")
    passage: int = Field(description="Number of the passage in its document, from 0.")
    title: str
    heading: str = Field(description="Headings above the passage, from the outermost to the innermost.")
    page: int | None = Field(description="Page on which the passage begins, from 1, if the document has pages.")
    start: int = Field(description="First character of the passage in the text of its document.")
    end: int
    length: int = Field(description="Characters of the document's text.")
    score: float
    text: str
    is_cut: bool = Field(default=False, description="Whether the end of the text is missing.")

    def readable(self) -> str:
        """Return the place, the title and the text."""
        where = [self.id, f"passage {self.passage}"]
        if self.page is not None:
            where.append(f"page {self.page}")
        where.append(f"characters {self.start} to {self.end} of {self.length}")
        head = [", ".join(where), *(line for line in (self.title, self.heading) if line)]
        return "\n".join([*head, self.text.strip() + (" …" if self.is_cut else "")])


class SearchAnswer(AgentAnswer):
    """Passages, best first."""

    passages: list[PassageText]
    left_out: int = Field(default=0, description="Passages that were found but do not fit the budget of tokens.")
    next: int | None = Field(default=None, description="The `offset` of those; null if all fit.")
    corrections: list[str] = Field(default=[], description="Words that were taken for others: `recieve → receive`.")

    def readable(self) -> str:
        """Return the passages with numbers, and what is missing."""
        if not self.passages and not self.left_out:
            return "Nothing was found. Use other words, fewer conditions, or another filter."
        parts = [f"[{number}] {passage.readable()}" for number, passage in enumerate(self.passages, 1)]
        if self.corrections:
            parts.append(f"Corrected words: {', '.join(self.corrections)}")
        if self.left_out:
            parts.append(f"{self.left_out} more passages do not fit: call search with offset {self.next}.")
        return "\n\n".join(parts)


class DocumentPart(AgentAnswer):
    """A document, or the part of it that fits."""

    id: str
    title: str
    meta: dict[str, Any] = Field(description="Metadata; a filter can name each field.")
    text: str
    start: int = Field(description="First character of the text in that of the document.")
    end: int
    length: int = Field(description="Characters of the document's text.")
    passages: int = Field(description="Number of passages of the document.")
    next: int | None = Field(default=None, description="The `start` that reads on; null at the end of the document.")

    def readable(self) -> str:
        """Return title, metadata, text, and how to read on."""
        head = [f"{self.id}, characters {self.start} to {self.end} of {self.length}", self.title]
        head += [json.dumps(self.meta, ensure_ascii=False)] if self.meta else []
        rest = [] if self.next is None else [f"\nThe document goes on: call get with start {self.next}."]
        return "\n".join([*filter(None, head), "", self.text, *rest])


class ScoreTerm(BaseModel):
    """A word and what it adds to the score."""

    token: str
    contribution: float


class ScoreAnswer(AgentAnswer):
    """Why a document or passage has its score: `meaning` and the contributions of all words sum to it."""

    id: str
    score: float
    words: float = Field(description="What the words add that the query and the document share.")
    meaning: float = Field(description="What the dense vectors add, by which meaning is compared.")
    terms: list[ScoreTerm] = Field(description="The words, the strongest first.")
    terms_left_out: int = Field(default=0, description="Weaker words that do not fit the budget of tokens.")
    conditions: list[str] = Field(description="Conditions of the query, which say what is found and add no score.")
    corrections: list[str]

    def readable(self) -> str:
        """Return the sum and its parts."""
        lines = [f"{self.id}: score {self.score:g} = {self.words:g} from words + {self.meaning:g} from meaning"]
        lines += [f"{term.token}: {term.contribution:g}" for term in self.terms]
        lines += [f"{self.terms_left_out} weaker words are left out."] if self.terms_left_out else []
        lines += [f"Conditions: {', '.join(self.conditions)}"] if self.conditions else []
        lines += [f"Corrected words: {', '.join(self.corrections)}"] if self.corrections else []
        return "\n".join(lines)


class DocumentLine(BaseModel):
    """A document in a list."""

    id: str
    title: str
    passages: int
    characters: int


class ListAnswer(AgentAnswer):
    """Documents in the order in which they are stored."""

    documents: list[DocumentLine]
    total: int = Field(description="Documents of the whole index.")
    filterable: list[str] = Field(description="Metadata fields with an index, for which filters are fast.")
    next: int | None = Field(default=None, description="The `offset` that continues the list; null at its end.")

    def readable(self) -> str:
        """Return a line for each document, and how to continue."""
        lines = [f"{one.id}\t{one.title}\tpassages: {one.passages}" for one in self.documents]
        if self.next is not None:
            lines.append(f"More follow: call list with offset {self.next}.")
        return "\n".join([f"{len(self.documents)} of {self.total} documents:", *lines])


class AddAnswer(AgentAnswer):
    """A document that was added."""

    id: str
    replaced: bool = Field(description="Whether a document with this id was there before.")
    total: int = Field(description="Documents of the index now.")

    def readable(self) -> str:
        """Return what was done."""
        return f"{'Replaced' if self.replaced else 'Added'} {self.id}; the index has {self.total} documents."


class SyncAnswer(AgentAnswer):
    """What a sync changed. Counts are of files."""

    added: int
    changed: int
    renamed: int
    removed: int
    unchanged: int
    total: int = Field(description="Documents of the index now.")
    skipped: int = Field(description="Files, or parts of them, that could not be read.")
    problems: list[str] = Field(description="Why, for the first of them.")

    def readable(self) -> str:
        """Return the counts and the problems."""
        counts = {"added": self.added, "changed": self.changed, "renamed": self.renamed, "removed": self.removed}
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        lines = [f"{told}, {self.unchanged} unchanged; the index has {self.total} documents."]
        lines += [f"{self.skipped} could not be read, such as:", *self.problems] if self.skipped else []
        return "\n".join(lines)
