"""What goes in and comes out over HTTP, as pydantic models: the OpenAPI description is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from denslice.encoders.analysis import well_formed
from denslice.options import SearchOptions, shown
from denslice.records import is_nested_deeper
from denslice.serve.http_errors import DEEPEST_BODY, TOO_DEEP


def _text(given: str) -> str:
    if well_formed(given) != given:
        raise ValueError("holds half of a surrogate pair, which is not text")
    return given


Text = Annotated[str, AfterValidator(_text)]
Number = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Id = Annotated[Text, Field(min_length=1, max_length=1_000)]


def _option(name: str, **bounds: Any) -> Any:
    """Return an option of a search as a field, with the default and the help that every front door has."""
    option = next(one for one in shown(SearchOptions) if one.name == name)
    return Field(option.default, description=option.metadata["help"], **bounds)


class Asked(BaseModel):
    """A request's body: a field nobody knows is an error, and so is nesting that later steps could not follow."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _not_too_deep(cls, body: Any) -> Any:
        if is_nested_deeper(body, DEEPEST_BODY):
            raise ValueError(TOO_DEEP)
        return body


class SearchRequest(Asked):
    """One query or many, and how to search for them."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["query"]}, {"required": ["queries"]}]})

    query: Text | SkipJsonSchema[None] = Field(None, description="What to look for; or give `queries`.")
    queries: Annotated[list[Text], Field(min_length=1)] | SkipJsonSchema[None] = Field(
        None, description="Many queries at once, searched alike."
    )
    k: int = _option("k", ge=1)
    theta: Number = _option("theta")
    candidates: int = _option("candidates", ge=1)
    mode: Literal["lexical", "dense", "hybrid"] | None = _option("mode")
    lam: Number | None = _option("lam")
    candidates_from: Literal["both", "lexical"] = _option("candidates_from")
    pruning: float = _option("pruning", ge=0, lt=1)
    where: dict[str, Any] | None = _option("where", examples=[{"year": {"gte": 2020}}])
    explain: bool = Field(False, description="Add what each term gave, and where the text holds it.")

    @model_validator(mode="after")
    def _one_or_many(self) -> SearchRequest:
        if (self.query is None) == (self.queries is None):
            raise ValueError("give either query or queries")
        return self

    def options(self) -> SearchOptions:
        """Return how to search."""
        return SearchOptions(**{one.name: getattr(self, one.name) for one in shown(SearchOptions)})

    def texts(self) -> list[str]:
        """The queries asked."""
        return [self.query] if self.query is not None else list(self.queries or [])


class TermShare(BaseModel):
    """One token's share of a score: contribution = query_weight · doc_weight."""

    token: str
    query_weight: float
    doc_weight: float
    contribution: float
    collision: bool = Field(
        False, description="Query and document have different phrases there, which share a token by their hash."
    )


class Match(BaseModel):
    """Where the title or text of this answer holds a token, counted in Unicode code points."""

    field: Literal["title", "text"]
    start: int
    end: int
    token: str


class Why(BaseModel):
    """What made a score: the terms' contributions and `dense` sum to it. `lost` is what the slicing dropped."""

    score: float
    lexical: float
    dense: float
    terms: list[TermShare]
    lost: list[TermShare]
    matches: list[Match]


class Cut(BaseModel):
    """Where the part that came begins in the whole, and how long the whole is, in Unicode code points."""

    start: int
    length: int


class FoundDocument(BaseModel):
    """A document that was found; its score is `lexical` plus `dense`."""

    id: str
    score: float
    lexical: float
    dense: float
    title: str
    text: str
    meta: dict[str, Any]
    cut: dict[Literal["title", "text"], Cut] | None = Field(
        None, description="The fields of which only a part came; `GET /documents/{id}` has the whole."
    )
    explanation: Why | None = None


class Result(BaseModel):
    """The documents found for one query, best first, equal scores by id."""

    query: str
    hits: list[FoundDocument]
    missing: list[str] = Field(
        default=[], description="Shards of a cluster that gave no answer: documents of theirs may be missing here."
    )


class SearchResponse(BaseModel):
    """A result for each query, in the order they were asked."""

    results: list[Result]
    generation: int = Field(description="The commit of the index that was searched.")
    took_ms: dict[str, float] = Field(
        description="Milliseconds by stage: of the wait, and of the batch the first query was searched in."
    )
    batch: int = Field(description="How many queries were searched together.")
    warnings: list[str] = Field(
        default=[], description="What may be a mistake of the request, such as a filter on a field that nobody has."
    )


class Document(BaseModel):
    """A document as the index keeps it."""

    id: str
    title: str
    text: str
    meta: dict[str, Any]


class NewDocument(BaseModel):
    """A document to write, of the shape in which it is read. Fields beside these become metadata too."""

    model_config = ConfigDict(extra="allow", strict=True)

    id: Id
    title: Text = ""
    text: Text = ""
    meta: dict[str, Any] = Field({}, description="Metadata, under any names.")


class WriteRequest(Asked):
    """Documents to add, in one commit; one with an id that is there takes its place."""

    documents: list[NewDocument] = Field(min_length=1)


class DeleteRequest(Asked):
    """Ids of documents to delete, in one commit."""

    ids: list[Id] = Field(min_length=1)


class Written(BaseModel):
    """How many documents were added or deleted, and the commit that shows it."""

    documents: int
    generation: int


class About(BaseModel):
    """What is served, and what this server takes."""

    documents: int
    generation: int
    encoder: str
    slicing: str
    slices: int
    dimensions: int | None
    lam: float
    filterable: list[str]
    writable: bool
    limits: dict[str, int | float]


class Status(BaseModel):
    """How the server is."""

    status: str


class Fault(BaseModel):
    """What went wrong: a word for programs, a sentence for people."""

    code: str
    message: str


class Refused(BaseModel):
    """Every answer that says no."""

    error: Fault
