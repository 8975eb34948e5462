"""Every option of an index and of a search, once: its type, default, help and check.

Python, the command line, HTTP, the adapters and clusters take their options from here, and tests/test_options.py holds
them to it: each has every option, with the same default and the same help.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache, partial
from typing import Any, TypedDict, TypeVar

import numpy as np

from denslice.analysis.languages import language_named
from denslice.errors import InputError
from denslice.grouping import BEST
from denslice.scalars import number, whole_number
from denslice.slicing import KINDS

MODES = ("lexical", "dense", "hybrid")
SIDES = ("both", "lexical")
QUERIES = ("full", "sliced")
READ_BY = ("full", "quick")
NOT_ON_GPU = ("rows", "dense")
PAGE_OPTIONS = ("offset", "cursor", "sort_by", "group_by", "per_group", "facets")  # runs and retrievers have no pages
Function = TypeVar("Function", bound=Callable[..., Any])


# --- checks: the value as it is used, or InputError


def _optional(check: Callable[..., Any], name: str, value: Any) -> Any:
    return None if value is None else check(name, value)


def _one_of(choices: Sequence[str], name: str, value: Any) -> Any:
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


def _theta(name: str, value: Any) -> float:
    return math.inf if value == math.inf else number(name, value, 0)


def _share(name: str, value: Any) -> float:
    checked = number(name, value, 0, 1)
    if checked == 1:
        raise InputError(f"{name} must be below 1, not {value!r}; 0 is exact")
    return checked


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be true or false, not {value!r}")
    return bool(value)


def _some_of(choices: Sequence[str], name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or any(one not in choices for one in value):
        raise InputError(f"{name} is {value!r}, expected some of {', '.join(choices)}")
    return tuple(value)


def _fields(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(one, str) and one.isprintable() for one in value):
        raise InputError(f"{name} is {value!r}, expected a list of field names")
    if "" in value or len(set(value)) < len(value):
        raise InputError(f"{name} fields must be different and not empty: {', '.join(value)}")
    return tuple(value)


def _field(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.removeprefix("-") or not value.isprintable():
        raise InputError(f"{name} is {value!r}, expected the name of a filterable field")
    return value


def _cursor(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} is {type(value).__name__}, expected the text that the page before has as its cursor")
    return value


# --- options

FEW_PASSAGES = 100_000  # up to which every dense vector is read by default
USUAL_PRUNING = 0.3  # above: on real text, 99.5 % of the ten best documents are found


def option(default: Any, help: str, check: Callable[[str, Any], Any] | None = None) -> Any:
    """Return a field of options, with what its front doors say about it and check."""
    return field(default=default, metadata={"help": help, "check": check or (lambda _, value: value)})


def shown(options: type) -> list[Field[Any]]:
    """Return the options that every front door has."""
    return [one for one in fields(options) if "help" in one.metadata]


@cache
def _checks(options: Any) -> list[tuple[str, Any, Callable[[str, Any], Any]]]:
    return [(one.name, one.default, one.metadata["check"]) for one in shown(options)]


class _Checked:
    def __post_init__(self) -> None:
        # Numbers of numpy become Python's own: a kernel is compiled for each type. Defaults need no check.
        for name, default, check in _checks(type(self)):  # type: ignore[arg-type]
            if (value := getattr(self, name)) is not default:
                object.__setattr__(self, name, check(name, value))


@dataclass(frozen=True)
class SearchOptions(_Checked):
    """How to search: how many documents, by which scores, and how exactly."""

    k: int = option(10, "Number of documents to return.", partial(whole_number, least=1))
    theta: float = option(0.0, "Stage one scores only the query weights above θ. 0 is exact.", _theta)
    candidates: int = option(
        10_000,
        "Number of candidates of stage one that are rescored with every weight, where θ is above 0.",
        partial(whole_number, least=1),
    )
    mode: str | None = option(
        None,
        "lexical, dense or hybrid. Default: hybrid if the index has dense vectors, else lexical.",
        partial(_optional, partial(_one_of, MODES)),
    )
    lam: float | None = option(
        None, "Weight λ of the dense score. Default: the encoder's own.", partial(_optional, partial(number, least=0))
    )
    candidates_from: str = option(
        "both",
        "Which scores choose the candidates of a hybrid search: both, or lexical (as in the paper).",
        partial(_one_of, SIDES),
    )
    pruning: float | None = option(
        None,
        "How much of the weakest evidence a search skips, below 1. 0 is exact. Default: 0, or 0.3 with vectors of more "
        "than 100,000 passages.",
        partial(_optional, _share),
    )
    where: Mapping[str, Any] | None = option(
        None, 'Return only documents that pass this filter, such as {"year": {"gte": 2020}}.'
    )
    fuzzy: bool = option(True, "Take a word that the collection does not have for the nearest one that it has.", _truth)
    group: bool = option(True, "Return documents, each with its best passages. False returns passages.", _truth)
    min_score: float | None = option(
        None, "Leave out documents with a score below this one.", partial(_optional, number)
    )
    offset: int = option(
        0, "Number of documents, or of groups, to skip at the beginning.", partial(whole_number, least=0)
    )
    cursor: str | None = option(None, "Continue after the page that has this cursor.", partial(_optional, _cursor))
    sort_by: str | None = option(
        None,
        "Sort all matching documents by a filterable field; -FIELD is descending. Default: by score.",
        partial(_optional, _field),
    )
    group_by: str | None = option(
        None, "Return k groups of documents with the same value of a filterable field.", partial(_optional, _field)
    )
    per_group: int = option(1, "Number of documents of each group, the best ones.", partial(whole_number, least=1))
    facets: Sequence[str] = option(
        (), "Filterable fields whose values are counted over all matching documents.", _fields
    )
    best: float = BEST  # the share of the best passage in a document's dense score
    near: float = 0.0  # the pruning of vectors, if none is given
    rerank: bool = True  # False stops after stage one, for research on what stage two is worth

    def __post_init__(self) -> None:
        super().__post_init__()
        if wrong := _contradiction(self):
            raise InputError(wrong)

    def with_k(self, k: int) -> SearchOptions:
        """Return the same options with another k, which are not checked again."""
        return self._with(k=k)

    def settled(self, passages: int) -> SearchOptions:
        """Return the options of a search by so many dense vectors: of many, some are not read by default."""
        is_large = passages > FEW_PASSAGES and self.mode != "lexical"
        return self._with(near=USUAL_PRUNING if is_large and self.pruning is None else 0.0)

    @property
    def pruned_words(self) -> float:
        """The pruning of a search by words alone."""
        return self.pruning or 0.0

    @property
    def pruned_vectors(self) -> float:
        """The pruning of a search by vectors, or by both."""
        return self.near if self.pruning is None else self.pruning

    def is_exact(self, has_vector: bool = True) -> bool:
        """Return whether the best documents are found for certain, for a query with or without a dense vector."""
        return self.is_whole and (self.pruned_vectors if has_vector else self.pruned_words) == 0

    @property
    def is_whole(self) -> bool:
        """Whether all weights of a query choose the documents, and both of their scores rank them."""
        return self.theta == 0 and self.rerank and self.candidates_from == "both"

    def _with(self, **changes: Any) -> SearchOptions:
        other = object.__new__(SearchOptions)
        vars(other).update(vars(self), **changes)
        return other

    def keywords(self) -> dict[str, Any]:
        """Return the options as the methods of an index take them."""
        return {one.name: getattr(self, one.name) for one in shown(type(self))}


def _contradiction(options: SearchOptions) -> str:
    """Return what is wrong with options that exclude each other, or nothing."""
    if options.cursor is not None and options.offset:
        return "cursor and offset both say where a page begins; give one of them"
    if options.per_group != 1 and options.group_by is None:
        return f"per_group is {options.per_group}, and there are no groups; give group_by=FIELD too"
    arranged = "sort_by" if options.sort_by is not None else "group_by" if options.group_by is not None else ""
    if arranged and not options.group:
        return f"{arranged} arranges documents, and group=False returns passages; leave one of them out"
    if options.sort_by is not None and options.group_by is not None:
        return "sort_by and group_by both arrange the documents; give one of them"
    return ""


@dataclass(frozen=True)
class IndexOptions(_Checked):
    """What an index is made with. None of it can be changed later."""

    encoder: str = option(
        "mini", "mini (lexical and dense vectors), bm25, vectors, or a model: a folder or a Hugging Face id."
    )
    slices: int | None = option(
        None,
        "Number of slices that a document keeps. Default: every token is kept.",
        partial(_optional, partial(whole_number, least=1)),
    )
    slicing: str | None = option(
        None,
        f"How tokens are assigned to the slices: {', '.join(KINDS)}. Default: learned.",
        partial(_optional, partial(_one_of, KINDS)),
    )
    query: str = option(
        "full",
        "full: every query token is scored. sliced: the query is sliced too, as in the paper.",
        partial(_one_of, QUERIES),
    )
    language: str | None = option(
        None,
        "Language of the texts of mini and bm25, by name or ISO code. Default: recognised for each passage.",
        partial(_optional, lambda name, value: language_named(value)),
    )
    phrases: float | None = option(
        None, "Weight of two adjacent words, where one word has weight 1. Default: 0.3 for mini, 0 for bm25."
    )
    vocab: int | None = option(None, "Number of columns of ready vectors.")
    skip: int | None = option(
        None,
        "Number of leading token ids to leave out. Default: what suits the encoder.",
        partial(_optional, partial(whole_number, least=0)),
    )
    seed: int = option(0, "Seed of the random slicing.", partial(whole_number, least=0))
    filterable: Sequence[str] = option((), "Metadata fields with an index, for filters that are used often.", _fields)
    options: Mapping[str, Any] | None = None  # other settings of the encoder, by name

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slices is not None:
            object.__setattr__(self, "slicing", self.slicing or "learned")
        elif self.slicing is not None or self.query == "sliced":
            given = "query sliced" if self.slicing is None else f"slicing {self.slicing}"
            raise InputError(f"{given} needs a number of slices; give slices too, such as 768")

    def encoder_options(self) -> dict[str, Any]:
        """Return the settings that are the encoder's own."""
        named = {"language": self.language, "phrases": self.phrases, "vocab": self.vocab}
        return {**(self.options or {}), **{name: value for name, value in named.items() if value is not None}}


