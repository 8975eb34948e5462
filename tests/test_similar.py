"""Documents like one: found by what is stored of it, for every encoder, in Python, over HTTP and by the command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import assert_one_line, denslice
from denslice import Index, InputError
from denslice.index.similar import STRONGEST_TOKENS, as_query, stored_vectors
from denslice.serve.limits import Limits
from serving import live

DOCS = [
    {"id": "cats", "text": "Cats sleep by day and hunt mice at night.", "lang": "en"},
    {"id": "kittens", "text": "Young cats hunt mice too, and sleep even more.", "lang": "en"},
    {"id": "rockets", "text": "Rockets burn liquid oxygen and kerosene.", "lang": "en"},
    {"id": "chats", "text": "Cats hunt at night.", "lang": "fr"},
    {"id": "a/similar", "text": "An id may end like the address of a search.", "lang": "en"},
]


@pytest.fixture(params=["mini", "bm25"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "my.idx", request.param, filterable=["lang"]) as index:
        index.add(DOCS)
        yield index


def test_the_document_most_like_one_shares_its_words_and_is_another(index: Index) -> None:
    found = index.similar("cats")
    assert set(found.ids[:2]) == {"kittens", "chats"}
    assert "cats" not in found.ids


def test_similar_takes_the_options_of_a_search(index: Index) -> None:
    found = index.similar("cats", 1, where={"lang": "fr"}, facets=["lang"])
    assert found.ids == ("chats",)
    assert found.facets == {"lang": {"fr": 1}}
    assert all(hit.dense == 0 for hit in index.similar("cats", mode="lexical"))


def test_explanations_of_similar_documents_sum_to_their_scores(index: Index) -> None:
    found = index.similar("cats", 3)
    for hit, why in zip(found, found.explanations(), strict=True):
        assert sum(term.contribution for term in why.terms) + why.dense == pytest.approx(hit.score, rel=1e-4)


def test_a_document_that_is_not_there_is_an_error(index: Index) -> None:
    with pytest.raises(InputError, match="no document has the id 'dogs'"):
        index.similar("dogs")


def test_the_query_is_the_stored_weights_and_the_mean_of_the_dense_vectors(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "vectors", vocab=4, slices=2, slicing="stride") as index:
        weights = np.array([[1, 2, 3, 0], [0, 1, 1, 1]], np.float32)
        index.add_vectors(["a", "b"], weights, dense=[[1, 2], [3, 4]])
        segment = index.reader.snapshot.segments[0]
        stored = stored_vectors(segment, 0)
        assert stored.keys.tolist() == [0, 1, 2]  # the slicing dropped one of them
        assert stored.weights.tolist() == [1, 2, 3]
        assert stored.dense is not None
        assert stored.dense.tolist() == [1, 2]
        query = as_query(stored, np.array([1, 0, 1], np.float32), 4)
        assert query.lexical.toarray().tolist() == [[1, 0, 3, 0]]
        found = index.similar("a")
        assert found.ids == ("b",)
        assert found.scores == index.search_vectors(weights[:1], dense=[1, 2]).scores[-1:]


def test_passages_count_by_their_share_of_the_text(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "mini") as index:
        index.add([{"id": "long", "text": "Cats hunt mice. " * 400 + "Rockets burn kerosene. " * 100}, *DOCS])
        segment, row = index.reader.snapshot.find("long")  # type: ignore[misc]
        numbers = segment.passage_numbers(np.array([row]))
        assert len(numbers) > 1
        assert segment.dense is not None
        mean = segment.passage_shares[numbers] @ segment.dense[numbers].astype(np.float32)
        stored = stored_vectors(segment, row).dense
        assert stored is not None
        assert stored.tolist() == pytest.approx(mean.tolist(), rel=1e-5)
        assert index.similar("long", 1).ids != ("long",)


def test_only_the_strongest_tokens_are_searched(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "bm25") as index:
        words = [f"word{at}" for at in range(2 * STRONGEST_TOKENS)]
        index.add([{"id": "all", "text": " ".join(words)}, *({"id": word, "text": word} for word in words)])
        assert index.similar("all").matching == STRONGEST_TOKENS


def test_documents_of_the_same_language_are_not_alike_for_that(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "bm25") as index:
        german = "Die Katzen schlafen am Tag und jagen in der Nacht durch den dunklen Wald."
        index.add([{"id": "a", "text": german}, {"id": "b", "text": "Ein schnelles Auto braucht gute Reifen."}])
        assert not any(token.startswith("~") for token in index.similar("a").tokens())
        assert index.similar("a").ids == ()


def test_an_empty_document_is_like_none(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "bm25") as index:
        index.add([{"id": "empty", "text": ""}, *DOCS])
        assert index.similar("empty").ids == ()


def test_http_returns_similar_documents_pages_and_facets(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "bm25", filterable=["lang"]) as index:
        index.add(DOCS)
        with live(index, Limits(max_k=20, max_offset=50)) as server:
            _check_pages(server)
            found = server.ask("/documents/cats/similar?k=1&facets=lang&where=%7B%22lang%22:%22fr%22%7D").json()
            assert [hit["id"] for hit in found["hits"]] == ["chats"]
            assert found["facets"] == {"lang": [{"value": "fr", "count": 1}]}
            assert (found["id"], found["matching"], found["cursor"]) == ("cats", 1, None)
            assert server.ask("/documents/dogs/similar").status == 404
            assert server.ask("/documents/a/similar").json()["text"] == DOCS[-1]["text"]
            for query, code in (("k=21", "k_too_large"), ("where=x", "invalid"), ("size=1", "invalid")):
                refused = server.ask(f"/documents/cats/similar?{query}")
                assert (refused.status, refused.code) == (422, code), refused.body


def _check_pages(server: Any) -> None:
    whole = [hit["id"] for hit in server.search("cats hunt", k=9).json()["results"][0]["hits"]]
    first = server.search("cats hunt", k=2, facets=["lang"]).json()["results"][0]
    after = server.search("cats hunt", k=2, cursor=first["cursor"]).json()["results"][0]
    assert [hit["id"] for hit in first["hits"] + after["hits"]] == whole
    assert (first["matching"], after["matching"], after["cursor"]) == (3, None, None)
    assert first["facets"] == {"lang": [{"value": "en", "count": 2}, {"value": "fr", "count": 1}]}
    assert server.search("dogs", cursor=first["cursor"]).status == 422
    assert server.search("cats", cursor="x").code == "bad_cursor"
    assert server.search("cats", offset=51).code == "offset_too_large"
    assert server.search("cats", sort_by="lang", group_by="lang").status == 422
    assert server.search("cats", k=3, per_group=7, group_by="lang").code == "k_too_large"
    assert server.search("cats", facets=["text"]).status == 422


def test_the_command_prints_similar_documents(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "bm25") as index:
        index.add(DOCS)
    found = denslice("similar", tmp_path / "my.idx", "cats", "-k", 1)
    assert found.stdout.split("\t")[2] in ("kittens", "chats")
    assert_one_line(denslice("similar", tmp_path / "my.idx", "dogs"), "no document has the id 'dogs'")
