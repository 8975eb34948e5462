"""Pydantic models of requests and responses. /openapi.json is generated from them."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Json, model_validator
from pydantic.json_schema import SkipJsonSchema

from denslice.analysis.normal_forms import well_formed
from denslice.options import SearchOptions, shown
from denslice.queries import Clause, Query
from denslice.records import is_nested_deeper
from denslice.serve.http_errors import DEEPEST_BODY, TOO_DEEP


def _text(given: str) -> str:
    if well_formed(given) != given:
        raise ValueError("holds an unpaired surrogate, which is not valid Unicode text")
    return given


def _json_text(given: str) -> str:
    """Return a text that is JSON. Its error is that of a value, as pydantic's own would be taken for one of a body."""
    try:
        json.loads(given)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON ({error})") from None
    return given


Text = Annotated[str, AfterValidator(_text)]
Number = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Id = Annotated[Text, Field(min_length=1, max_length=1_000)]
FieldName = Annotated[Text, Field(min_length=1, max_length=1_000)]
MOST_FACETS = 20  # fields of one request


def _option(name: str, **bounds: Any) -> Any:
    """Return an option of a search as a field, with the default and the help that every front door has."""
    option = next(one for one in shown(SearchOptions) if one.name == name)
    return Field(option.default, description=option.metadata["help"], **bounds)


class RequestBody(BaseModel):
    """The body of a request. Unknown fields and too deep nesting are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _not_too_deep(cls, body: Any) -> Any:
        if is_nested_deeper(body, DEEPEST_BODY):
            raise ValueError(TOO_DEEP)
        return body


class ClauseBody(RequestBody):
    """What a document may hold: a word, a phrase, any word with a prefix, or any word that is spelt like this one."""

    text: Text
    kind: Literal["word", "phrase", "prefix", "fuzzy"] = "word"
    field: Text = Field("", description="The title or a field of metadata; title and text if it is empty.")

    def clause(self) -> Clause:
        """Return the clause."""
        return Clause(self.text, self.kind, self.field)


Wanted = Text | ClauseBody


class QueryBody(RequestBody):
    """A query with conditions. `text` and `should` are scored; the others say which documents to return."""

    text: Text = Field("", description="Plain words, without operators.")
    must: list[Wanted | list[Wanted]] = Field([], description="What a document holds; of an inner list, at least one.")
    must_not: list[Wanted] = Field([], description="What a document does not hold.")
    phrases: list[Text] = Field([], description="Words that follow each other in the title or the text.")
    should: list[Wanted] = Field([], description="Prefixes and fuzzy words that are scored beside the text.")

    def query(self) -> Query:
        """Return the query."""
        must = [list(map(_clause, one)) if isinstance(one, list) else _clause(one) for one in self.must]
        must_not, should = list(map(_clause, self.must_not)), list(map(_clause, self.should))
        return Query(text=self.text, must=must, must_not=must_not, phrases=self.phrases, should=should)


def _clause(given: Wanted) -> Clause:
    return Clause(given) if isinstance(given, str) else given.clause()


class SearchSettings(BaseModel):
    """The options of a search, in a body or in the query of an address."""

    k: int = _option("k", ge=1)
    theta: Number = _option("theta")
    candidates: int = _option("candidates", ge=1)
    mode: Literal["lexical", "dense", "hybrid"] | None = _option("mode")
    lam: Number | None = _option("lam")
    candidates_from: Literal["both", "lexical"] = _option("candidates_from")
    pruning: float | None = _option("pruning", ge=0, lt=1)
    where: dict[str, Any] | None = _option("where", examples=[{"year": {"gte": 2020}}])
    fuzzy: bool = _option("fuzzy")
    group: bool = _option("group")
    min_score: float | None = _option("min_score", allow_inf_nan=False)
    offset: int = _option("offset", ge=0)
    cursor: Text | None = _option("cursor", max_length=100)
    sort_by: FieldName | None = _option("sort_by", examples=["-year"])
    group_by: FieldName | None = _option("group_by")
    per_group: int = _option("per_group", ge=1)
    facets: list[FieldName] = _option("facets", max_length=MOST_FACETS, examples=[["year"]])
    explain: bool = Field(False, description="Add what each term gave, and where the text holds it.")
    highlight: bool = Field(False, description="Add snippets in which the words of the query are marked.")

    def options(self) -> SearchOptions:
        """Return how to search; raise InputError if options exclude each other."""
        return SearchOptions(**{one.name: getattr(self, one.name) for one in shown(SearchOptions)})


class SimilarQuery(SearchSettings):
    """The options of a search for documents like one, in the query of an address."""

    model_config = ConfigDict(extra="forbid")

    where: Annotated[Json[dict[str, Any]], BeforeValidator(_json_text)] | None = _option("where")


class SearchRequest(SearchSettings, RequestBody):
    """One query or many, and the options of the search."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["query"]}, {"required": ["queries"]}]})

    query: Text | QueryBody | SkipJsonSchema[None] = Field(
        None, description="What to look for, as people type it, or an object with conditions; or give `queries`."
    )
    queries: Annotated[list[Text | QueryBody], Field(min_length=1)] | SkipJsonSchema[None] = Field(
        None, description="Many queries at once, searched alike."
    )

    @model_validator(mode="after")
    def _one_or_many(self) -> SearchRequest:
        if (self.query is None) == (self.queries is None):
            raise ValueError("give either query or queries")
        return self

    def asked(self) -> list[str | Query]:
        """Return the queries of the request."""
        given = [self.query] if self.query is not None else self.queries or []
        return [one if isinstance(one, str) else one.query() for one in given]


