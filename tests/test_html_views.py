"""Notebook views: HTML that parses, without scripts, in which every text of a stranger is only text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from denslice import Doc, Explanation, Index, Ranking
from denslice.html_views import card_html
from denslice.rankings import Passage, Term

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</style></div><b onmouseover=alert(1)>",
    "&lt;script&gt; &amp; 'single' \"double\" $x$ `code`",
    "שלום <b>עולם</b> مرحبا",
    "全文検索 <i>は</i> 楽しい 🧑‍🍳 \u202e reversed \u2028 line",
]
VOID = {"img", "br", "input", "meta", "link", "hr"}  # elements without an end, of which no view has any


class Parsed(HTMLParser):
    """The elements and texts of a view. Elements that are not closed in their order fail."""

    def __init__(self, view: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.marked: list[str] = []
        self.text = ""
        self.feed(view)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in VOID
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if "mark" in self.open:
            self.marked.append(data)

    def bars(self, kind: str) -> int:
        """How many bars have this colour."""
        return self.attributes.count(("class", kind))


def parsed(shown: Any) -> Parsed:
    """The view of an object as a notebook asks for it."""
    view = shown._repr_html_()
    found = Parsed(view)
    assert "<script" not in view
    assert not {"script", "img", "iframe", "object"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name in ("src", "href")]
    return found


def ranking(*docs: Doc, parts: tuple[tuple[float, float], ...] = (), **more: Any) -> Ranking:
    scores = tuple(map(sum, parts)) or tuple(float(9 - at % 9) for at in range(len(docs)))
    found = [(doc, ()) for doc in docs]
    return Ranking("q", tuple(doc.id for doc in docs), scores, parts, lambda: found, **more)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    index = Index.create(tmp_path / "my.idx", "bm25", filterable=["year"])
    index.add(
        [
            {"id": "wings", "title": "Flight", "text": "Wings lift the aircraft.", "year": 1958},
            {"id": "boats", "text": "Boats float on water; water carries boats."},
            {"id": "planes", "text": "An aircraft needs wings, and the wings need air."},
        ]
    )
    return index


# --- rankings


def test_a_ranking_shows_rank_title_score_and_marked_snippet_of_each_hit(index: Index) -> None:
    hits = index.search("wings of an aircraft")
    shown = parsed(hits)
    assert {"Wings", "aircraft", "wings"} <= set(shown.marked)
    for rank, hit in enumerate(hits, 1):
        assert f"{rank}{hit.title or hit.id}{hit.score:.2f}" in shown.text
    assert "Flight" in shown.text
    assert "wings · lexical" in shown.text  # below a title, the id
    assert (shown.bars("words"), shown.bars("dense")) == (2, 0)


def test_one_hit_has_a_bar_of_the_full_width() -> None:
    shown = parsed(ranking(Doc("a", "x")))
    assert ("style", "width: 100.0%") in shown.attributes
    assert "1a9.00" in shown.text


def test_the_bars_of_a_hit_are_its_dense_and_lexical_scores_on_one_scale() -> None:
    shown = parsed(ranking(Doc("a", "x"), Doc("b", "y"), parts=((3.0, 5.0), (0.0, 4.0))))
    widths = [value for name, value in shown.attributes if name == "style"]
    assert widths == ["width: 62.5%", "width: 37.5%", "width: 50.0%"]
    assert ("aria-label", "dense 5.00, lexical 3.00") in shown.attributes


def test_a_negative_part_has_no_bar_in_a_ranking_and_is_written() -> None:
    shown = parsed(ranking(Doc("a", "x"), parts=((3.0, -1.0),)))
    assert (shown.bars("dense"), shown.bars("words")) == (0, 1)
    assert "dense -1.00, lexical 3.00" in shown.text


def test_an_empty_ranking_says_so() -> None:
    assert parsed(ranking()).text == "No document was found."


def test_a_ranking_of_a_run_shows_ids_and_scores() -> None:
    assert "1d75.00" in parsed(Ranking("q", ("d7",), (5.0,))).text


def test_a_long_ranking_is_cut_and_says_how_much_is_left_out() -> None:
    shown = parsed(ranking(*(Doc(f"doc {at}", "x") for at in range(1_025))))
    assert "doc 19" in shown.text
    assert "doc 20" not in shown.text
    assert "1,005 more hits are not shown." in shown.text


def test_a_long_text_is_cut_on_both_sides_around_its_marks(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "1", "text": f"{'before ' * 60}fox {'after ' * 60}"}])
    text = parsed(index.search("fox")).text
    assert "… " in text
    assert " …" in text
    assert text.count("before") + text.count("after") < 60


def test_passages_have_their_places(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    chapters = [f"# Chapter {name}\n\n{f'The {name} runs far. ' * 80}" for name in ("fox", "owl", "hare")]
    index.add([{"id": "book", "text": "\n\n".join(chapters)}])
    hits = index.search("owl", k=3, group=False)
    assert len(hits) > 1
    shown = parsed(hits)
    assert {mark.lower() for mark in shown.marked} == {"owl"}
    for hit in hits:
        assert hit.passages[0].place in shown.text
        assert f"passage {hit.passages[0].number}" in hit.passages[0].place
    assert "Chapter owl" in parsed(index.search("owl")).text


def test_a_hit_without_marks_shows_the_beginning_of_its_best_passage() -> None:
    text = "first half. second half."
    passage = Passage(1, text[12:], 12, 24, heading="Two", page=3, document_length=24)
    hits = Ranking("q", ("a",), (1.0,), documents=lambda: [(Doc("a", text), (passage,))])
    shown = parsed(hits)
    assert "… second half." in shown.text
    assert "first" not in shown.text
    assert "Two, page 3, passage 1" in shown.text


def test_notes_tell_of_corrections_and_of_missing_shards(index: Index) -> None:
    assert "aircrafft → aircraft" in parsed(index.search("aircrafft")).text
    assert "No answer from shard <1>" in parsed(ranking(Doc("a"), missing=("shard <1>",))).text


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_are_only_text(hostile: str, tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    id = "id " + "".join(filter(str.isprintable, hostile))
    index.add([{"id": id, "title": f"fox {hostile}", "text": f"fox {hostile}", "by": hostile}])
    hits = index.search(f"fox {hostile}")
    shown = parsed(hits)
    assert shown.text.count(f"fox {hostile}") == 2
    assert id in shown.text
    assert id in parsed(hits.explain(id)).text


# --- explanations


def test_an_explanation_has_a_bar_for_each_term_and_sums_to_its_score(index: Index) -> None:
    hits = index.search("wings of an aircraft")
    why = hits.explain("planes")
    shown = parsed(why)
    assert shown.bars("words") == len(why.terms) > 1
    for term in why.terms:
        product = f"{term.query_weight:.2f} × {term.doc_weight:.2f}"
        assert f"{term.token}{product}{term.contribution:.2f}" in shown.text
    assert shown.text.endswith(f"score{why.score:.2f}")


def test_an_explanation_shows_both_dense_parts_lost_words_and_collisions() -> None:
    terms, lost = (Term("<fox>", 2.0, 0.5, 1.0, True),), (Term("owl", 1.0, 1.0, 1.0),)
    why = Explanation("a", 3.0, 1.0, 2.0, terms, lost, 3.0, -1.0, 4, ("-zoo",), ("owll → owl",))
    shown = parsed(why)
    assert "dense, best passage 43.00" in shown.text
    assert "dense, mean of all-1.00" in shown.text
    assert "<fox> (hash collision)" in shown.text
    assert "dropped by the slicing1.00 × 1.000.00" in shown.text
    assert "owll → owl, -zoo" in shown.text
    assert (shown.bars("dense"), shown.bars("minus"), shown.bars("words")) == (1, 1, 1)


def test_an_explanation_of_nothing_is_a_score_of_0() -> None:
    assert parsed(Explanation("a", 0.0, 0.0, 0.0, (), ())).text == "a0.00score0.00"


# --- indexes


def test_an_index_is_a_card_of_what_it_holds(index: Index) -> None:
    text = parsed(index).text
    for fact in (str(index.path), "documents3", "passages3", "encoderbm25", "filterableyear", "last commit1", " MB"):
        assert fact in text
    assert parsed(index.info()).text == text


def test_a_closed_index_is_shown_as_text(index: Index) -> None:
    index.close()
    assert index._repr_html_() is None


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_card_escapes_names_and_facts(hostile: str) -> None:
    shown = Parsed(card_html(hostile, {hostile: hostile}))
    assert shown.text == hostile * 3
    assert "script" not in shown.tags
