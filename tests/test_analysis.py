"""Analysis: the words of a text as people write them, in any script, and the terms under which they are found."""

import re
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from denslice.analysis import analyzer as analyzer_module
from denslice.analysis.analyzer import Analyzer, has_words
from denslice.analysis.languages import CODES, known_languages, language_named
from denslice.analysis.normal_forms import lower_case, normal_form, without_accents
from denslice.analysis.terms import word_terms
from denslice.analysis.written_words import written_words
from denslice.encoders.chunk_terms import SIGNS, plain_words, without_signs
from denslice.errors import InputError

TEXTS = st.text(st.characters(exclude_categories=()))
TYPED = st.text(st.sampled_from("abZé\u0301İıßﬁ_.@#+'’-:/ 12,٣ァｱﾞ中한국ไทย\u0e34हिन्दीش\u064b\u200d\u00ad😀\n"))


def forms(text: str) -> list[str]:
    return [word.form for word in written_words(text)]


# --- normal forms


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("résumé", "re\u0301sume\u0301"),
        ("İstanbul", "istanbul"),
        ("ISTANBUL", "istanbul"),
        ("ﬁle", "FILE"),
        ("Straße", "STRASSE"),
        ("٢٠٢٠", "2020"),
        ("كِتَابٌ", "كتاب"),
        ("co\u00adoperate", "cooperate"),
        ("ｸﾗﾌﾞ", "クラブ"),
        ("Ｃａｔ", "cat"),
        ("σοφός", "ΣΟΦΌΣ"),
    ],
)
def test_two_spellings_of_a_word_have_one_normal_form(one: str, other: str) -> None:
    assert normal_form(one) == normal_form(other)


def test_accents_are_removed_where_they_are_accents_and_kept_where_marks_are_vowels_or_other_letters() -> None:
    words = ["hôtel", "việt", "ἀθῆναι", "ёлка", "øre", "æther", "ısparta", "русский", "हिन्दी", "ガ"]
    bare = ["hotel", "viet", "αθηναι", "елка", "ore", "aether", "isparta", "русский", "हिन्दी", "ガ"]
    assert [without_accents(word) for word in words] == bare


@given(TEXTS)
def test_lower_case_keeps_the_length_of_a_text(text: str) -> None:
    assert len(lower_case(text)) == len(text)


# --- written words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Cats, the cats!", ["the", "cats", "the", "cats"]),
        ("vitamin C, R and 7", ["vitamin", "c", "r", "and", "7"]),
        ("हिन्दी भारत", ["हिन्दी", "भारत"]),
        ("parseDate", ["parsedate", "parse", "date"]),
        ("date_string", ["date_string", "date", "string"]),
        ("datetime.date", ["datetime.date", "datetime", "date"]),
        ("parseHTTPResponse", ["parsehttpresponse", "parse", "http", "response"]),
        ("ETFs iPhone mRNA", ["etfs", "iphone", "mrna"]),
        ("__init__", ["__init__", "init"]),
        ("write to foo.bar@example.com.", ["write", "to", "foo.bar@example.com", "foo", "bar", "example", "com"]),
        ("(https://example.com/a?x=1).", ["https://example.com/a?x=1", "https", "example", "com"]),
        ("C++ and C# or F#, C++17", ["c++", "c", "and", "c#", "c", "or", "f#", "f", "c", "17"]),
        ("#winning @home", ["#winning", "winning", "@home", "home"]),
        ("v1.2.3 or 3.14 or 1,000,000", ["v1.2.3", "v1", "or", "3.14", "or", "1000000"]),
        ("U.S. and U.S.A., e.g.", ["us", "and", "usa", "eg"]),
        ("the dog's l'amour O'Neill don't 'C'", ["the", "dog", "amour", "neill", "don", "c"]),
        ("state-of-the-art covid-19", ["state", "of", "the", "art", "covid", "19"]),
        ("東京都 猫 running、abc日本", ["東京", "京都", "猫", "running", "abc", "日本"]),
        ("在2016年", ["在", "2016", "年"]),
        ("한국어・カタカナ", ["한국", "국어", "カタ", "タカ", "カナ"]),
        ("ประเทศ ไทย", ["ประ", "ระเ", "ะเท", "เทศ", "ไทย"]),
        ("a 😀 b", ["a", "😀", "b"]),
        ("____ -- … \ud800 \x00", []),
    ],
)
def test_words_are_what_people_would_search_for(text: str, words: list[str]) -> None:
    assert forms(text) == words


@given(TEXTS | TYPED)
def test_the_analysis_of_nfc_and_nfd_is_the_same(text: str) -> None:
    composed, decomposed = (forms(unicodedata.normalize(form, text)) for form in ("NFC", "NFD"))
    assert composed == decomposed


@given(TEXTS | TYPED)
def test_a_text_is_analysed_by_its_chunks_between_white_space(text: str) -> None:
    assert Analyzer().split(text) == forms(text)
    assert [word for word, _, _ in Analyzer().spans(text)] == Analyzer().split(text)


