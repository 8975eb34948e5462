"""Conditions on documents: every search returns what a plain check of each document admits, and nothing else."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import denslice as ds
from command_line import denslice, on_terminal
from denslice.analysis.analyzer import Analyzer
from denslice.cluster.cluster_folder import Layout
from denslice.cluster.cluster_reader import ClusterReader
from denslice.cluster.replica import Replica
from denslice.cluster.replicas import ReplicaOptions, Replicas
from denslice.cluster.shard import Head, new_shard
from denslice.index.doc_batches import cut_docs, encode_batches
from denslice.options import SearchOptions
from denslice.queries import Clause, Query
from denslice.rankings import Ranking
from denslice.records import Doc
from denslice.search.conditions import HeldWords, analyzer_of, holds, in_a_row
from denslice.serve.limits import Limits
from serving import live

WORDS = [
    "fox",
    "foxes",
    "Sleep",
    "sleeps",
    "day",
    "by",
    "the",
    "zoo",
    "wolf",
    "hunt,",
    "e-mail",
    "über",
    "狐狸",
    "U.S.",
]
TITLES = ["", "", "Foxes", "The zoo", "Sleep by day"]
PLACES = ["Old Zoo", "zoo", "North Sea", "C"]
EVERY_K = [1, 3, 500]
SHARDS = 3
fast = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def some_docs(count: int) -> list[Doc]:
    """Documents of few words, so that phrases repeat. Some are of several passages, some are empty."""
    chance = random.Random(7)
    docs = []
    for at in range(count):
        size = 600 if at % 31 == 5 else chance.randrange(12)
        text = " ".join(chance.choice(WORDS) for _ in range(size))
        meta: dict[str, Any] = {"year": chance.choice([2020, 2021, 2020.0])}
        if at % 3:
            meta["places"] = chance.sample(PLACES, 2) if at % 2 else chance.choice(PLACES)
        docs.append(Doc(f"d{at}", text, chance.choice(TITLES), meta))
    return docs


@pytest.fixture(scope="module", params=["bm25", "sliced", "mini"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ds.Index:
    """Two segments, with deleted documents."""
    encoder = "mini" if request.param == "mini" else "bm25"
    slices = 4 if request.param == "sliced" else None
    index = ds.Index.create(
        tmp_path_factory.mktemp("index") / "i",
        encoder,
        slices=slices,
        language="english",
        filterable=["year", "places"] if slices else ["year"],
    )
    docs = some_docs(40 if encoder == "mini" else 150)
    index.add(docs[::2])
    index.add(docs[1::2])
    index.delete(["d4", "d9"])
    return index


def plain_words(text: str, analyzer: Analyzer, stemmed: bool) -> str:
    words = analyzer.split(text)
    return " ".join(["", *(analyzer.stem(word) or word if stemmed else word for word in words), ""])


def holds_plainly(clause: Clause, doc: Doc, analyzer: Analyzer) -> bool:
    """Whether the words of a clause follow each other in a text of the document: what conditions mean."""
    found = doc.meta.get(clause.field, [])
    values = {"": [doc.title, doc.text], "title": [doc.title]}.get(
        clause.field, found if isinstance(found, list) else [found]
    )
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    stemmed = clause.kind == "word"
    wanted = plain_words(clause.text, analyzer, stemmed)
    if clause.kind == "prefix":
        wanted = wanted.rstrip()
    same = clause.field not in ("", "title") and clause.text.casefold() in [text.casefold() for text in texts]
    return same or (bool(wanted.strip()) and any(wanted in plain_words(text, analyzer, stemmed) for text in texts))


def meets_plainly(query: Query, doc: Doc, analyzer: Analyzer) -> bool:
    required = [[one for one in some if _says_something(one, analyzer)] for some in query.required]
    is_met = all(any(holds_plainly(clause, doc, analyzer) for clause in some) for some in required if some)
    return is_met and not any(holds_plainly(one, doc, analyzer) for one in query.excluded)


def _says_something(clause: Clause, analyzer: Analyzer) -> bool:
    return bool(analyzer.split(clause.text)) or clause.field not in ("", "title")


words = st.sampled_from([*WORDS, "absent", "…"])
phrases = st.lists(words, min_size=1, max_size=3).map(" ".join)
clauses = (
    st.builds(Clause, words)
    | st.builds(Clause, phrases, st.just("phrase"), st.sampled_from(["", "title"]))
    | st.builds(Clause, words, st.just("word"), st.just("title"))
    | st.builds(Clause, st.sampled_from(["zo", "Sle", "fox"]), st.just("prefix"), st.just("title"))
    | st.builds(Clause, st.sampled_from(["2020", "2021", "20"]), st.just("word"), st.just("year"))
    | st.builds(
        Clause, st.sampled_from(["zoo", "old zoo", "c"]), st.sampled_from(["word", "phrase"]), st.just("places")
    )
)
queries = st.builds(
    Query,
    text=st.lists(words, max_size=3).map(" ".join),
    must=st.lists(words | clauses | st.lists(words | clauses, min_size=1, max_size=2), max_size=2),
    must_not=st.lists(words | clauses, max_size=2),
    phrases=st.lists(phrases, max_size=1),
)


@given(query=queries)
@fast
def test_masks_equal_a_check_of_every_document(index: ds.Index, query: Query) -> None:
    analyzer = analyzer_of(index.info().encoder_options)
    masks = index.reader.admitted(query, SearchOptions(where={"year": 2020}))
    admitted: set[str] = set()
    for segment, mask in zip(index.reader.snapshot.segments, masks, strict=True):
        admitted |= set(segment.ids(np.flatnonzero(mask)))
    meeting = {doc.id for doc in index.docs() if doc.meta["year"] == 2020 and meets_plainly(query, doc, analyzer)}
    assert admitted == meeting


@given(query=queries, mode=st.sampled_from(["lexical", "dense", "hybrid"]), k=st.sampled_from(EVERY_K))
@fast
def test_hits_are_those_of_a_search_without_conditions_that_meet_them(
    index: ds.Index, query: Query, mode: str, k: int
) -> None:
    mode = mode if index.info().dimensions else "lexical"
    analyzer = analyzer_of(index.info().encoder_options)
    meeting = [doc.id for doc in index.docs() if meets_plainly(query, doc, analyzer)]
    scored = dict(_pairs(index.search(Query(text=query.text), k=500, mode=mode)))
    required = [one for some in query.required for one in some if _says_something(one, analyzer)]
    excluded = [one for one in query.excluded if _says_something(one, analyzer)]
    if required or (excluded and not scored):
        scored = dict.fromkeys(meeting, 0.0) | scored
    expected = sorted(((id, scored[id]) for id in meeting if id in scored), key=lambda pair: (-pair[1], pair[0]))
    assert _pairs(index.search(query, k=k, mode=mode)) == expected[:k]


@given(query=queries, k=st.sampled_from(EVERY_K))
@fast
def test_passages_are_those_of_documents_that_meet_the_conditions(index: ds.Index, query: Query, k: int) -> None:
    analyzer = analyzer_of(index.info().encoder_options)
    meeting = {doc.id for doc in index.docs() if meets_plainly(query, doc, analyzer)}
    every = index.search(Query(text=query.text), k=5_000, group=False)
    expected = [(id, number) for id, number in zip(every.ids, every.passages, strict=True) if id in meeting]
    found = index.search(query, k=k, group=False)
    assert list(zip(found.ids, found.passages, strict=True)) == expected[:k]


def _pairs(ranking: Ranking) -> list[tuple[str, float]]:
    return list(zip(ranking.ids, ranking.scores, strict=True))


@given(typed=phrases)
@fast
def test_a_phrase_hit_contains_the_phrase(index: ds.Index, typed: str) -> None:
    split = analyzer_of(index.info().encoder_options).split
    wanted = split(typed)
    for hit in index.search(f'fox "{typed}"', k=500) if wanted else ():
        texts = [split(hit.title), split(hit.text)]
        assert any(wanted == text[at : at + len(wanted)] for text in texts for at in range(len(text)))


@given(word=st.sampled_from(["fox", "sleep", "zoo", "wolf", "über"]))
@fast
def test_no_hit_holds_a_word_that_it_must_not_hold(index: ds.Index, word: str) -> None:
    analyzer = analyzer_of(index.info().encoder_options)
    found = index.search(f"day -{word}", k=500)
    assert len(found) > 0
    for hit in found:
        assert analyzer.stem(word) not in analyzer.words(f"{hit.title} {hit.text}")


# --- one collection


ANIMALS: list[dict[str, Any]] = [
    {"id": "1", "title": "Animals", "text": "Foxes sleep by day, in the zoo.", "year": 2020},
    {"id": "2", "title": "Foxes", "text": "A fox sleeps by day and hunts by night.", "year": 2021, "tags": ["Red Fox"]},
    {"id": "3", "text": "Day by day, wolves hunt.", "year": 2020},
    {"id": "4", "text": "To be or not to be."},
]


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> ds.Index:
    index = ds.Index.create(tmp_path_factory.mktemp("animals") / "i", "bm25")
    index.add(ANIMALS)
    return index


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        ('"sleep by day"', {"1"}),
        ('"sleeps by day"', {"2"}),
        ('"SLEEP, by day!"', {"1"}),
        ("+fox day", {"1", "2"}),
        ("day -fox", {"3"}),
        ('fox -"sleep by day"', {"2"}),
        ("title:fox", {"2"}),
        ("-title:fox day", {"1", "3"}),
        ('title:"fox"', set()),
        ("title:fo*", {"2"}),
        ("day year:2020", {"1", "3"}),
        ("year:2020", {"1", "3"}),
        ("tags:fox", {"2"}),
        ('tags:"red fox"', {"2"}),
        ("tags:blue", set()),
        ("hun*", {"2", "3"}),
        ("+hun* fox", {"2", "3"}),
        ("day -hun*", {"1"}),
        ("wolvs~", {"3"}),
        ("+foz~", {"1", "2"}),
        ('"to be or not to be"', {"4"}),
        ("+not", {"4"}),
        ('wolves OR "sleep by day"', {"1", "3"}),
        ("+wolves OR zoo day", {"1", "3"}),
        ("-fox", {"3", "4"}),
        ("nope:fox", {"1", "2"}),
    ],
)
def test_what_people_type_is_what_they_find(animals: ds.Index, typed: str, ids: set[str]) -> None:
    assert set(animals.search(typed).ids) == ids
    assert [set(one.ids) for one in animals.search_batch([typed, "fox"])] == [ids, {"1", "2"}]


def test_a_query_is_a_value(animals: ds.Index) -> None:
    assert animals.search(Query(must=["fox"], text="sleep day")).ids == ("1", "2")
    assert animals.search(Query(must=["fox"], text="wolves")).scores == (0.0, 0.0)
    assert animals.search(Query(must=[("wolves", Clause("animals", field="title"))])).ids == ("1", "3")
    assert animals.search(Query(phrases=["by night"], must_not=["zoo"])).ids == ("2",)


def test_a_run_takes_texts_as_plain_words(animals: ds.Index) -> None:
    (ranking,) = animals.rank([Query("q1", '"sleep by day" -zoo')])
    assert set(ranking.ids) == {"1", "2", "3"}
    (ranking,) = animals.rank([Query("q1", "sleep", must=["zoo"])])
    assert (ranking.query_id, ranking.ids) == ("q1", ("1",))


def test_an_explanation_names_the_conditions(animals: ds.Index) -> None:
    typed = 'foxes "sleep by day" -night title:animals'
    why = animals.search(typed).explain("1")
    assert why.conditions == ('"sleep by day"', "title:animals", "-night")
    assert why.score == pytest.approx(sum(term.contribution for term in why.terms))
    assert animals.explain(typed, "1") == why
    assert animals.explain("foxes", "1").conditions == ()


def test_the_words_of_a_prefix_count_as_one(animals: ds.Index) -> None:
    """They are as rare as all of them together, and the word that is typed in full counts as it is."""
    why = animals.search("hun* fo*").explain("2")
    assert {term.token for term in why.terms} == {"hunt", "fox"}
    assert animals.search("hunt*").scores == animals.search("hunt").scores
    docs = [{"id": str(at), "text": text} for at, text in enumerate(["sleep", "sledge", "slay", "slate"])]
    index = ds.Index.create(animals.path.parent / "prefixes", "bm25")
    index.add(docs)
    both = index.search("sle*")
    assert both.ids == ("0", "1")
    assert both.scores[0] == pytest.approx(both.scores[1])
    assert both.scores[0] < index.search("sleep").scores[0]


def test_texts_are_checked_where_tokens_are_no_words(tmp_path: Path) -> None:
    index = ds.Index.create(tmp_path / "vectors", "vectors")
    index.add([Doc(one["id"], one["text"], vector={"a": 1.0}) for one in ANIMALS])
    assert index.search(Query(vector={"a": 1.0}, must=["fox"])).ids == ("1", "2")
    assert index.search(Query(vector={"a": 1.0}, must_not=["hunt"], phrases=["by day"])).ids == ("1",)
    assert index.search(Query(vector={"a": 1.0}, must=[Clause("wol", "prefix")])).ids == ("3",)


def test_skipped_tokens_are_checked_in_the_text(tmp_path: Path) -> None:
    index = ds.Index.create(tmp_path / "skipped", "bm25", skip=3)
    index.add(ANIMALS)
    assert set(index.search("day +fox").ids) == {"1", "2"}


def test_words_are_compared_in_the_language_of_each_document(tmp_path: Path) -> None:
    index = ds.Index.create(tmp_path / "languages", "bm25")
    german = "In den alten Häusern am Rand der Stadt wohnen heute nur noch wenige Menschen mit ihren Kindern."
    english = "The houses at the edge of the town are old, and few people live in them with their children."
    index.add([{"id": "de", "title": "Die Häuser", "text": german}, {"id": "en", "title": "Houses", "text": english}])
    for typed, ids in (
        ("+Haus Stadt", {"de"}),
        ("+house Stadt", {"en"}),
        ("title:Haus", {"de"}),
        ("title:house", {"en"}),
        ("+in -people", {"de"}),
        ("häus* -people", {"de"}),
        ('"der Stadt"', {"de"}),
        ('"DEN ALTEN HÄUSERN"', {"de"}),
        ("+Kinder OR children", {"de", "en"}),
    ):
        assert set(index.search(typed).ids) == ids, typed


def test_a_word_with_parts_is_beside_its_neighbours_as_a_whole_and_by_its_parts() -> None:
    analyzer = Analyzer()
    doc = Doc("d", "the siRNA against viruses, for further analysis.In short: parseDate now")
    held = ["siRNA against", "sirna against viruses", "further analysis", "analysis in short", "parse date", "date now"]
    held += ["parseDate now", "the sirna", "further analysis.In short"]
    assert [one for one in held if not holds(HeldWords(in_a_row(analyzer.spans(one))), doc, analyzer)] == []
    others = ["the against", "further in", "parse now", "date parse", "against sirna"]
    assert [one for one in others if holds(HeldWords(in_a_row(analyzer.spans(one))), doc, analyzer)] == []


def test_a_part_of_a_word_without_spaces_is_a_phrase() -> None:
    analyzer = Analyzer()
    doc = Doc("d", "黒い狐狸が眠る")
    for phrase, is_held in (("狐", True), ("狐狸", True), ("い狐狸", True), ("狸狐", False), ("猫", False)):
        assert holds(HeldWords(in_a_row(analyzer.spans(phrase))), doc, analyzer) is is_held


# --- clusters


class LocalReplicas:
    """Replicas of every shard in this process."""

    def __init__(self, layout: Layout) -> None:
        self.options = ReplicaOptions(replicas=1)
        self._replicas = [Replica(str(layout.shard(number))) for number in range(layout.shards)]

    def ask(self, requests: dict[int, tuple[str, bytes]]) -> dict[int, bytes]:
        return {shard: self._replicas[shard].answer(*request) for shard, request in requests.items()}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ClusterReader, ds.Index]:
    """A cluster of three shards, and one index of the same documents."""
    folder, docs = tmp_path_factory.mktemp("both"), some_docs(90)
    whole = ds.Index.create(folder / "whole", "bm25", language="english")
    whole.add(docs)
    layout = Layout(folder / "cluster", SHARDS)
    ds.Index.create(layout.head, "bm25", language="english")
    words = whole.reader.snapshot.words
    Head(layout.head).settle([words.word(id) for id in range(len(words))], None, None)
    layout.shard(0).parent.mkdir()
    for number, owned in _owned(layout, docs).items():
        new_shard(layout.head, layout.shard(number), encode_batches(cut_docs(owned, True), whole.reader.encoder))
    return ClusterReader(layout, cast(Replicas, LocalReplicas(layout)), complete=True), whole


def _owned(layout: Layout, docs: Sequence[Doc]) -> dict[int, list[Doc]]:
    owned: dict[int, list[Doc]] = {number: [] for number in range(layout.shards)}
    for doc in docs:
        owned[layout.owner(doc.id)].append(doc)
    return owned


@given(query=queries, k=st.sampled_from(EVERY_K), group=st.booleans())
@fast
def test_shards_equal_the_whole(both: tuple[ClusterReader, ds.Index], query: Query, k: int, group: bool) -> None:
    cluster, whole = both
    options = SearchOptions(k, group=group, where={"year": 2020})
    (ours,), (theirs,) = (list(reader.rank([query], options)) for reader in (cluster, whole.reader))
    assert (ours.ids, ours.passages) == (theirs.ids, theirs.passages)
    assert ours.scores == pytest.approx(theirs.scores, rel=1e-5)


def test_a_cluster_takes_what_people_type(both: tuple[ClusterReader, ds.Index]) -> None:
    cluster, whole = both
    for typed in ('"by day" -zoo', "title:zoo year:2021", "+sle* wolv~", 'places:"old zoo" OR "fox by"'):
        asked = cluster.typed(typed)
        assert asked == whole.reader.typed(typed)
        (ours,), (theirs,) = (list(reader.rank([asked], SearchOptions(5))) for reader in (cluster, whole.reader))
        assert ours.ids == theirs.ids
        assert ours.ids
        assert ours.explain(ours.ids[0]).conditions == theirs.explain(ours.ids[0]).conditions == asked.conditions


# --- front doors


def test_the_command_line_takes_operators_and_explains_them(animals: ds.Index) -> None:
    typed = '"by day" -zoo title:fox'
    lines = denslice("search", animals.path, typed, "--explain").stdout.splitlines()
    assert lines[0].split("\t")[2] == "2"
    assert lines[1] == '\tconditions\t"by day" title:fox -zoo'
    (hit,) = map(json.loads, denslice("search", animals.path, typed, "--explain", "--json").stdout.splitlines())
    assert hit["explanation"]["conditions"] == ['"by day"', "title:fox", "-zoo"]
    assert 'conditions: "by day" title:fox -zoo' in on_terminal("search", animals.path, typed, "--explain")


def test_http_takes_what_people_type_and_queries_as_objects(animals: ds.Index) -> None:
    body = {
        "text": "day",
        "must": [["wolves", {"text": "ani", "kind": "prefix", "field": "title"}]],
        "must_not": ["be"],
    }
    with live(animals, Limits()) as server:
        [typed] = server.search('"sleeps by day" -zoo', explain=True).json()["results"]
        given = server.ask("/search", {"queries": [body, "day -fox"]}).json()["results"]
        refused = server.ask("/search", {"query": {"phrases": ["a b"] * 65}})
    assert [hit["id"] for hit in typed["hits"]] == ["2"]
    assert typed["hits"][0]["explanation"]["conditions"] == ['"sleeps by day"', "-zoo"]
    assert [sorted(hit["id"] for hit in result["hits"]) for result in given] == [["1", "3"], ["3"]]
    assert [result["query"] for result in given] == ["day", "day -fox"]
    assert refused.code == "too_many_clauses"
