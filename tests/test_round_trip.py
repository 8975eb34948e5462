"""What denslice writes, denslice reads back unchanged: in Python, over HTTP and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from denslice import Index, InputError
from denslice.__main__ import app
from denslice.rankings import Hit
from denslice.records import DEEPEST_META, Doc
from denslice.serve.limits import Access
from serving import KEY, Live, live

AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
DENSLICE = [sys.executable, "-c", "from denslice.__main__ import main; main()"]
CONFUSING = (
    "meta", "metadata", "id", "_id", "docid", "text", "contents", "title", "vector", "score", "lexical", "dense",
    "terms", "lost", "explanation", "cut", "",
)  # fmt: skip
UNICODE = st.characters(exclude_categories=["Cs"])
TEXTS = st.text(UNICODE, max_size=30)
PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6)
IDS = st.lists(PRINTABLE, min_size=1, max_size=2).map(" ".join)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
NAMES = st.sampled_from(CONFUSING) | TEXTS
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
METAS = st.dictionaries(NAMES, JSON, max_size=5)
DOCS = st.builds(Doc, IDS, TEXTS, TEXTS, METAS)
FEW = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
CONFUSED = Doc("1", "owls", "", {name: {name: 1, "meta": [name]} for name in CONFUSING})


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


# --- in Python


@given(DOCS)
@example(CONFUSED)
@example(Doc("1", meta=nested(DEEPEST_META)))
def test_a_document_is_read_back_from_the_json_that_is_made_of_it(doc: Doc) -> None:
    assert Doc.from_dict(json.loads(json.dumps(doc.to_dict()))) == doc
    assert Doc.from_dict(doc.to_dict()) == doc


@given(DOCS, st.floats(allow_nan=False))
@example(CONFUSED, 0.5)
def test_the_document_of_a_hit_is_read_back_without_its_scores(doc: Doc, score: float) -> None:
    hit = Hit(doc.id, score, score, 0.0, doc.text, doc.title, doc.meta).to_dict()
    added: dict[str, Any]
    for added in ({}, {"terms": [], "lost": []}, {"explanation": None, "cut": None}):
        assert Doc.from_dict({**hit, **added}) == doc


def test_a_ready_vector_is_read_back_too() -> None:
    doc = Doc("1", vector={"owl": 1.5}, meta={"vector": "x"})
    assert Doc.from_dict(doc.to_dict()) == doc


def test_fields_beside_the_text_are_metadata_as_before() -> None:
    flat = {"id": "1", "text": "owls", "score": 3, "dense": "forest", "year": 2020}
    assert Doc.from_dict(flat).meta == {"score": 3, "dense": "forest", "year": 2020}
    assert Doc.from_dict({"id": "1", "meta": {}, "passages": ["mine"]}).meta == {"passages": ["mine"]}
    assert Doc.from_dict({"id": "1", "meta": {"a": 1}, "metadata": {"b": 2}, "c": 3}).meta == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(InputError, match="meta is str, expected an object"):
        Doc.from_dict({"id": "1", "meta": "x"})


def test_a_hit_of_which_only_a_part_came_is_no_document() -> None:
    hit = Hit("1", 1.0, 1.0, 0.0, "a part").to_dict()
    with pytest.raises(InputError, match="only a part of this document"):
        Doc.from_dict({**hit, "cut": {"text": {"start": 7, "length": 99}}})


def test_metadata_nested_too_deep_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "deep.idx", "bm25")
    index.add([Doc("1", meta=nested(DEEPEST_META))])
    cyclic: dict[str, Any] = {}
    cyclic |= {"a": cyclic, "b": cyclic}
    for meta in (nested(DEEPEST_META + 1), nested(900), cyclic):
        with pytest.raises(InputError, match=rf"\(id '2'\): metadata is nested deeper than {DEEPEST_META} levels"):
            index.add([Doc("2", meta=meta)])
    assert [doc.id for doc in index.docs()] == ["1"]


# --- over HTTP


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    index = Index.create(tmp_path_factory.mktemp("round") / "r.idx", "bm25")
    with live(index, access=Access(api_key=KEY, writable=True, open=True)) as running:
        yield running


def post(served: Live, *documents: dict[str, Any]) -> None:
    answer = served.ask("/documents", {"documents": documents}, **AUTHORIZED)
    assert answer.status == 200, answer.body


@FEW
@given(TEXTS, TEXTS, METAS)
@example("owls", "", dict(CONFUSED.meta))
@example("", "", nested(DEEPEST_META))
def test_what_http_returns_can_be_posted_back(served: Live, text: str, title: str, meta: dict[str, Any]) -> None:
    given = Doc("1", f"owls {text}", title, meta).to_dict()
    expected = {**given, "passages": [{"start": 0, "end": len(given["text"]), "heading": "", "page": None}]}
    post(served, given)
    assert served.ask("/documents/1").json() == expected
    assert Doc.from_dict(expected).to_dict() == given
    post(served, served.ask("/documents/1").json())
    assert served.ask("/documents/1").json() == expected
    [hit] = served.search("owls", explain=True).json()["results"][0]["hits"]
    post(served, hit)
    assert served.ask("/documents/1").json() == expected


# --- on the command line


def denslice(*arguments: object) -> bytes:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def documents(folder: Path) -> dict[str, Doc]:
    return {doc.id: doc for doc in Index.open(folder).docs()}


@FEW
@given(
    st.lists(
        st.builds(lambda doc: Doc(doc.id, f"owls {doc.text}", doc.title, doc.meta), DOCS),
        min_size=1,
        max_size=5,
        unique_by=lambda doc: doc.id,
    )
)
@example([CONFUSED])
def test_what_the_command_line_prints_can_be_indexed_again(
    tmp_path_factory: pytest.TempPathFactory, docs: list[Doc]
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    Index.create(folder / "first.idx", "bm25").add(docs)
    printed = {
        "docs": denslice("export-docs", folder / "first.idx"),
        "hits": denslice("search", folder / "first.idx", "owls", "--json", "-k", len(docs)),
        "explained": denslice("search", folder / "first.idx", "owls", "--json", "--explain", "-k", len(docs)),
    }
    for name, lines in printed.items():
        (folder / f"{name}.jsonl").write_bytes(lines)
        denslice("index", folder / f"{name}.jsonl", "--to", folder / f"{name}.idx", "--encoder", "bm25")
        assert documents(folder / f"{name}.idx") == {doc.id: doc for doc in docs}


def test_documents_are_indexed_from_a_pipe(tmp_path: Path) -> None:
    Index.create(tmp_path / "first.idx", "bm25").add([CONFUSED])
    lines = denslice("search", tmp_path / "first.idx", "owls", "--json")
    command = [*DENSLICE, "index", "-", "--to", str(tmp_path / "second.idx"), "--encoder", "bm25"]
    subprocess.run(command, input=lines, check=True, capture_output=True)
    assert documents(tmp_path / "second.idx") == {"1": CONFUSED}
    bad = subprocess.run(command, input=b'{"id": 1, "text": "a"}\n{"text": "b"}\n', capture_output=True, text=False)
    assert (bad.returncode, bad.stderr.startswith(b"error: stdin:2: no id")) == (2, True)
