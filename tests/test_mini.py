"""The embedded model: BM25's words weighed by their meaning, a dense vector beside them, and nothing to download."""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from denslice import Index, InputError, open_index
from denslice.analysis.analyzer import Analyzer
from denslice.encoders import load, mini
from denslice.encoders.bm25 import Bm25, Bm25Config
from denslice.encoders.mini import Mini
from denslice.encoders.onnx_model import CHARACTERS_PER_PIECE, OnnxModel
from denslice.encoders.word_pieces import LocatedWords, locate_words, occurrences, pooled
from denslice.store.vocabulary import Growth, Vocabulary
from denslice.vectors import Encoded, lexical_csr

CARS = [
    {"id": "car", "text": "The automobile needs petrol and a new engine."},
    {"id": "bread", "text": "Knead the dough, let it rise, then bake the loaf."},
    {"id": "cell", "text": "Mitochondria make the energy that a cell lives on."},
]
WORDS_OF_A_MODEL = Bm25Config(average_length=100.0)
ODD = [
    "",
    "   ",
    "?!",
    "naïve café déjà-vu",
    "統計的機械翻訳 and 猫",
    "İstanbul ΣΑΣ",
    "half \ud800 a pair",
    "a\x00b",
    "x" * 9000,
]


def embedded() -> Mini:
    encoder = load("mini", mini.mini_options("mini", {}), Growth(Vocabulary()))
    assert isinstance(encoder, Mini)
    return encoder


def dense_of(encoded: Encoded) -> np.ndarray:
    assert encoded.dense is not None
    return encoded.dense


# --- the model in the package


