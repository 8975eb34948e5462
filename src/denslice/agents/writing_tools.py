"""The tools that change an index: add and sync. An agent has them with `--writable` only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from denslice.agents.agent_answers import AddAnswer, SyncAnswer
from denslice.agents.agent_calls import call_on, on_a_line
from denslice.agents.reading_tools import DocumentId
from denslice.errors import InputError
from denslice.index.followed_paths import followed_roots
from denslice.index.index import Index
from denslice.records import Doc

PROBLEMS = 10  # that an answer tells


@dataclass(frozen=True)
class WritingTools:
    """The tools that write. Each call is one commit."""

    index: Index

    def add(
        self,
        id: DocumentId,
        text: Annotated[str, Field(min_length=1, max_length=1_000_000, description="The text, in plain words.")],
        title: Annotated[str, Field(max_length=1_000)] = "",
        metadata: Annotated[
            dict[str, Any] | None, Field(description="Fields that filters can name, such as a date or an author.")
        ] = None,
    ) -> Annotated[CallToolResult, AddAnswer]:
        """Add a document, which searches find at once. A document with the same id is replaced."""
        with call_on(self.index) as warnings:
            replaced = self.index.get(id) is not None
            self.index.add([Doc(id, text, title, metadata or {})])
            return AddAnswer(id=id, replaced=replaced, total=len(self.index), warnings=warnings).result()

    def sync(self) -> Annotated[CallToolResult, SyncAnswer]:
        """Read the files again that are new or have changed in the folders that this index follows."""
        with call_on(self.index) as warnings:
            if not followed_roots(self.index.reader.snapshot.manifest):
                advice = "a person makes it follow one with `denslice sync FOLDER --to INDEX`"
                raise InputError(f"this index follows no folder; {advice}")
            done = self.index.sync()
            problems = [on_a_line(f"{one.place}: {one.problem}") for one in done.problems[:PROBLEMS]]
            return SyncAnswer(
                added=done.added,
                changed=done.changed,
                renamed=done.renamed,
                removed=done.removed,
                unchanged=done.unchanged,
                total=len(self.index),
                skipped=len(done.problems),
                problems=problems,
                warnings=[*warnings, *done.remarks],
            ).result()
