"""Rankings: the hits of a query, their passages, explanations and counts.

All are frozen. Texts are fetched when a hit is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

from denslice.computed_once import computed_once
from denslice.errors import InputError
from denslice.hit_tables import arrow_table, pandas_table
from denslice.html_views import DENSE, WORDS, HitView, ScorePart, explanation_html, number, ranking_html
from denslice.marked_text import Highlight
from denslice.records import Doc, given_id

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SHOWN_HITS = 20  # of a ranking in a notebook
SNIPPET = 240  # characters of a passage that are shown if no word of the query is in it


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document that matches: its number in the document from 0, its text, where that is, and its scores.

    `start`, `end` and `document_length` count the characters of the document's text. A passage is scored as a document
    of its own.
    """

    number: int
    text: str
    start: int
    end: int
    heading: str = ""
    page: int | None = None
    score: float = 0.0
    lexical: float = 0.0
    dense: float = 0.0
    document_length: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the passage is all of its document."""
        return self.end - self.start == self.document_length

    @property
    def place(self) -> str:
        """Where the passage is in its document, such as `Install › Linux, page 3, passage 7`; "" if it is all of it."""
        page = "" if self.page is None else f"page {self.page}"
        return "" if self.is_whole else ", ".join(filter(None, [self.heading, page, f"passage {self.number}"]))


@dataclass(frozen=True, slots=True)
class Hit:
    """One result. `score` is `lexical` plus `dense`, which is λ times the dense inner product.

    `passages` are the document's best passages, best first. If passages were searched, a hit is one passage: `text` is
    its text, and the id, title and metadata are those of its document.
    """

    id: str
    score: float
    lexical: float
    dense: float
    text: str = ""
    title: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    passages: tuple[Passage, ...] = ()
    asked: AskedQuery | None = field(default=None, repr=False, compare=False)

    @property
    def highlights(self) -> tuple[Highlight, ...]:
        """Snippets of the title and the passages in which the words of the query are marked, best passage first."""
        return self.asked.highlights(self) if self.asked else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as a JSON object, from which `Doc.from_dict` reads the document."""
        scores = {"id": self.id, "score": self.score, "lexical": self.lexical, "dense": self.dense}
        passages = {"passages": [asdict(passage) for passage in self.passages]}
        return scores | Doc(self.id, self.text, self.title, self.meta).to_dict() | passages


FoundDoc = tuple[Doc, tuple[Passage, ...]]  # a document that was found, with its best passages


class Correction(NamedTuple):
    """A word of a query that the collection does not have, and the word that it is taken for."""

    typed: str
    meant: str

    def __str__(self) -> str:
        return f"{self.typed} → {self.meant}"


class AskedQuery(Protocol):
    """The query of a ranking as it was encoded, with the commit that was searched."""

    def corrections(self) -> tuple[Correction, ...]:
        """Return the words that the collection does not have, with those that they are taken for."""

    def highlights(self, hit: Hit) -> tuple[Highlight, ...]:
        """Return snippets of a hit with the words of the query marked."""

    def tokens(self) -> set[str]:
        """Return the query's tokens."""

    def explain(self, id: str, passage: int | None = None) -> Explanation:
        """Explain the score of the document with this id, or of one of its passages."""


class MatchCounts(NamedTuple):
    """How many documents match a query, and how many of them have each value of some fields."""

    matching: int
    facets: Mapping[str, Mapping[Any, int]] = {}


class SearchedPage(Protocol):
    """The page of results that a ranking is."""

    @property
    def has_facets(self) -> bool:
        """Whether values of fields are to be counted."""

    @property
    def is_arranged(self) -> bool:
        """Whether the hits are sorted by a field or in groups."""

    def counts(self) -> MatchCounts:
        """Count the documents that match."""

    def cursor(self) -> str | None:
        """Return what continues after the page, or None if no more follow."""


