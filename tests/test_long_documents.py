"""Long documents from their texts to their hits: nothing is lost, and what matched is shown where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

import denslice as ds
from denslice.corpus.passages import cut
from denslice.records import Doc

FILLER = "The committee met again, read the minutes of the last meeting and went on to the next point of the agenda."


def note(needles: dict[int, str], paragraphs: int = 60) -> str:
    """A long text whose paragraphs are alike, but for a sentence in some of them."""
    return "\n\n".join(f"{FILLER} {FILLER} {needles.get(at, '')} {FILLER}" for at in range(paragraphs))


NEEDLES = {
    3: "A heron stood in the canal behind the brewery.",
    31: "The lighthouse was painted green in 1911.",
    58: "Nobody could repair the old telescope.",
}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> ds.Index:
    index = ds.Index.create(tmp_path_factory.mktemp("notes") / "my.idx", "mini")
    others = [{"id": f"other{n}", "text": note({}, 20 + n)} for n in range(3)]
    index.add([{"id": "log", "title": "The log", "text": note(NEEDLES), "year": 1911}, *others])
    return index


@pytest.mark.parametrize("needle", NEEDLES.values())
@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_every_word_of_a_long_document_finds_it_and_its_passage(notes: ds.Index, needle: str, mode: str) -> None:
    word = max(needle.strip(".").split(), key=len)
    hit = notes.search(word, 1, mode=mode)[0]
    assert hit.id == "log"
    assert word in hit.passages[0].text
    assert hit.text[hit.passages[0].start : hit.passages[0].end] == hit.passages[0].text
    (passage,) = notes.search(word, 1, mode=mode, group=False)
    assert (passage.id, passage.title, passage.meta) == ("log", "The log", {"year": 1911})
    assert word in passage.text


@pytest.mark.parametrize(
    ("question", "at"), [("a wading bird near the water", 3), ("colour of the beacon", 31), ("broken instrument", 58)]
)
def test_a_sentence_is_found_by_its_meaning_wherever_it_stands(notes: ds.Index, question: str, at: int) -> None:
    best = notes.search(question, 1, mode="dense", group=False)[0]
    assert NEEDLES[at] in best.text
    assert NEEDLES[at] in notes.search(question, 1, mode="dense")[0].passages[0].text


def test_documents_of_one_passage_score_as_they_would_uncut(tmp_path: Path) -> None:
    short = [{"id": f"d{n}", "text": f"Foxes sleep by day {n} and owls too."} for n in range(5)]
    alone, beside = ds.Index.create(tmp_path / "alone", "bm25"), ds.Index.create(tmp_path / "beside", "bm25")
    alone.add(short)
    beside.add([*short, {"id": "long", "text": note({})}])
    beside.delete(["long"])  # and with it its passages, its words and their document frequencies
    found, expected = beside.search("foxes sleep"), alone.search("foxes sleep")
    assert (found.ids, found.scores) == (expected.ids, expected.scores)
    assert beside.info().passages == len(short)


def test_replacing_a_document_leaves_none_of_its_old_passages(tmp_path: Path) -> None:
    index = ds.Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "log", "text": note(NEEDLES)}])
    index.add([{"id": "log", "text": note({5: "A new sentence about walruses."}, 30)}])
    assert not index.search("heron", group=False)
    assert index.search("walruses", group=False).ids[0] == "log"
    assert index.info().passages == len(cut(note({5: "A new sentence about walruses."}, 30)))
    index.merge()
    assert not index.search("lighthouse", group=False)


def test_filters_choose_documents_whose_passages_are_searched(notes: ds.Index) -> None:
    assert {hit.id for hit in notes.search("committee", 50, group=False, where={"year": 1911})} == {"log"}
    assert not notes.search("heron", group=False, mode="lexical", where={"year": {"lt": 1911}})


def test_explanations_of_a_passage_name_its_phrases_and_sum_to_its_score(notes: ds.Index) -> None:
    ranking = notes.search("the old telescope", 3, group=False)
    for hit, why in zip(ranking, ranking.explanations(), strict=True):
        assert why.score == pytest.approx(hit.score, abs=1e-4)
        assert why.passage == hit.passages[0].number
    assert "old telescop" in {term.token for term in ranking.explanations()[0].terms}
    assert "old telescop" in {term.token for term in notes.explain("the old telescope", "log").terms}


def test_a_passage_that_is_not_there_is_refused(notes: ds.Index) -> None:
    with pytest.raises(ds.InputError, match=r"document 'log' has no passage 999; it has 0 to \d+"):
        notes.explain("heron", "log", passage=999)


@pytest.mark.parametrize("text", ["", " ", "word", "x" * 100_000, "\n" * 5_000, "é" * 3_000, "漢" * 3_000])
def test_any_text_can_be_added_searched_and_exported(tmp_path: Path, text: str) -> None:
    index = ds.Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "1", "text": text}, {"id": "2", "text": "foxes"}])
    assert index.get("1") == Doc("1", text)
    assert index.search("foxes", group=False).ids == ("2",)
    index.verify()
