"""An index whose encoder is a transformer model: words and meaning in one search, and the model held to be the same."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")
pytest.importorskip("transformers", reason="needs the extra [torch]")

from denslice import Doc, Index, InputError, open_index  # noqa: E402
from denslice.encoders.model_config import ModelConfig  # noqa: E402
from denslice.encoders.torch import loader  # noqa: E402
from denslice.encoders.torch.bi_encoder import BiEncoder  # noqa: E402
from denslice.index.doc_batches import CutDoc  # noqa: E402
from denslice.index.writer import Writer  # noqa: E402
from denslice.records import Place  # noqa: E402
from small_models import WIDTH, WORDS, make_folder  # noqa: E402

DOCS = [{"id": "1", "text": "the cat sat"}, {"id": "2", "text": "the dog ran"}, {"id": "3", "text": "a cat ran"}]


@pytest.fixture
def joint(tmp_path: Path) -> Path:
    loader._loaded.cache_clear()
    loader.fingerprint.cache_clear()
    config = ModelConfig(lexical="splade", dense="cls", lam=2.0, max_length=32, query_length=16)
    BiEncoder.load(make_folder(tmp_path / "backbone"), config).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_joint_model_searches_by_words_and_meaning_in_one_index(tmp_path: Path, joint: Path) -> None:
    index = Index.create(tmp_path / "my.idx", str(joint), slices=16)
    index.add(DOCS)
    hits = index.search("the cat", k=3)
    assert {hit.id for hit in hits} == {"1", "2", "3"}
    for hit in hits:
        why = index.explain("the cat", hit.id)
        assert hit.score == pytest.approx(hit.lexical + hit.dense, abs=1e-5)
        assert sum(term.contribution for term in why.terms) + why.dense == pytest.approx(hit.score, abs=1e-4)
    assert (index.info()["dimensions"], index.info()["vocabulary"]) == (WIDTH, len(WORDS))
    again = open_index(tmp_path / "my.idx")
    assert again.search("the cat", k=3).ids == hits.ids


@pytest.mark.parametrize("mode", ["lexical", "dense", "hybrid"])
def test_a_query_without_tokens_finds_nothing_and_a_document_without_is_never_found(
    tmp_path: Path, joint: Path, mode: str
) -> None:
    index = Index.create(tmp_path / "my.idx", str(joint), slices=16)
    wordless = ["", "?", "...", "🦊", "🦊 ?", "zzzz"]  # none of which the model has a word for
    index.add([*DOCS, *({"id": f"empty{at}", "text": text} for at, text in enumerate(wordless))])
    assert [text for text in wordless if index.search(text, mode=mode).ids] == []
    assert set(index.search("the cat ?", k=100, mode=mode).ids) == {doc["id"] for doc in DOCS}


def test_of_a_changed_document_only_new_passages_are_encoded(tmp_path: Path, joint: Path) -> None:
    index = Index.create(tmp_path / "my.idx", str(joint), skip=3)
    counts = []

    def add(text: str) -> None:
        places = [Place(0, len(text) // 2), Place(len(text) // 2, len(text))]

        def work(writer: Writer) -> int:
            added = writer.add_cut([CutDoc(Doc("1", text), places)], {})
            counts.append((writer.encoded_passages, writer.reused_passages))
            return added

        index.write(work, 10.0)

    add("the cat sat.a dog walks.")
    before = [(hit.lexical, hit.dense) for hit in index.search("the cat")]
    add("the cat sat.a dog walks.")
    assert [(hit.lexical, hit.dense) for hit in index.search("the cat")] == before
    add("a red mat ..a dog walks.")
    assert counts == [(2, 0), (0, 2), (1, 1)]


def test_another_model_in_its_place_is_refused(tmp_path: Path, joint: Path) -> None:
    Index.create(tmp_path / "my.idx", str(joint), slices=16).add(DOCS)
    loader._loaded.cache_clear()
    loader.fingerprint.cache_clear()
    (joint / "denslice.json").write_text((joint / "denslice.json").read_text() + " ")
    with pytest.raises(InputError, match="is not the model this index was made with"):
        open_index(tmp_path / "my.idx").search("the cat")


def test_a_name_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of mini, bm25 and vectors"):
        Index.create(tmp_path / "my.idx", "word2vec")
    assert not (tmp_path / "my.idx").exists()
