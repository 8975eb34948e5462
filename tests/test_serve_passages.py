"""Passages over HTTP: hits show where they match, passages can be searched, and texts stay bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice import Index
from denslice.serve.hit_json import around
from denslice.serve.limits import Access, Limits
from serving import KEY, Live, live

AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
FOX, CAT, OWL = "Foxes run through the wood. ", "The old cat sleeps on a warm sofa. ", "Owls are awake at night. "
ATLAS = (
    f"# Wild\n\n{FOX * 25}\n\n## Birds\n\n{OWL * 25}\n\n\f# Tame\n\n{CAT * 25}\n\n\f# Index\n\n"
    + "Nothing else. " * 3_000
)
DOCS: list[dict[str, Any]] = [
    {"id": "atlas", "title": "Animals", "text": ATLAS, "year": 1900},
    {"id": "note", "text": "A sofa."},
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    made = Index.create(tmp_path_factory.mktemp("passages") / "p.idx")
    made.add(DOCS)
    return made


@pytest.fixture(scope="module")
def served(index: Index) -> Iterator[Live]:
    with live(index, access=Access(api_key=KEY, open=True, writable=True)) as running:
        yield running


def hits(running: Live, query: str, **settings: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = running.search(query, **settings).json()["results"][0]["hits"]
    return found


def atlas(running: Live, query: str, **settings: Any) -> dict[str, Any]:
    return next(hit for hit in hits(running, query, **settings) if hit["id"] == "atlas")


def marked(text: str, matches: list[dict[str, Any]]) -> set[str]:
    return {text[match["start"] : match["end"]] for match in matches}


def test_a_hit_has_the_passages_that_the_index_finds(served: Live, index: Index) -> None:
    for hit, expected in zip(hits(served, "cat on a sofa"), index.search("cat on a sofa"), strict=True):
        names = ("number", "start", "end", "heading", "page", "score", "lexical", "dense", "text")
        assert [[passage[name] for name in names] for passage in hit["passages"]] == [
            [getattr(passage, name) for name in names] for passage in expected.passages
        ]
    best = atlas(served, "cat on a sofa")["passages"][0]
    assert (best["heading"], best["page"], best["cut"], best["matches"]) == ("Tame", 2, None, [])
    assert best["text"] == ATLAS[best["start"] : best["end"]]


def test_the_excerpt_of_a_long_document_holds_its_best_passage(served: Live) -> None:
    for explain in (True, False):
        hit = atlas(served, "cat on a sofa", explain=explain)
        cut, best = hit["cut"]["text"], hit["passages"][0]
        assert cut["length"] == len(ATLAS) > 10_000
        assert hit["text"] == ATLAS[cut["start"] : cut["start"] + len(hit["text"])]
        assert cut["start"] <= best["start"] < best["end"] <= cut["start"] + len(hit["text"])


def test_words_are_marked_in_the_texts_that_a_response_has(served: Live) -> None:
    hit = atlas(served, "sleeping owls", explain=True)
    in_text = [match for match in hit["explanation"]["matches"] if match["field"] == "text"]
    assert marked(hit["text"], in_text) == {"sleeps", "Owls"}
    in_passages = {one["heading"]: marked(one["text"], one["matches"]) for one in hit["passages"]}
    assert in_passages["Wild › Birds"] == {"Owls"}
    assert in_passages["Tame"] == {"sleeps"}


def test_a_text_of_any_length_is_marked_where_it_matches(index: Index) -> None:
    late = "Nothing else. " * 5_000 + CAT
    index.add([{"id": "late", "text": late}])
    with live(index, Limits(max_text=1_000_000)) as running:
        hit = next(hit for hit in hits(running, "cat on a sofa", explain=True) if hit["id"] == "late")
    index.delete(["late"])
    assert hit["text"] == late
    assert {"cat", "sofa"} <= marked(late, hit["explanation"]["matches"])


def test_an_explanation_says_what_the_best_passage_and_all_passages_add(served: Live, index: Index) -> None:
    query = "who is awake in the dark"
    why = atlas(served, query, explain=True)["explanation"]
    expected = index.explain(query, "atlas")
    assert (why["best"], why["mean"], why["passage"]) == (expected.best, expected.mean, expected.passage)
    assert why["best"] + why["mean"] == pytest.approx(why["dense"])
    assert "id" not in why


def test_without_grouping_each_hit_is_a_passage(served: Live, index: Index) -> None:
    found = hits(served, "cat on a sofa", group=False, k=5, explain=True)
    expected = index.search("cat on a sofa", 5, group=False)
    assert [(hit["id"], hit["score"], hit["text"]) for hit in found] == [(h.id, h.score, h.text) for h in expected]
    assert [[passage["number"] for passage in hit["passages"]] for hit in found] == [[n] for n in expected.passages]
    for hit, why in zip(found, expected.explanations(), strict=True):
        assert hit["explanation"]["passage"] == why.passage == hit["passages"][0]["number"]
        shares = sum(term["contribution"] for term in hit["explanation"]["terms"])
        assert shares + hit["explanation"]["dense"] == pytest.approx(hit["score"], rel=1e-4)
    best = next(hit for hit in found if hit["id"] == "atlas")
    assert best["cut"] == {"text": {"start": best["passages"][0]["start"], "length": len(ATLAS)}}
    assert next(hit for hit in found if hit["id"] == "note")["cut"] is None


def test_a_passage_is_not_taken_for_its_document(served: Live) -> None:
    passage = atlas(served, "cat on a sofa", group=False)
    answer = served.ask("/documents", {"documents": [passage]}, **AUTHORIZED)
    assert (answer.status, answer.code) == (422, "invalid")
    assert "only a part of this document" in answer.json()["error"]["message"]


def test_the_texts_of_passages_are_bounded_and_show_their_matches(index: Index) -> None:
    with live(index, Limits(max_text=200)) as running:
        for group in (True, False):
            for hit in hits(running, "cat on a sofa", group=group, explain=True):
                for passage in (one for one in hit["passages"] if one["lexical"] > 0):
                    assert len(passage["text"]) <= 200
                    assert marked(passage["text"], passage["matches"]) & {"cat", "sofa"}
                    start = passage["cut"]["start"] if passage["cut"] else passage["start"]
                    whole = next(doc["text"] for doc in DOCS if doc["id"] == hit["id"])
                    assert passage["text"] == whole[start : start + len(passage["text"])]
                assert len(hit["text"]) <= 200


def test_a_document_comes_with_the_places_of_its_passages(served: Live, index: Index) -> None:
    doc = served.ask("/documents/atlas").json()
    places = index.places("atlas")
    assert places is not None
    assert doc["passages"] == [place._asdict() for place in places]
    assert [place["heading"] for place in doc["passages"][:3]] == ["Wild", "Wild › Birds", "Tame"]
    assert doc["passages"][-1]["end"] == len(doc["text"])
    note = {"start": 0, "end": len(DOCS[1]["text"]), "heading": "", "page": None}
    assert served.ask("/documents/note").json()["passages"] == [note]
    assert index.places("none") is None


def test_a_document_that_was_fetched_can_be_sent_back(served: Live) -> None:
    doc = served.ask("/documents/atlas").json()
    assert served.ask("/documents", {"documents": [doc]}, **AUTHORIZED).status == 200
    assert served.ask("/documents/atlas").json() == doc


@given(st.text("ab \n😀"), st.data())
def test_an_excerpt_holds_the_passage_and_is_not_too_long(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    width = data.draw(st.integers(end - start, len(text) + 5))
    first, last = around(text, start, end, width)
    assert 0 <= first <= start <= end <= last <= len(text)
    assert last - first <= width
