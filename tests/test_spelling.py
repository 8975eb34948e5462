"""Spelling: words that a collection does not have are taken for the nearest ones that it has; and completions."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice import Index, Query
from denslice.search.completions import completions
from denslice.search.spelling import CORRECTED, Speller

TEXTS = {
    "post": "You receive a parcel and sign for it.",
    "deeds": "They received the deeds of the property.",
    "moon": "The lunar module landed near a crater.",
    "haus": "Die Häuser der Stadt sind alt, und viele Menschen wohnen seit langer Zeit in ihnen.",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    made = Index.create(tmp_path_factory.mktemp("spelling") / "my.idx", "bm25")
    made.add({"id": id, "text": text} for id, text in TEXTS.items())
    return made


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("recieve", "receive"),  # neighbours swapped
        ("parcl", "parcel"),
        ("craterr", "crater"),
        ("propetry", "property"),
        ("modle", "module"),
        ("prcel", "parcel"),
        ("menshcen", "menschen"),
    ],
)
def test_a_misspelt_word_finds_what_the_right_one_finds(index: Index, typed: str, meant: str) -> None:
    found, right = index.search(typed), index.search(meant)
    assert found.ids == right.ids != ()
    assert [tuple(one) for one in found.corrections] == [(typed, meant)]
    assert found.scores[0] == pytest.approx(CORRECTED * right.scores[0], rel=0.5)
    assert found.scores[0] < right.scores[0]
    assert found.explanations()[0].corrections == (f"{typed} → {meant}",)


@pytest.mark.parametrize("text", ["receiving", "received", "mon", "p4rcel", "parcel.sign", "the"])
def test_words_that_are_known_or_short_or_no_words_are_not_corrected(index: Index, text: str) -> None:
    assert index.search(text).corrections == ()


def test_correction_can_be_turned_off(index: Index) -> None:
    assert index.search("recieve", fuzzy=False).ids == ()
    assert index.search("recieve", fuzzy=False).corrections == ()


def test_a_query_of_known_words_is_the_same_with_and_without_correction(index: Index) -> None:
    for text in TEXTS.values():
        assert index.search(text).scores == index.search(text, fuzzy=False).scores


def test_a_word_of_deleted_documents_is_not_known_any_more(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "1", "text": "a parcel"}, {"id": "2", "text": "a parrot"}])
    assert index.search("parcex").corrections[0].meant == "parcel"
    index.delete(["1"])
    assert index.search("parcex").corrections == ()
    assert index.search("parcel").ids == ()


def test_of_words_that_are_equally_near_the_most_frequent_is_meant(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add({"id": str(n), "text": "the barrow" if n % 3 else "the narrow"} for n in range(9))
    assert index.search("xarrow").corrections[0].meant == "barrow"


class Listed:
    """A list of words, searched one by one."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def like_each(self, forms: Sequence[str], distance: int) -> list[list[tuple[str, int]]]:
        near = [[(word, int(word != form)) for word in self.words] for form in forms]
        return [[one for one in some if one[1] <= distance] for some in near]

    def starting_with(self, prefix: str, limit: int | None = None) -> list[str]:
        return [word for word in self.words if word.startswith(prefix)][:limit]


def test_a_word_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ids(form: str) -> tuple[int, ...]:
        asked.append(form)
        return (1,) if form == "known" else ()

    speller = Speller(ids, lambda keys: keys, Listed("known"))
    for _ in range(3):
        assert [str(one) for one in speller.corrections(["knowm", "known"])] == ["knowm → known"]
    assert asked == ["knowm", "known", "known"]


# --- completions


def count(forms: object) -> list[int]:
    return [3 if form == "receive" else 0 if form == "recede" else 1 for form in forms]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("I rec", ["I receive", "I recall", "I receipt"]),
        ("-Rece", ["-receive", "-receipt"]),
        ('"you rec', ['"you receive', '"you recall', '"you receipt']),
        ("rec ", []),
        ("", []),
        ("receive", []),
        ("東", []),
    ],
)
def test_the_last_word_is_completed_by_the_most_frequent_first(text: str, found: list[str]) -> None:
    assert completions(text, 10, Listed("recall", "recede", "receipt", "receive", "東京"), count) == found


def test_an_index_suggests_its_own_words(index: Index) -> None:
    assert index.suggest("the mod") == ["the module"]
    assert index.suggest("rec") == ["receive", "received"]
    assert index.suggest("häu") == ["häuser"]
    assert index.suggest("x", k=1) == []


@given(st.text() | st.text(st.sampled_from('aAbá "-+:é')))
def test_a_completion_is_the_text_with_another_last_word(text: str) -> None:
    found = completions(text, 5, Listed("a", "ab"), lambda some: [1] * len(some))
    assert [one for one in found if not (one.endswith("ab") and text.startswith(one[:-2]))] == []
    assert completions(f"{text} a", 5, Listed("a", "ab"), lambda some: [1] * len(some)) == [f"{text} ab"]


def test_plain_queries_are_corrected_too(index: Index) -> None:
    (found,) = index.rank([Query("q", "recieve")], k=3)
    assert found.ids == index.search("receive").ids
