"""An explanation names a phrase by what the document's own text holds, and says where two phrases share a bucket."""

from functools import cache
from itertools import product
from pathlib import Path

import pytest

from denslice import Explanation, Index
from denslice.analysis.analyzer import Analyzer
from denslice.encoders.bm25 import _bucket
from denslice.encoders.chunk_terms import stem_hash
from denslice.rankings import Term

ASKED = "heat transfer"
WORDS = tuple("".join(letters) for letters in product("bdklmprtvz", "aou", "bdgklmnprt"))


@cache
def collisions() -> tuple[str, ...]:
    """Phrases that the hash puts in the bucket of ASKED, of words that are their own stems."""
    bucket = _bucket(*map(stem_hash, ASKED.split()))
    words = [word for word in WORDS if Analyzer().words(word) == [word]]
    found = (
        f"{one} {other}" for one, other in product(words, words) if _bucket(stem_hash(one), stem_hash(other)) == bucket
    )
    return tuple(found)[:2]


def index_of(tmp_path: Path, encoder: str, **texts: str) -> Index:
    index = Index.create(tmp_path / f"{encoder}.idx", encoder, options={"phrases": 0.3})
    index.add([{"id": id, "text": text} for id, text in texts.items()])
    return index


def phrase(why: Explanation) -> Term:
    """The term of two words, of which there is one."""
    [term] = [term for term in why.terms if " " in term.token]
    return term


def test_the_hash_does_put_other_phrases_in_the_bucket() -> None:
    assert len(collisions()) == 2
    assert ASKED not in collisions()


@pytest.mark.parametrize("encoder", ["bm25", "mini"])
def test_a_bucket_is_named_by_the_documents_phrase_and_the_collision_is_told(tmp_path: Path, encoder: str) -> None:
    index = index_of(tmp_path, encoder, pair="a tale of heat transfer", other=f"a tale of {collisions()[0]}")
    true, false = (phrase(index.explain(ASKED, id)) for id in ("pair", "other"))
    assert (true.token, true.collision) == (ASKED, False)
    assert (false.token, false.collision) == (collisions()[0], True)


def test_a_bucket_that_a_document_fills_twice_is_named_by_both_phrases(tmp_path: Path) -> None:
    index = index_of(tmp_path, "bm25", both=f"heat transfer, and then {collisions()[0]}")
    term = phrase(index.explain(ASKED, "both"))
    assert (term.token, term.collision) == (f"heat transfer / {collisions()[0]}", True)


def test_a_bucket_that_a_query_fills_twice_is_a_collision_too(tmp_path: Path) -> None:
    index = index_of(tmp_path, "bm25", pair=ASKED)
    term = phrase(index.explain(f"{ASKED} of {collisions()[0]}", "pair"))
    assert (term.token, term.collision) == (ASKED, True)


def test_contributions_sum_to_the_score_where_phrases_collide(tmp_path: Path) -> None:
    one, other = collisions()
    index = index_of(tmp_path, "bm25", a=f"{ASKED} {one}", b=f"{one} {other}", c="transfer of some heat")
    hits = index.search(f"{ASKED} {other}")
    assert set(hits.ids) == {"a", "b", "c"}
    for hit in hits:
        why = index.explain(f"{ASKED} {other}", hit.id)
        assert sum(term.contribution for term in why.terms) == pytest.approx(hit.score, rel=1e-5)


def test_a_lost_phrase_is_named_by_the_document_too(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "one.idx", "bm25", slices=1, slicing="stride", options={"phrases": 0.3})
    index.add([{"id": "other", "text": f"{collisions()[0]} word word"}])
    [term] = index.explain(ASKED, "other").lost
    assert (term.token, term.collision) == (collisions()[0], True)


def test_every_name_of_a_term_is_in_the_documents_own_words(tmp_path: Path) -> None:
    one, other = collisions()
    texts = {"a": f"A {one} heats transfers; {other}.", "b": f"{other} transferring heat", "c": "heat the transfer"}
    index = index_of(tmp_path, "bm25", **texts)
    for id, text in texts.items():
        held = " ".join(Analyzer().words(text))
        why = index.explain(f"heated transfers {one}", id)
        assert all(name in held for term in why.terms for name in term.token.split(" / "))