def test_it_finds_by_meaning_what_shares_no_word(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx")  # the default encoder
    index.add(CARS)
    assert index.info()["encoder"] == "mini"
    assert index.search("vehicle repair", mode="lexical").ids == ()
    assert index.search("vehicle repair")[0].id == "car"
    assert index.search("recipe for a baguette")[0].id == "bread"
    assert open_index(tmp_path / "my.idx").search("where do cells get their power")[0].id == "cell"


def test_an_explanation_adds_up_to_the_score(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx")
    index.add(CARS)
    for hit in index.search("energy of a cell, and an engine for the automobile", k=3):
        why = index.explain("energy of a cell, and an engine for the automobile", hit.id)
        assert sum(term.contribution for term in why.terms) + why.dense == pytest.approx(hit.score, abs=1e-4)
        assert why.dense == pytest.approx(hit.dense, abs=1e-4)
    assert why.dense != 0


def test_a_phrase_is_found_and_named_in_the_explanation(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx")
    index.add([{"id": "pair", "text": "a tale of heat transfer"}, {"id": "apart", "text": "transfer a tale of heat"}])
    found = open_index(tmp_path / "my.idx").search("heat transfer", mode="lexical")
    assert found.ids == ("pair", "apart")
    for id, score in zip(found.ids, found.scores, strict=True):
        why = index.explain("heat transfer", id, mode="lexical")
        assert sum(term.contribution for term in why.terms) == pytest.approx(score, abs=1e-5)
        assert ("heat transfer" in {term.token for term in why.terms}) == (id == "pair")


def test_a_phrase_is_as_important_as_its_words() -> None:
    plain, weighed = Bm25(Bm25Config(b=0.3, average_length=100.0, phrases=0.3), Growth(Vocabulary())), embedded()
    text = "a tale of heat transfer in pipes"
    before, after = (encoder.encode_docs([text]).lexical for encoder in (plain, weighed))
    assert before.indices.tolist() == after.indices.tolist()
    importance = dict(zip((plain.token(id) for id in before.indices), after.data / before.data, strict=True))
    read = next(weighed._model.read([text], 256))
    places = {word: (start, end) for word, start, end in Analyzer().spans(text)}
    first, last = places["heat"][0], places["transfer"][1]
    pair = [at for at, (start, end) in enumerate(read.offsets) if first <= start < end <= last]
    named = {name: id for id, names in plain.phrases(text).items() for name in names}
    assert importance[plain.token(named["heat transfer"])] == pytest.approx(read.importance[pair, 0].mean(), rel=1e-4)


def test_an_index_made_without_phrases_stays_without(tmp_path: Path) -> None:
    Index.create(tmp_path / "my.idx", options={"phrases": 0}).add(CARS)
    index = open_index(tmp_path / "my.idx")
    assert index.info()["encoder_options"]["phrases"] == 0
    assert index.info()["vocabulary"] == len({word for doc in CARS for word in Analyzer().words(doc["text"])})


def test_a_text_is_encoded_the_same_whatever_stands_beside_it() -> None:
    texts = [doc["text"] for doc in CARS] + ["short", "much longer " * 100]
    together = embedded().encode_docs(texts)
    for row, text in enumerate(texts):
        alone = embedded().encode_docs([text])
        assert (dense_of(alone)[0] == dense_of(together)[row]).all()
        assert sorted(alone.lexical.data) == sorted(together.lexical[[row]].data)


def test_dense_vectors_have_length_one_and_an_empty_text_has_none() -> None:
    dense = dense_of(embedded().encode_docs(["a text", "", "  ", "another"]))
    np.testing.assert_allclose(np.linalg.norm(dense, axis=1), [1, 0, 0, 1], atol=1e-5)


WORDLESS = ["", " \n", "?", "?!…", "--- ***", "____", "→ + = €", "🦊🦊", "🦊 ?", "\u200b", "𓀀", "龘 …"]


@pytest.mark.parametrize("mode", [None, "lexical", "dense", "hybrid"])
def test_a_query_without_words_finds_nothing(tmp_path: Path, mode: str | None) -> None:
    index = Index.create(tmp_path / "my.idx")
    index.add([*CARS, {"id": "blank", "text": "please write your name: ____ ____ → here?!"}])
    assert [text for text in WORDLESS if index.search(text, mode=mode).ids] == []
    assert [ranking.ids for ranking in index.search_batch(WORDLESS, mode=mode)] == [()] * len(WORDLESS)


@pytest.mark.parametrize("mode", [None, "dense", "hybrid"])
def test_a_document_without_words_is_never_found(tmp_path: Path, mode: str | None) -> None:
    index = Index.create(tmp_path / "my.idx")
    index.add([*CARS, *({"id": f"empty{at}", "text": text} for at, text in enumerate(WORDLESS))])
    for k in (1, len(CARS), 100):
        found = index.search("automobile", k=k, mode=mode).ids
        assert len(found) == min(k, len(CARS))
        assert set(found) <= {doc["id"] for doc in CARS}


def test_odd_texts_are_encoded_as_documents_and_as_queries(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx")
    index.add([{"id": str(at), "text": text} for at, text in enumerate(ODD) if "\ud800" not in text])
    assert index.search("猫 機械", mode="lexical")[0].id == "4"
    for text in ODD:
        assert len(index.search(text, k=3)) <= 3
    assert np.isfinite(embedded().encode_docs(ODD).lexical.data).all()


def test_words_the_model_does_not_reach_keep_bm25s_weight() -> None:
    text = "filler " * 300 + "needle"
    encoder, plain = embedded(), Bm25(Bm25Config(b=0.3, average_length=100.0, phrases=0.3), Growth(Vocabulary()))
    weights, bm25 = encoder.encode_docs([text]).lexical, plain.encode_docs([text]).lexical
    names = [encoder.token(id) for id in weights.indices]
    assert weights.data[names.index("needl")] == bm25.data[names.index("needl")]
    assert weights.data[names.index("filler")] != bm25.data[names.index("filler")]


def test_a_word_cut_in_two_at_the_end_of_what_is_read_makes_no_new_word() -> None:
    length = CHARACTERS_PER_PIECE * 256
    text = "to " * (length // 3 - 2) + "unbroken" * 3
    encoder = embedded()
    encoder.encode_docs([text])
    words = [encoder.token(id) for id in range(len(encoder._bm25.words))]
    assert [word for word in words if "unbr" in word] == [f"={'unbroken' * 3}", "unbroken" * 3]


def test_an_index_that_grew_gives_the_scores_of_one_made_at_once(tmp_path: Path) -> None:
    at_once, in_turn = (Index.create(tmp_path / name) for name in "ab")
    at_once.add(CARS)
    for doc in CARS:
        in_turn.add([doc])
    for query in ("engine", "make energy", "bake a loaf"):
        assert at_once.search(query).ids == in_turn.search(query).ids
        np.testing.assert_allclose(at_once.search(query).scores, in_turn.search(query).scores, rtol=1e-5)


def test_the_runtime_of_the_model_sends_nothing_and_writes_nothing_to_the_home_of_the_user(tmp_path: Path) -> None:
    program = "from denslice.encoders import load\nfrom denslice.encoders.mini import mini_options\n"
    program += "from denslice.store.vocabulary import Vocabulary\n"
    program += "load('mini', mini_options('mini', {}), Vocabulary()).encode_queries(['foxes'])"
    home = {"HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=home, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name or "Microsoft" in path.name] == []


def test_the_package_is_small_enough() -> None:
    folder = mini._folder("mini")
    packed = (len(zlib.compress(path.read_bytes(), 6)) for path in folder.iterdir())
    assert sum(packed) <= 51_000_000  # with the code, a wheel of 52 MB
    names = ["denslice.json", "model.onnx", "second_tokenizer.json", "tokenizer.json", "words.npz"]
    assert sorted(path.name for path in folder.iterdir()) == names


# --- words and pieces


def test_a_word_stands_at_its_pieces_and_special_tokens_stand_nowhere() -> None:
    #           [CLS]   un      ##lucky  cat      [SEP]
    offsets = [(0, 0), (0, 2), (2, 7), (8, 11), (0, 0)]
    found = locate_words([5, 6, 7], [(0, 7), (8, 11), (12, 15)], offsets)
    assert [part.tolist() for part in found] == [[5, 6], [1, 3], [3, 4]]  # the third word was cut off
    assert locate_words([-1, 6], [(0, 7), (8, 11)], offsets).words.tolist() == [6]


def test_importance_is_the_mean_over_all_pieces_of_a_word_and_1_where_none_was_seen() -> None:
    weights = lexical_csr(np.array([[2.0, 0, 3.0], [0, 5.0, 0]]))
    texts = [
        LocatedWords(np.array([0, 0]), np.array([1, 3]), np.array([3, 4])),
        LocatedWords(*np.zeros((3, 0), np.int32)),
    ]
    importance = [np.array([9, 1, 2, 6, 9], np.float32), np.array([9, 9], np.float32)]
    assert pooled(occurrences(weights, texts), importance, weights.nnz).tolist() == [3.0, 1.0, 1.0]


# --- models that were exported


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model whose head is as if it had learned."""
    torch = pytest.importorskip("torch", reason="needs the extra [torch]")
    pytest.importorskip("onnx", reason="needs the extra [export]")
    from denslice.encoders.model_config import ModelConfig
    from denslice.encoders.torch.bi_encoder import BiEncoder
    from small_models import make_folder

    folder = tmp_path_factory.mktemp("words")
    config = ModelConfig("words", "mean", normalise=True, lam=3.0, max_length=24, query_length=12, head_width=8)
    model = BiEncoder.load(make_folder(folder / "backbone", mlm=False), config)
    model.save(folder / "untrained")
    head: Any = model.token_head
    torch.nn.init.normal_(head[-1].weight)
    model.save(folder / "model")
    return folder


def exported(folder: Path, name: str, texts: list[str] | None = None) -> Mini:
    from denslice.encoders.onnx.export import export_onnx

    to = folder / f"{name}-onnx{len(texts or [])}"
    if not to.exists():
        export_onnx(folder / name, to, texts)
    return Mini(OnnxModel(to), WORDS_OF_A_MODEL, Growth(Vocabulary()))


def test_an_untrained_model_is_exactly_bm25_and_its_backbones_vector(trained: Path) -> None:
    from small_models import TEXTS

    plain = Bm25(WORDS_OF_A_MODEL, Growth(Vocabulary())).encode_docs(TEXTS)
    found = exported(trained, "untrained").encode_docs(TEXTS)
    np.testing.assert_allclose(found.lexical.toarray(), plain.lexical.toarray(), rtol=1e-6)
    assert found.lengths is not None
    assert plain.lengths is not None
    assert found.lengths.tolist() == plain.lengths.tolist()


@pytest.mark.parametrize("side", ["docs", "queries"])
def test_the_exported_model_gives_what_the_trained_one_gives(trained: Path, side: str) -> None:
    torch = pytest.importorskip("torch")
    from denslice.encoders.torch.bi_encoder import BiEncoder
    from denslice.train.tokens import padded_texts
    from denslice.train.word_reader import WordReader
    from small_models import TEXTS

    texts = [text for text in TEXTS if text]  # an empty one has no dense vector in an index
    model = BiEncoder.load(trained / "model")
    reader = WordReader(model.tokenizer, model.config)
    read = {"docs": reader.docs(texts)}
    read["queries"] = reader.queries(texts)
    words = read["docs"].words
    assert words is not None
    batch = padded_texts(read[side], 0, np.arange(words.weights.shape[1], dtype=np.int32))
    with torch.inference_mode():
        wanted = model(batch.ids, batch.mask, batch.words)

    encoder = exported(trained, "model")
    docs = encoder.encode_docs(texts)
    found = docs if side == "docs" else encoder.encode_queries(texts)
    np.testing.assert_allclose(dense_of(found), wanted.dense.numpy(), atol=2e-5)
    lexical = found.lexical.toarray()
    if side == "queries":  # training has idf in them already
        from denslice.encoders.bm25 import idf

        lexical = lexical * idf(np.bincount(docs.lexical.indices, minlength=lexical.shape[1]), len(texts))
    np.testing.assert_allclose(lexical, wanted.lexical.numpy(), rtol=1e-4, atol=1e-5)


def test_int8_stays_close_to_float(trained: Path) -> None:
    from small_models import TEXTS

    texts = [text for text in TEXTS if text]
    exact, rounded = (exported(trained, "model", some).encode_docs(texts) for some in (None, texts))
    assert (dense_of(exact) * dense_of(rounded)).sum(axis=1).min() > 0.98
    np.testing.assert_allclose(rounded.lexical.data, exact.lexical.data, rtol=0.3)


def test_an_exported_folder_is_an_encoder_and_another_in_its_place_is_refused(trained: Path, tmp_path: Path) -> None:
    from denslice.encoders.onnx.export import export_onnx

    export_onnx(trained / "model", tmp_path / "onnx")
    index = Index.create(tmp_path / "my.idx", str(tmp_path / "onnx"), slices=16)
    index.add([{"id": "1", "text": "the cat sat"}, {"id": "2", "text": "a dog ran"}])
    assert index.search("cats", k=1)[0].id == "1"
    settings = tmp_path / "onnx" / "denslice.json"
    settings.write_text(settings.read_text().replace('"lam": 3.0', '"lam": 4.0'))
    mini._fingerprint.cache_clear()
    with pytest.raises(InputError, match="is not the model this index was made with"):
        open_index(tmp_path / "my.idx").search("cats")


def test_what_cannot_be_exported_is_told(trained: Path, tmp_path: Path) -> None:
    from denslice.encoders.onnx.export import export_onnx
    from small_models import make_folder

    with pytest.raises(InputError, match="does not say what its heads are"):
        export_onnx(make_folder(tmp_path / "plain"), tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="the folder is not empty"):
        export_onnx(trained / "model", tmp_path / "full")
    with pytest.raises(InputError, match="no text to measure"):
        export_onnx(trained / "model", tmp_path / "out", [])
    assert not (tmp_path / "out").exists()


def test_a_word_model_is_no_encoder_before_it_is_exported(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="export it first"):
        Index.create(tmp_path / "my.idx", str(trained / "model"))


@pytest.mark.parametrize(
    ("name", "text"),
    [("denslice.json", "{"), ("denslice.json", '{"depth": 1}'), ("tokenizer.json", "[]"), ("model.onnx", "no graph")],
)
def test_a_folder_that_is_damaged_is_told_and_leaves_no_document(
    trained: Path, tmp_path: Path, name: str, text: str
) -> None:
    from denslice.encoders.onnx.export import export_onnx

    export_onnx(trained / "model", tmp_path / "onnx")
    (tmp_path / "onnx" / name).write_text(text)
    with pytest.raises(InputError, match=r"onnx cannot be loaded: "):
        Index.create(tmp_path / "my.idx", str(tmp_path / "onnx")).add([{"id": "1", "text": "the cat sat"}])
    assert not (tmp_path / "my.idx").exists() or len(Index.open(tmp_path / "my.idx")) == 0


def test_a_folder_without_its_tokenizer_is_told(trained: Path, tmp_path: Path) -> None:
    from denslice.encoders.onnx.export import export_onnx

    export_onnx(trained / "model", tmp_path / "onnx")
    (tmp_path / "onnx" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"has no tokenizer\.json"):
        Index.create(tmp_path / "my.idx", str(tmp_path / "onnx"))


def test_mini_takes_its_average_length_from_the_model_and_an_option_goes_before_it(tmp_path: Path) -> None:
    assert mini.mini_options("mini", {})["average_length"] == 100.0
    index = Index.create(tmp_path / "my.idx", options={"average_length": 7})
    assert index.info()["encoder_options"]["average_length"] == 7
