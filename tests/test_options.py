"""Every front door has every option, with the default and the help that options.py gives it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, get_type_hints

import pytest
import typer.main
from typer.core import TyperGroup, TyperOption

from denslice import Index, Indexes, InputError, open_cluster, open_index, open_indexes
from denslice.__main__ import app
from denslice.cli.arguments import HELPS
from denslice.cluster.cluster import Cluster
from denslice.options import (
    PAGE_OPTIONS,
    IndexKeywords,
    IndexOptions,
    OpenOptions,
    ReadOptions,
    RetrieverKeywords,
    SearchKeywords,
    SearchOptions,
    shown,
)

Defaults = dict[str, Any]
COMMANDS = typer.main.get_command(app)


def defaults(options: type) -> Defaults:
    return {one.name: one.default for one in shown(options)}


def helps(options: type) -> dict[str, str]:
    return {one.name: one.metadata["help"] for one in shown(options)}


def parameters(function: Callable[..., Any]) -> Defaults:
    return {name: one.default for name, one in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize("kind", [Index, Indexes, Cluster])
@pytest.mark.parametrize(
    "verb", ["search", "search_batch", "search_vectors", "search_vectors_batch", "similar", "rank"]
)
def test_python_has_every_option_of_a_search(kind: type, verb: str) -> None:
    expected = defaults(SearchOptions) | ({"k": 1000} if verb == "rank" else {})
    assert expected.items() <= parameters(getattr(kind, verb)).items()


def test_python_has_every_option_of_making_and_opening_an_index() -> None:
    assert defaults(IndexOptions).items() <= parameters(Index.create).items()
    for function in (Index.open, open_index, open_indexes, open_cluster):
        assert defaults(OpenOptions).items() <= parameters(function).items()


def test_python_and_the_commands_have_every_option_of_reading_files() -> None:
    assert defaults(ReadOptions).items() <= parameters(Index.sync).items()
    for command in ("index", "sync"):
        flags = {one.name: one for one in COMMANDS.commands[command].params if isinstance(one, TyperOption)}  # type: ignore[attr-defined]
        assert helps(ReadOptions) == {name: flags[name].help for name in helps(ReadOptions)}


def test_an_option_that_is_not_there_is_a_type_error_of_python(tmp_path: Any) -> None:
    with pytest.raises(TypeError, match="caution"):
        Index.create(tmp_path / "my.idx", "bm25").search("x", caution=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("search", SearchOptions),
        ("search", OpenOptions),
        ("similar", SearchOptions),
        ("run", OpenOptions),
        ("serve", OpenOptions),
        ("mcp", OpenOptions),
    ],
)
def test_commands_have_every_option(name: str, options: type) -> None:
    flags = flags_of(name)
    for option, default in defaults(options).items():
        assert flags[option].default == ("" if default == () else default)
        assert flags[option].help == (helps(options) | HELPS)[option]


def test_the_command_similar_has_every_option_of_opening_but_queries_because_it_reads_none() -> None:
    flags = flags_of("similar")
    assert defaults(OpenOptions).keys() - flags.keys() == {"queries"}
    for option in ("device", "leave_out"):
        assert flags[option].help == helps(OpenOptions)[option]


def test_the_flag_passages_turns_the_option_group_off() -> None:
    flag = flags_of("search")["group"]
    assert (flag.opts, flag.secondary_opts, flag.default) == ([], ["--passages"], True)


def test_the_command_run_has_every_option_but_group_and_pages_because_a_run_ranks_documents() -> None:
    flags = flags_of("run")
    expected = defaults(SearchOptions) | {"k": 1000}
    assert expected.keys() - flags.keys() == {"group", *PAGE_OPTIONS}
    for option in expected.keys() & flags.keys():
        assert flags[option].default == expected[option]
        assert flags[option].help == helps(SearchOptions)[option]


def test_the_command_index_has_every_option_and_names_its_default() -> None:
    flags = flags_of("index")
    for option, default in defaults(IndexOptions).items():
        assert flags[option].default is None
        named = "" if default in (None, ()) else f" Default: {default}."
        assert flags[option].help == helps(IndexOptions)[option] + named


def test_http_has_every_option_of_a_search() -> None:
    fields = pytest.importorskip("denslice.serve.api").SearchRequest.model_fields
    told = {name: (one.default, one.description) for name, one in fields.items()}
    both = {name: (default, helps(SearchOptions)[name]) for name, default in defaults(SearchOptions).items()}
    assert both.items() <= told.items()
    assert set(told) - set(both) == {"query", "queries", "explain", "highlight"}


def test_http_has_every_option_of_a_search_for_similar_documents() -> None:
    fields = pytest.importorskip("denslice.serve.api").SimilarQuery.model_fields
    told = {
        name: (one.default, one.description) for name, one in fields.items() if name not in ("explain", "highlight")
    }
    assert told == {name: (default, helps(SearchOptions)[name]) for name, default in defaults(SearchOptions).items()}


def test_langchain_has_every_option_of_a_search_but_those_of_pages() -> None:
    fields = pytest.importorskip("denslice.adapters.langchain").DensliceRetriever.model_fields
    expected = defaults(SearchOptions) | {"group": False}  # it retrieves passages
    expected = {name: default for name, default in expected.items() if name not in PAGE_OPTIONS}
    assert not set(PAGE_OPTIONS) & fields.keys()
    assert expected.items() <= {name: one.default for name, one in fields.items()}.items()


def test_haystack_has_every_option_by_its_own_names() -> None:
    adapter = pytest.importorskip("denslice.adapters.haystack")
    given = parameters(adapter.DensliceRetriever.__init__)
    expected = defaults(SearchOptions)
    expected |= {"top_k": expected.pop("k"), "filters": expected.pop("where"), "group": False}
    expected = {name: default for name, default in expected.items() if name not in PAGE_OPTIONS}
    assert not set(PAGE_OPTIONS) & given.keys()
    assert expected.items() <= given.items()
    stored = defaults(IndexOptions) | defaults(OpenOptions)
    assert stored.items() <= parameters(adapter.DensliceDocumentStore.__init__).items()


def test_llama_index_and_pyterrier_have_every_option_by_their_own_names() -> None:
    for library in ("llama_index.core", "pyterrier"):
        pytest.importorskip(library)
    expected = {name: default for name, default in defaults(SearchOptions).items() if name not in PAGE_OPTIONS}
    llama_index = import_module("denslice.adapters.llama_index").DensliceRetriever
    names = {"similarity_top_k": 10, "filters": None, "group": False}
    assert parameters(llama_index.__init__).items() >= ((expected | names).items() - {("k", 10), ("where", None)})
    pyterrier = import_module("denslice.adapters.pyterrier")
    del expected["k"], expected["group"]  # a run ranks documents
    assert parameters(pyterrier.DensliceRetriever.__init__).items() >= (expected | {"num_results": 1000}).items()
    assert parameters(pyterrier.DensliceIndexer.__init__).items() >= defaults(IndexOptions).items()


def test_keywords_are_the_options_with_their_types() -> None:
    hints = get_type_hints(SearchOptions)
    assert get_type_hints(SearchKeywords) == {one.name: hints[one.name] for one in shown(SearchOptions)[1:]}
    assert get_type_hints(IndexKeywords) == get_type_hints(IndexOptions)
    searching = get_type_hints(SearchKeywords)
    for name in ("where", "group", *PAGE_OPTIONS):
        del searching[name]
    assert get_type_hints(RetrieverKeywords) == searching


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"theta": -1},
        {"mode": "fast"},
        {"candidates_from": "dense"},
        {"pruning": 1},
        {"lam": float("nan")},
        {"min_score": float("nan")},
        {"offset": -1},
        {"cursor": 7},
        {"sort_by": "-"},
        {"group_by": ["year"]},
        {"per_group": 0, "group_by": "year"},
        {"facets": "year"},
        {"facets": ["year", "year"]},
    ],
)
def test_options_are_checked_when_they_are_made(wrong: Defaults) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        SearchOptions(**wrong)


@pytest.mark.parametrize(
    ("excluding", "told"),
    [
        ({"sort_by": "year", "group_by": "lang"}, "sort_by and group_by"),
        ({"sort_by": "year", "group": False}, "passages"),
        ({"group_by": "year", "group": False}, "passages"),
        ({"per_group": 2}, "give group_by"),
        ({"cursor": "AAAA", "offset": 10}, "cursor and offset"),
    ],
)
def test_options_that_exclude_each_other_are_an_error_that_says_so(excluding: Defaults, told: str) -> None:
    with pytest.raises(InputError, match=told):
        SearchOptions(**excluding)


def flags_of(name: str) -> dict[str | None, TyperOption]:
    assert isinstance(COMMANDS, TyperGroup)
    return {one.name: one for one in COMMANDS.commands[name].params if isinstance(one, TyperOption)}
