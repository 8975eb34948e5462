"""The tools that read an index: search, get, explain and list. Their docstrings are what an agent reads of them.

The SDK calls each in a thread of its own, so none blocks the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from mcp.types import CallToolResult
from pydantic import Field

from denslice.agents.agent_answers import (
    DocumentLine,
    DocumentPart,
    ListAnswer,
    PassageText,
    ScoreAnswer,
    ScoreTerm,
    SearchAnswer,
)
from denslice.agents.agent_calls import call_on, on_a_line, unknown_id
from denslice.agents.document_parts import around_passage, from_character
from denslice.agents.token_budget import FEWEST_TOKENS, MOST_TOKENS, most
from denslice.errors import InputError
from denslice.index.index import Index
from denslice.index.listing import list_docs
from denslice.rankings import Hit

Where = Annotated[
    dict[str, Any] | None,
    Field(description='Only documents whose metadata pass this filter, such as {"year": {"gte": 2020}, "lang": "en"}.'),
]
DocumentId = Annotated[str, Field(min_length=1, max_length=4_000, description="Id of a document, exactly as found.")]
Typed = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2_000,
        description='A question or words. Operators: "exact phrase", -without, +with, field:word, prefix*, a OR b.',
    ),
]
Tokens = Annotated[
    int | None,
    Field(
        ge=FEWEST_TOKENS,
        le=MOST_TOKENS,
        description="Size of the answer at most, in tokens. Default: all that the server allows.",
    ),
]
Skipped = Annotated[int, Field(ge=0, le=1_000_000, description="How many to skip at the beginning.")]


@dataclass(frozen=True)
class ReadingTools:
    """The tools that read. No answer has more than `tokens` tokens."""

    index: Index
    tokens: int

    def search(
        self,
        query: Typed,
        k: Annotated[int, Field(ge=1, le=100, description="Number of passages at most.")] = 10,
        where: Where = None,
        offset: Skipped = 0,
        tokens: Tokens = None,
    ) -> Annotated[CallToolResult, SearchAnswer]:
        """Search the documents by words and by meaning, and return the best passages with their places.

        Ask a whole question, or give names and terms. Each passage has the id of its document and its number in it:
        `get` with both returns the text around it.
        """
        with call_on(self.index) as warnings:
            ranking = self.index.search(query, k, where=where, offset=offset, group=False)
            told = [str(one) for one in ranking.corrections]
            nothing = SearchAnswer(passages=[], corrections=told, warnings=warnings)
            return _fitted(nothing, [_passage(hit) for hit in ranking], offset, self._budget(tokens)).result()

    def get(
        self,
        id: DocumentId,
        passage: Annotated[
            int | None, Field(ge=0, description="Number of a passage: the text around it is returned.")
        ] = None,
        start: Annotated[
            int, Field(ge=0, description="Character of the text to begin with, to read on in a long document.")
        ] = 0,
        tokens: Tokens = None,
    ) -> Annotated[CallToolResult, DocumentPart]:
        """Read a document: its beginning, the part from `start` on, or the text around one of its passages.

        A long document does not fit one answer; `next` is the `start` that reads on. The metadata are returned too.
        """
        with call_on(self.index) as warnings:
            reader = self.index.reader
            doc, places = reader.get(id), reader.places(id)
            if doc is None or places is None:
                raise unknown_id(id)
            if passage is not None and start:
                raise InputError("passage and start both say where to read; give one of them")
            if passage is None:
                return from_character(doc, len(places), start, self._budget(tokens), warnings).result()
            return around_passage(doc, places, passage, self._budget(tokens), warnings).result()

    def explain(
        self,
        query: Typed,
        id: DocumentId,
        passage: Annotated[
            int | None, Field(ge=0, description="Number of a passage, to explain its score and not the document's.")
        ] = None,
        tokens: Tokens = None,
    ) -> Annotated[CallToolResult, ScoreAnswer]:
        """Explain why a document or passage is found for a query: what each word and the meaning add to its score."""
        with call_on(self.index) as warnings:
            if self.index.get(id) is None:
                raise unknown_id(id)
            why = self.index.explain(query, id, passage=passage)
            terms = sorted(why.terms, key=lambda term: -term.contribution)
            shares = [ScoreTerm(token=term.token, contribution=round(term.contribution, 4)) for term in terms]
            whole = ScoreAnswer(
                id=id,
                score=round(why.score, 4),
                words=round(why.lexical, 4),
                meaning=round(why.dense, 4),
                terms=[],
                conditions=[*why.conditions],
                corrections=[*why.corrections],
                warnings=warnings,
            )

            def first(count: int) -> ScoreAnswer:
                left = {"terms": shares[:count], "terms_left_out": len(shares) - count}
                return whole.model_copy(update=left)

            return first(most(len(shares), lambda count: first(count).cost() <= self._budget(tokens))).result()

    def list_documents(
        self,
        where: Where = None,
        offset: Skipped = 0,
        limit: Annotated[int, Field(ge=1, le=1_000, description="Number of documents at most.")] = 100,
        tokens: Tokens = None,
    ) -> Annotated[CallToolResult, ListAnswer]:
        """List the documents with their ids and titles, as they are stored, without a search."""
        with call_on(self.index) as warnings:
            reader = self.index.reader
            some = list(islice(list_docs(reader, where), offset, offset + limit + 1))
            lines = [
                DocumentLine(id=doc.id, title=on_a_line(doc.title), passages=doc.passages, characters=doc.characters)
                for doc in some
            ]
            filterable = [*reader.snapshot.manifest.filterable]
            total = reader.statistics.docs

            def first(count: int) -> ListAnswer:
                following = offset + count if count < len(lines) else None
                return ListAnswer(
                    documents=lines[:count], total=total, filterable=filterable, next=following, warnings=warnings
                )

            budget = self._budget(tokens)
            return first(most(min(limit, len(lines)), lambda count: first(count).cost() <= budget)).result()

    def _budget(self, asked: int | None) -> int:
        return min(asked or self.tokens, self.tokens)


def _passage(hit: Hit) -> PassageText:
    place = hit.passages[0]
    return PassageText(
        id=hit.id,
        passage=place.number,
        title=on_a_line(hit.title),
        heading=on_a_line(place.heading),
        page=place.page,
        start=place.start,
        end=place.end,
        length=place.document_length,
        score=round(hit.score, 4),
        text=hit.text,
    )


def _fitted(nothing: SearchAnswer, found: Sequence[PassageText], offset: int, tokens: int) -> SearchAnswer:
    """Return the best passages that fit. If not even the best one does, its end is left out."""

    def answer(passages: Sequence[PassageText]) -> SearchAnswer:
        left = len(found) - len(passages)
        following = offset + len(passages) if left else None
        return nothing.model_copy(update={"passages": [*passages], "left_out": left, "next": following})

    count = most(len(found), lambda count: answer(found[:count]).cost() <= tokens)
    if count or not found:
        return answer(found[:count])

    def cut(length: int) -> SearchAnswer:
        return answer([found[0].model_copy(update={"text": found[0].text[:length], "is_cut": True})])

    return cut(most(len(found[0].text), lambda length: cut(length).cost() <= tokens))