class SearchedQuery(SearchSettings, RequestBody):
    """A query that was searched, or the document whose similar ones were, and the options of the search."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["query"]}, {"required": ["like"]}]})

    query: Text | QueryBody | SkipJsonSchema[None] = Field(None, description="As in `POST /search`; or give `like`.")
    like: Id | SkipJsonSchema[None] = Field(None, description="The id of `GET /documents/{id}/similar`.")

    @model_validator(mode="after")
    def _query_or_document(self) -> SearchedQuery:
        if (self.query is None) == (self.like is None):
            raise ValueError("give either query or like")
        return self

    def asked(self) -> list[str | Query]:
        """Return the query, or that of a similar document, which has no text."""
        return [self.query.query() if isinstance(self.query, QueryBody) else self.query or ""]


class ExplainRequest(SearchedQuery):
    """A query that was searched, and the document or passage whose score is to be explained."""

    id: Id
    passage: int | None = Field(None, ge=0, description="The number of a passage. Default: the whole document.")


class TermShare(BaseModel):
    """The part of a score that one token contributes: contribution = query_weight · doc_weight."""

    token: str
    query_weight: float
    doc_weight: float
    contribution: float
    collision: bool = Field(
        False, description="The query and the document have different phrases whose hashes are the same token."
    )


class PassageMatch(BaseModel):
    """The position of a token in the text of a passage as this response has it, in Unicode code points."""

    start: int
    end: int
    token: str


class Match(PassageMatch):
    """The position of a token in the title or text of this response, in Unicode code points."""

    field: Literal["title", "text"]


class ScoreParts(BaseModel):
    """The parts of a score: `dense` and the contributions of `terms` sum to it. The slicing dropped `lost` terms."""

    score: float
    lexical: float
    dense: float
    best: float = Field(description="What the best passage adds to `dense`, in a document of several passages.")
    mean: float = Field(description="What all passages add to `dense`, in a document of several passages.")
    passage: int | None = Field(
        description="The number of the passage with the highest dense score, or of the passage that is explained."
    )
    terms: list[TermShare]
    lost: list[TermShare]
    conditions: list[str] = Field(description="The conditions of the query, as people type them.")
    corrections: list[str] = Field(description="Words that were taken for others, as `recieve → receive`.")


class ScoreExplanation(ScoreParts):
    """The parts of a score, and where the title and text of the response have the words of the query."""

    matches: list[Match]


class ExplainResponse(ScoreParts):
    """Why a document or a passage has its score for a query, whether the search returned it or not."""

    id: str
    generation: int = Field(description="The commit of the index that was searched.")


class MatchingResponse(BaseModel):
    """How many documents match a query: they have a word of it and pass its filter."""

    matching: int
    tokens: list[str] = Field(description="The tokens under which the words of the query are found.")
    generation: int = Field(description="The commit of the index that was searched.")


class Cut(BaseModel):
    """Where an excerpt begins in the whole field of the document, and its length, in Unicode code points."""

    start: int
    length: int


class PassagePlace(BaseModel):
    """Where a passage is in the text of its document, in Unicode code points."""

    start: int
    end: int
    heading: str = Field(description="The headings above the passage, from the outermost to the innermost.")
    page: int | None = Field(description="The page on which the passage begins, from 1; null if the text has no pages.")


class FoundPassage(PassagePlace):
    """A passage of a document with its own scores; `dense` counts as that of a document's best passage."""

    number: int = Field(description="The number of the passage in its document, from 0.")
    text: str
    score: float
    lexical: float
    dense: float
    cut: Cut | None = Field(None, description="Not null if `text` is shortened to an excerpt.")
    matches: list[PassageMatch] = Field(description="Where the text has words of the query, with `explain`.")


class MarkedSnippet(BaseModel):
    """A part of the title or text with words of the query."""

    field: Literal["title", "text"]
    text: str
    start: int = Field(description="Where it begins in the field, in Unicode code points.")
    marks: list[tuple[int, int]] = Field(description="Starts and ends of words of the query within `text`.")
    html: str = Field(description="The text as HTML: escaped, with words of the query in <mark>.")


