"""TransformerEncoder: any batch gives the same vectors in the order of the texts; hard inputs are taken in stride."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="transformer models need torch")
pytest.importorskip("transformers", reason="transformer models need transformers")

from denslice import InputError  # noqa: E402
from denslice.encoders import Encoder  # noqa: E402
from denslice.encoders.torch import transformer_encoder  # noqa: E402
from denslice.encoders.torch.bi_encoder import BiEncoder, ModelConfig  # noqa: E402
from denslice.encoders.torch.transformer_encoder import TransformerEncoder, licence_notice  # noqa: E402
from denslice.vectors import Encoded, lexical_csr  # noqa: E402
from small_models import TEXTS, WORDS, make_folder, make_model, make_tokenizer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

JOINT = ModelConfig(lexical="splade", dense="mean", max_length=16, query_length=5, lam=0.25)


def make_encoder(config: ModelConfig = JOINT, batch: int = 64) -> TransformerEncoder:
    model = BiEncoder(make_model("Bert", mlm=config.lexical == "splade"), make_tokenizer(), config)
    return TransformerEncoder(model, "small", "cpu", batch)


def close(found: Encoded, expected: Encoded) -> None:
    np.testing.assert_allclose(found.lexical.toarray(), expected.lexical.toarray(), atol=1e-5)
    assert (found.dense is None) == (expected.dense is None)
    if found.dense is not None and expected.dense is not None:
        np.testing.assert_allclose(found.dense, expected.dense, atol=1e-5)


def fail_above(encoder: TransformerEncoder, texts: int, monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[int]:
    """Makes the model raise for batches of more texts; the sizes it was asked for, as they come."""
    asked: list[int] = []
    forward = encoder.model.forward

    def failing(input_ids: Any, attention_mask: Any) -> Any:
        asked.append(len(input_ids))
        if len(input_ids) > texts:
            raise error
        return forward(input_ids, attention_mask)

    monkeypatch.setattr(encoder.model, "forward", failing)
    return asked


# What comes out


def test_a_row_is_what_the_model_says_of_the_text_alone() -> None:
    encoder = make_encoder()
    encoded = encoder.encode_docs(TEXTS)
    assert encoded.dense is not None
    for row, text in enumerate(TEXTS):
        tokens = encoder.model.tokenizer(text, truncation=True, max_length=16, return_tensors="pt")
        lexical, dense = encoder.model(tokens["input_ids"], tokens["attention_mask"])
        if text:
            np.testing.assert_allclose(encoded.lexical[[row]].toarray(), lexical.detach(), atol=1e-5)
            np.testing.assert_allclose(encoded.dense[[row]], dense.detach(), atol=1e-5)


@pytest.mark.parametrize("config", [JOINT, ModelConfig(lexical="unicoil"), ModelConfig(dense="cls")], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_neither_batches_nor_order_change_a_vector(config: ModelConfig, batch: int) -> None:
    torch.manual_seed(1)
    encoder = make_encoder(config)
    whole = encoder.encode_docs(TEXTS)
    encoder.batch = batch
    close(encoder.encode_docs(TEXTS), whole)
    back = encoder.encode_docs(TEXTS[::-1])
    close(Encoded(back.lexical[::-1], None if back.dense is None else back.dense[::-1]), whole)


def test_on_the_cpu_a_batch_holds_so_many_tokens_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer_encoder, "CPU_TOKENS", 32)
    encoder = make_encoder()
    asked = fail_above(encoder, 10**9, monkeypatch, RuntimeError())
    encoder.encode_docs(["the cat " * 20] * 3 + ["a"] * 11)
    assert asked == [2, 2, 10]  # texts of 16 tokens, then 16 and 3, then 3


def test_the_lexical_part_is_a_canonical_csr() -> None:
    lexical = make_encoder().encode_docs(TEXTS).lexical
    assert lexical.dtype == np.float32
    assert lexical.shape == (len(TEXTS), len(WORDS))
    assert lexical.has_canonical_format
    assert lexical_csr(lexical) is not None
    assert (lexical.data > 0).all()


def test_queries_are_cut_sooner_than_documents() -> None:
    encoder = make_encoder()
    close(encoder.encode_queries(["a red cat on the mat"]), encoder.encode_docs(["a red cat"]))


def test_a_model_without_a_lexical_head_has_no_weights() -> None:
    encoded = make_encoder(ModelConfig(dense="cls")).encode_docs(TEXTS)
    assert encoded.lexical.shape == (len(TEXTS), len(WORDS))
    assert encoded.lexical.nnz == 0
    assert encoded.dense is not None
    assert encoded.dense.dtype == np.float32


def test_a_model_without_a_dense_head_has_no_dense_vectors() -> None:
    assert make_encoder(ModelConfig(lexical="splade")).encode_docs(TEXTS).dense is None


def test_it_is_an_encoder_as_an_index_wants_it() -> None:
    encoder: Encoder = make_encoder()
    assert (encoder.reads, encoder.uses_idf, encoder.lam) == ("text", False, 0.25)
    assert encoder.token(15) == "##s"


def test_progress_counts_every_text() -> None:
    told: list[int] = []
    encoder = make_encoder(batch=2)
    encoder.progress = told.append
    encoder.encode_docs(TEXTS)
    assert sum(told) == len(TEXTS)
    assert len(told) > 2


# Hard inputs


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u200b\x00"])
def test_a_query_without_tokens_is_all_zeros(text: str) -> None:
    encoded = make_encoder().encode_queries([text, "a cat"])
    assert encoded.lexical[[0]].nnz == 0
    assert encoded.lexical[[1]].nnz > 0
    assert encoded.dense is not None
    assert not encoded.dense[0].any()
    assert encoded.dense[1].any()


def test_half_of_a_surrogate_pair_is_read_as_a_question_mark() -> None:
    encoder = make_encoder()
    close(encoder.encode_queries(["a \ud83d cat"]), encoder.encode_queries(["a ? cat"]))


def test_nothing_to_encode_gives_no_rows() -> None:
    encoded = make_encoder().encode_docs([])
    assert encoded.lexical.shape == (0, len(WORDS))
    assert encoded.dense is not None
    assert encoded.dense.shape == (0, 16)


@pytest.mark.parametrize(
    "text",
    [
        "the cat sat. " * 80_000,
        "猫" * 1_000_000,
        "cat " + "x" * 999_996,
        " " * 999_999 + "a",
        "the cat " + "," * 1_000_000,
    ],
    ids=["words", "no spaces", "one word", "spaces", "commas"],
)
def test_a_text_of_a_million_characters_is_taken_in_stride(text: str) -> None:
    encoder = make_encoder()
    start = time.perf_counter()
    encoded = encoder.encode_docs([text, "a dog"])
    assert time.perf_counter() - start < 20
    assert encoded.lexical[[0]].nnz > 0
    tokens = encoder.model.tokenizer(text, truncation=True, max_length=16)["input_ids"]
    close(encoded, encoder_of_tokens(encoder, [tokens, encoder.model.tokenizer("a dog")["input_ids"]]))


def encoder_of_tokens(encoder: TransformerEncoder, ids: list[list[int]]) -> Encoded:
    parts = [encoder._forward([row]) for row in ids]
    return encoder._restored(parts, np.arange(len(parts)), len(parts))


@pytest.mark.parametrize("gap", ["", " ", " " * 300, "\u0301" * 200, "x" * 99, "x" * 101, "x" * 500 + " ", ",", "猫"])
@pytest.mark.parametrize("word", ["walkings", "the cat", "zebra", "é", "x" * 100, "walk" + "s" * 200])
def test_cutting_a_long_text_early_never_changes_its_first_tokens(word: str, gap: str) -> None:
    encoder = make_encoder()
    text = (word + gap) * 400
    for limit in (5, 16):
        whole = encoder._token_ids([text], limit)
        assert encoder._token_ids([encoder._clipped(text, limit)], limit) == whole


def test_a_long_text_is_not_split_into_tokens_whole() -> None:
    assert len(make_encoder()._clipped("the cat " * 100_000, 16)) == 160


# Memory


def test_the_batch_halves_when_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a dog ran", "the cat", "red", "fast", "a", "mat on a mat", "sat", "walk", "dogs"]
    expected = make_encoder().encode_docs(texts)
    encoder = make_encoder(batch=8)
    asked = fail_above(encoder, 3, monkeypatch, torch.OutOfMemoryError("CUDA out of memory"))
    close(encoder.encode_docs(texts), expected)
    assert asked == [8, 4, 2, 2, 2, 2, 1]


def test_memory_that_runs_out_on_the_cpu_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make_encoder(batch=4)
    error = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
    assert fail_above(encoder, 2, monkeypatch, error) == []
    assert encoder.encode_docs(["a", "the", "cat"]).lexical.shape[0] == 3


def test_one_text_too_large_for_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make_encoder()
    asked = fail_above(encoder, 0, monkeypatch, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(InputError, match="memory runs out on a single text of 5 tokens"):
        encoder.encode_docs(["a dog ran", "the cat", "a"])
    assert asked == [3, 1]


def test_other_errors_of_the_model_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make_encoder()
    fail_above(encoder, 0, monkeypatch, RuntimeError("something else"))
    with pytest.raises(RuntimeError, match="something else"):
        encoder.encode_docs(["a"])


def test_weights_that_are_not_numbers_are_an_error() -> None:
    encoder = make_encoder()
    encoder.model.backbone.cls.predictions.bias.data[3] = float("inf")
    with pytest.raises(InputError, match="NaN or infinite"):
        encoder.encode_docs(["a cat"])


def test_wrong_settings_are_told() -> None:
    with pytest.raises(InputError, match="batch must be a whole number of at least 1, not 0"):
        make_encoder(batch=0)
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="device is cuda, and torch finds no GPU"):
            TransformerEncoder(make_encoder().model, device="cuda")


# Licence


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    def save(name: str) -> Path:
        folder = tmp_path / name
        BiEncoder.load(make_folder(tmp_path / "plain"), ModelConfig(dense="cls")).save(folder)
        return folder

    return save


def test_the_licence_is_logged_when_a_model_is_first_loaded(
    saved: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = saved("licensed")
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-sa-4.0\n---\n")
    with caplog.at_level(logging.INFO, "denslice"):
        encoder = TransformerEncoder.load(folder, "cpu")
        TransformerEncoder.load(folder, "cpu")
    notice = f"{folder}: the model card states the licence cc-by-nc-sa-4.0"
    assert licence_notice(encoder) == notice
    assert caplog.messages == [notice]


def test_a_model_without_a_licence_says_so(saved: Callable[[str], Path]) -> None:
    encoder = TransformerEncoder.load(saved("unlicensed"), "cpu")
    assert encoder.licence is None
    assert "states no licence" in licence_notice(encoder)