@dataclass(frozen=True)
class ReadOptions(_Checked):
    """How files are read."""

    text_field: str | None = option(
        None, "Column or field of tables and JSON that holds the text. Default: guessed, and the guess is printed."
    )
    strict: bool = option(False, "Stop at the first file or line that cannot be read, and change nothing.", _truth)


@dataclass(frozen=True)
class OpenOptions(_Checked):
    """Where an index is searched, and what reads its queries."""

    device: str = option("cpu", "Where to search: cpu, cuda, or cuda:0,1 for several GPUs.")
    leave_out: Sequence[str] = option(
        (),
        "What stays off the GPU: rows (exact scores take longer), dense (lexical search only).",
        partial(_some_of, NOT_ON_GPU),
    )
    queries: str = option(
        "full",
        "full: the model reads each query. quick: its table of words does, which is faster and finds less.",
        partial(_one_of, READ_BY),
    )


ON_CPU = OpenOptions()


# --- the same options as keywords


class SearchKeywords(TypedDict, total=False):
    """The options of a search as keyword arguments, but for k, which methods name themselves."""

    theta: float
    candidates: int
    mode: str | None
    lam: float | None
    candidates_from: str
    pruning: float | None
    where: Mapping[str, Any] | None
    fuzzy: bool
    group: bool
    min_score: float | None
    offset: int
    cursor: str | None
    sort_by: str | None
    group_by: str | None
    per_group: int
    facets: Sequence[str]


class RetrieverKeywords(TypedDict, total=False):
    """The options of a search, but for those that other libraries name themselves and those of pages."""

    theta: float
    candidates: int
    mode: str | None
    lam: float | None
    candidates_from: str
    pruning: float | None
    fuzzy: bool
    min_score: float | None


class MoreIndexKeywords(TypedDict, total=False):
    """The options of an index as keyword arguments, but for the encoder."""

    slices: int | None
    slicing: str | None
    query: str
    language: str | None
    phrases: float | None
    vocab: int | None
    skip: int | None
    seed: int
    filterable: Sequence[str]
    options: Mapping[str, Any] | None


class IndexKeywords(MoreIndexKeywords, total=False):
    """The options of an index that somebody has chosen; the others are the defaults, or those of an index to add to."""

    encoder: str


def takes(options: type, but_for: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Show the options in the signature of a function that takes them as **keywords, for `help` and editors."""

    def with_signature(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        names = {*but_for, *(one.name for one in own)}
        more = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for one in fields(options)
            if one.name not in names and (one in shown(options) or one.name == "options")
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return with_signature