class FoundDocument(BaseModel):
    """A document of a ranking, or a passage if `group` is false; its score is `lexical` plus `dense`."""

    id: str
    score: float
    lexical: float
    dense: float
    title: str
    text: str
    meta: dict[str, Any]
    cut: dict[Literal["title", "text"], Cut] | None = Field(
        None, description="The fields that are shortened to an excerpt; `GET /documents/{id}` returns them whole."
    )
    passages: list[FoundPassage] = Field(description="The best passages of the document, or the passage found.")
    highlights: list[MarkedSnippet] = Field(default=[], description="Snippets with marked words, with `highlight`.")
    explanation: ScoreExplanation | None = None


class FacetValue(BaseModel):
    """A value of a field, and how many matching documents have it."""

    value: str | float | bool | None
    count: int


class CorrectedWord(BaseModel):
    """A word of a query that the collection does not have, and the word that it is taken for."""

    typed: str
    meant: str


class ResultPageJson(BaseModel):
    """The documents or passages of one page, best first or as they were arranged; equal scores are ordered by id."""

    hits: list[FoundDocument]
    corrections: list[CorrectedWord] = Field(
        default=[], description="Words that the collection does not have, with those that they were taken for."
    )
    missing: list[str] = Field(
        default=[], description="Shards of a cluster that did not answer; their documents are missing here."
    )
    exact: bool = Field(default=True, description="False if better documents may have been skipped.")
    cursor: str | None = Field(None, description="What the option `cursor` takes to continue; null if no more follow.")
    matching: int | None = Field(
        None, description="How many documents match; only with `facets`, `sort_by` or `group_by`."
    )
    facets: dict[str, list[FacetValue]] = Field(
        default={}, description="For each field of the option `facets`, its most frequent values."
    )


class QueryResult(ResultPageJson):
    """The documents or passages found for one query."""

    query: str


class SimilarResponse(ResultPageJson):
    """The documents or passages that are most like a document."""

    id: str
    generation: int = Field(description="The commit of the index that was searched.")
    warnings: list[str] = Field(default=[], description="Possible mistakes in the request.")


class SearchResponse(BaseModel):
    """A result for each query, in the order of the request."""

    results: list[QueryResult]
    generation: int = Field(description="The commit of the index that was searched.")
    took_ms: dict[str, float] = Field(
        description="Milliseconds by stage: `queue` is the wait of the first query, the others are of its batch."
    )
    batch: int = Field(description="How many queries were searched in one batch.")
    warnings: list[str] = Field(
        default=[], description="Possible mistakes in the request, such as a filter on a field that no document has."
    )


class SuggestQuery(BaseModel):
    """A text that is being typed, in the query of an address."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[Text, Field(max_length=1_000)] = Field(description="What has been typed so far.")
    k: int = Field(10, ge=1, le=50, description="Number of suggestions to return.")


class Suggestions(BaseModel):
    """How a text may go on, the most frequent word first."""

    suggestions: list[str]


class Document(BaseModel):
    """A document as the index stores it, and where its passages are."""

    id: str
    title: str
    text: str
    meta: dict[str, Any]
    passages: list[PassagePlace]


class NewDocument(BaseModel):
    """A document to add, as `GET /documents/{id}` returns it. Other fields become metadata too."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: Id
    title: Text = ""
    text: Text = ""
    meta: dict[str, Any] = Field({}, description="Metadata fields.")


class WriteRequest(RequestBody):
    """Documents to add in one commit. Each replaces a document with the same id."""

    documents: list[NewDocument] = Field(min_length=1)
    level: Literal["quick", "full"] = Field(
        "full", description="quick: a table of words reads the documents, and they are to be deepened later."
    )


class DeleteRequest(RequestBody):
    """Ids of documents to delete in one commit."""

    ids: list[Id] = Field(min_length=1)


class WriteResponse(BaseModel):
    """How many documents were added or deleted, and the generation of the index afterwards."""

    documents: int
    generation: int


class ServerInfo(BaseModel):
    """The served index and the limits of this server."""

    documents: int
    quick: int = Field(description="How many documents are still at the quick level.")
    generation: int
    encoder: str
    slicing: str | None
    slices: int | None = Field(description="Slices that a document keeps; null if it keeps every token.")
    dimensions: int | None
    languages: dict[str, int] = Field(description="How many passages are in each language, where it is recognised.")
    model_languages: list[str] = Field(
        description="The languages that the model of the dense vectors knows; empty if it is not limited to any."
    )
    earlier_model: bool = Field(
        description="Whether the dense vectors are of an earlier edition of the embedded model: words alone decide."
    )
    lam: float
    filterable: list[str]
    writable: bool
    limits: dict[str, int | float]


class Status(BaseModel):
    """The state of the server."""

    status: str


class ErrorDetail(BaseModel):
    """An error: a code for programs and a message for people."""

    code: str
    message: str
    type: str = Field("", description="invalid_request_error or server_error, for clients of OpenAI.")
    param: str | None = Field(None, description="The field of a request to /v1 that is wrong.")


class ErrorResponse(BaseModel):
    """The body of every error response."""

    error: ErrorDetail