@given(TEXTS | TYPED)
@example("ァ\u0300\u094d")  # marks that the normal form puts in another order
def test_the_place_of_a_word_is_within_the_text_and_holds_the_word(text: str) -> None:
    for form, start, end in Analyzer().spans(text):
        assert 0 <= start < end <= len(text)
        assert form.replace(",", "") in normal_form(text[start:end]).replace(",", "").replace(".", "") or form in (
            normal_form(text[start:end])
        )


# --- terms


def terms(form: str, language: str) -> dict[str, tuple[float, float]]:
    return {term.token: (term.in_docs, term.in_queries) for term in word_terms(form, language).terms}


def test_an_english_word_counts_by_its_stem() -> None:
    assert terms("running", "english") == {"run": (1, 1)}


@pytest.mark.parametrize(("word", "language"), [("hôtel", "french"), ("schön", "german"), ("naïve", "english")])
def test_an_exact_spelling_is_ahead_of_one_without_accents(word: str, language: str) -> None:
    def score(query: str, doc: str) -> float:
        stored = terms(doc, language)
        return sum(
            weight * stored[token][0] for token, (_, weight) in terms(query, language).items() if token in stored
        )

    bare = without_accents(word)
    assert score(word, word) > score(word, bare) > 0
    assert score(bare, bare) > score(bare, word) > 0


def test_a_longer_word_of_another_language_counts_a_little_by_its_first_letters() -> None:
    assert terms("häuser", "german") == {"haus": (0.6, 0.6), "häus": (1, pytest.approx(0.64)), "haus*": (1, 0.3)}
    assert "haus*" not in terms("haus", "german")


def test_a_pair_of_characters_counts_by_each_of_them_too() -> None:
    assert terms("東京", "japanese") == {"東京": (1, 1), "東": (0.25, 0.25), "京": (0.25, 0.25)}


def test_a_word_takes_the_stemmer_of_its_script_in_a_text_of_another_one() -> None:
    assert next(iter(terms("собаки", "english"))) == next(iter(terms("собаки", "russian"))) == "собак"
    assert next(iter(terms("running", "russian"))) == "run"


def test_an_identifier_is_not_stemmed_as_a_whole() -> None:
    assert terms("os.files", "english") == {"os.files": (1, 1)}


# --- the analyzer


def test_words_are_stemmed_and_without_stop_words() -> None:
    assert Analyzer("en").words("The Cats were running, and THEY ran!") == ["cat", "were", "run", "ran"]


def test_stop_words_are_dropped_before_stemming() -> None:
    assert Analyzer("en", ("run",)).words("running run runs") == ["run", "run"]


def test_stop_words_given_in_capitals_count() -> None:
    assert Analyzer("en", ("Cat",)).words("The cat") == ["the"]


def test_only_english_has_stop_words_of_its_own() -> None:
    assert Analyzer("none").words("the cats") == ["the", "cats"]
    assert Analyzer("german").words("the Katzen") == ["the", "katz"]


def test_a_language_is_given_by_its_code_or_its_name() -> None:
    assert language_named("de") == language_named("DE") == language_named("German") == "german"
    assert Analyzer("de") == Analyzer("german")
    assert all(language_named(name) == name for name in known_languages())
    assert set(CODES.values()) <= set(known_languages())


def test_an_unknown_language_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(InputError, match=r"'klingon' is not known.*en \(english\).*or none"):
        Analyzer("klingon")


@pytest.mark.parametrize("stop_words", ["the", ("the", 3), ["the"]])
def test_stop_words_must_be_a_tuple_of_words(stop_words: Any) -> None:
    with pytest.raises(InputError, match="expected a tuple of words"):
        Analyzer(stop_words=stop_words)


def test_the_memory_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer_module, "CACHED_WORDS", 2)
    analyzer = Analyzer("en")
    assert analyzer.words(f"cats mice dogs {'x' * 50} cats") == ["cat", "mice", "dog", "x" * 50, "cat"]
    assert len(analyzer._written) <= 2
    assert len(analyzer.terms_in("english")) <= 2


def test_a_symbol_such_as_an_emoji_is_a_word_and_punctuation_is_not() -> None:
    assert [text for text in ("a", "7", "😀", "→", "?!", "", "__") if has_words(text)] == ["a", "7", "😀"]


@given(st.text(st.sampled_from("abcXY12"), min_size=1))
def test_the_short_way_of_plain_words_is_that_of_all_words(word: str) -> None:
    assert forms(word) == forms(f"{word} ")


@given(st.text(st.sampled_from("abZ19-/.,(?\"'’s#@+*‘“—"), min_size=1))
def test_the_short_way_of_plain_chunks_is_that_of_all_chunks(chunk: str) -> None:
    if (words := plain_words(chunk)) is not None:
        assert re.split("[-/]", words) == forms(chunk)


@given(TEXTS | TYPED | st.text(st.sampled_from("ab .,;!?()[]{}\"wh:/'")))
def test_signs_between_words_change_no_word(text: str) -> None:
    assert forms(without_signs(text)) == forms(text)


@given((TEXTS | TYPED | st.text(st.sampled_from("ab.,;:!?()[]{}\"w1/'@"))).map("".join))
def test_signs_around_a_chunk_change_no_word(text: str) -> None:
    for chunk in text.split():
        assert forms(chunk.strip(SIGNS)) == forms(chunk)