@dataclass(frozen=True)
class Ranking(Sequence[Hit]):
    """The documents found for one query, best first: a sequence of hits, or the lines of one query in a run.

    Texts and metadata are fetched with the first access to a hit, from the snapshot that was searched.
    """

    query_id: str
    ids: tuple[str, ...]
    scores: tuple[float, ...]
    parts: tuple[tuple[float, float], ...] = field(default=(), repr=False)  # lexical and weighted dense score of each
    documents: Callable[[], Sequence[FoundDoc]] | None = field(default=None, repr=False, compare=False)
    asked: AskedQuery | None = field(default=None, repr=False, compare=False)
    missing: tuple[str, ...] = ()  # shards of a cluster that did not answer: their documents are missing
    passages: tuple[int, ...] = ()  # the number of each passage in its document, if passages were searched
    page: SearchedPage | None = field(default=None, repr=False, compare=False)
    exact: bool = field(default=True, repr=False, compare=False)  # False if better documents may have been skipped

    @computed_once
    def _hits(self) -> tuple[Hit, ...]:
        docs: Sequence[FoundDoc] = self.documents() if self.documents else [(Doc(id), ()) for id in self.ids]
        parts = self.parts or [(score, 0.0) for score in self.scores]
        found = zip(docs, self.scores, parts, strict=True)
        asked = self.asked
        return tuple(Hit(d.id, score, *both, d.text, d.title, d.meta, some, asked) for (d, some), score, both in found)

    @computed_once
    def _counts(self) -> MatchCounts:
        if self.page is None:
            raise InputError("this ranking was read from a run, and only a search counts the documents that match")
        return self.page.counts()

    @property
    def matching(self) -> int:
        """How many documents match: they have a word of the query and pass its filter. Counted on first access.

        If the query has no words, or is searched by dense vectors alone, all documents that pass the filter match.
        """
        return self._counts.matching

    @property
    def facets(self) -> Mapping[str, Mapping[Any, int]]:
        """For each field of the option `facets`, how many matching documents have each value, most frequent first."""
        return self._counts.facets if self.page and self.page.has_facets else {}

    @computed_once
    def cursor(self) -> str | None:
        """What the option `cursor` takes to continue after the last hit, or None if no more follow."""
        return self.page.cursor() if self.page else None

    def explain(self, id: str | int, passage: int | None = None) -> Explanation:
        """Explain the score of the document with this id, or of its passage with this number.

        The query is not encoded again.
        """
        if self.asked is None:
            raise InputError("this ranking was read from a run, and only a search can explain its scores")
        return self.asked.explain(given_id(id), passage)

    def explanations(self) -> list[Explanation]:
        """Explain the score of each hit, in their order."""
        numbers: Sequence[int | None] = self.passages or [None] * len(self.ids)
        return [self.explain(id, number) for id, number in zip(self.ids, numbers, strict=True)]

    @property
    def corrections(self) -> tuple[Correction, ...]:
        """The words of the query that the collection does not have, with those that they are taken for."""
        return self.asked.corrections() if self.asked else ()

    def tokens(self) -> set[str]:
        """Return the query's tokens, to find them in the texts of the hits."""
        return self.asked.tokens() if self.asked else set()

    def to_pandas(self) -> pd.DataFrame:
        """Return the hits as a data frame: rank, id, score, lexical, dense, title, text, and the fields of metadata.

        A field of metadata that has the name of another column is called `meta.NAME`.
        """
        return pandas_table([hit.to_dict() for hit in self], self.passages)

    def to_arrow(self) -> pa.Table:
        """Return the hits as an Arrow table with the columns of `to_pandas`."""
        return arrow_table([hit.to_dict() for hit in self], self.passages)

    def _repr_html_(self) -> str:
        """Return the first hits as a notebook shows them."""
        notes = [f"Searched for: {', '.join(map(str, self.corrections))}"] if self.corrections else []
        notes += [f"No answer from {', '.join(self.missing)}: hits may be missing."] if self.missing else []
        return ranking_html([_hit_view(hit) for hit in self._hits[:SHOWN_HITS]], len(self), notes)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Hit: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Hit]: ...

    def __getitem__(self, at: int | slice) -> Hit | Sequence[Hit]:
        return self._hits[at]


@dataclass(frozen=True, slots=True)
class Term:
    """The contribution of one token to a score: query_weight · doc_weight.

    `token` is the word or phrase of the document. Phrases share token ids by a hash: if `collision` is true, the query
    and the document have different phrases with this id, and some or all of the contribution is due to chance.
    """

    token: str
    query_weight: float
    doc_weight: float
    contribution: float
    collision: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a document's score: the contributions of `terms` and `dense` sum to `score`.

    `lost` are query tokens that the document has and the slicing dropped, with the contributions they would have made.
    In a document of several passages, `dense` is the sum of `best`, which its best passage adds, and `mean`, which
    comes from all of them. `passage` is the number of the best passage by dense score, or of the one explained.
    `conditions` are those of the query, as people type them, and `corrections` its words that were taken for others.
    """

    id: str
    score: float
    lexical: float
    dense: float
    terms: tuple[Term, ...]
    lost: tuple[Term, ...]
    best: float = 0.0
    mean: float = 0.0
    passage: int | None = None
    conditions: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return the parts of the score as a notebook shows them."""
        parts = [*_dense_parts(self), *map(_word_part, self.terms)]
        lost = list(map(_word_part, self.lost))
        return explanation_html(self.id, self.score, parts, lost, ", ".join((*self.corrections, *self.conditions)))


# --- what a notebook shows


def _hit_view(hit: Hit) -> HitView:
    """Return a hit with its best snippet, or with the beginning of its best passage if that has no marks."""
    marked = {one.field: one for one in reversed(hit.highlights)}  # of several snippets of a field, the first
    title = marked.get("title") or Highlight("title", hit.title, 0, ())
    snippet = marked.get("text") or _beginning(hit)
    place = hit.passages[0].place if hit.passages else ""
    return HitView(title, hit.id, hit.score, hit.lexical, hit.dense, snippet, len(hit.text), place)


def _beginning(hit: Hit) -> Highlight:
    best = hit.passages[0] if hit.passages else Passage(0, hit.text, 0, len(hit.text))
    start = best.start if best.document_length == len(hit.text) else 0  # the text of a hit may be that of the passage
    return Highlight("text", best.text[:SNIPPET], start, ())


def _word_part(term: Term) -> ScorePart:
    name = f"{term.token} (hash collision)" if term.collision else term.token
    return ScorePart(name, WORDS, term.contribution, f"{number(term.query_weight)} × {number(term.doc_weight)}")


def _dense_parts(why: Explanation) -> list[ScorePart]:
    """Return the dense score, or in a document of several passages what the best one and all of them add to it."""
    best, mean = f"dense, best passage {why.passage}", "dense, mean of all"
    shares = {best: why.best, mean: why.mean} if why.best or why.mean else {"dense": why.dense}
    return [ScorePart(name, DENSE, share) for name, share in shares.items() if share]
