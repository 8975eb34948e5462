"""A graph of two bodies: it gives what their definition in torch gives, and mini reads a text in the pieces of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from denslice import Index, InputError, open_index
from denslice.encoders.bm25 import Bm25Config
from denslice.encoders.mini import Mini
from denslice.encoders.onnx_model import OnnxModel
from denslice.store.vocabulary import Growth, Vocabulary
from denslice.vectors import Floats
from small_models import make_byte_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
onnx = pytest.importorskip("onnx")

TEXTS = [
    "The cat sat on the mat.",
    "A dog ran",
    "cats and dogs",
    "what is a heat transfer </s> in pipes",
    "Mitochondria",
]
KNOWN = "the cat sat on mat a dog ran cats and dogs what is heat transfer in pipes"
WIDTH, OUT = 16, 12
SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 90}


@pytest.fixture(scope="module")
def bodies() -> tuple[Any, Any]:
    torch.manual_seed(3)
    bert = transformers.BertConfig(vocab_size=60, intermediate_size=24, **SIZES)
    roberta = transformers.RobertaConfig(vocab_size=300, intermediate_size=20, pad_token_id=1, **SIZES)
    first = transformers.BertModel(bert, add_pooling_layer=False).eval()
    second = transformers.RobertaModel(roberta, add_pooling_layer=False).eval()
    for body in (first, second):
        for value in body.parameters():
            torch.nn.init.normal_(value, std=0.3)
    return first, second


@pytest.fixture(scope="module")
def folder(bodies: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joined")
    onnx.save(graph(bodies, None), folder / "model.onnx")
    word_pieces().save(str(folder / "tokenizer.json"))
    make_byte_tokenizer().save(str(folder / "second_tokenizer.json"))
    settings = {"lexical": "words", "dense": "mean", "normalise": True, "max_length": 24, "query_length": 12}
    (folder / "denslice.json").write_text(json.dumps(settings))
    return folder


def graph(bodies: tuple[Any, Any], inputs: tuple[Any, Any] | None) -> Any:
    from denslice.encoders.onnx.graph import Body, graph_of

    made = []
    for at, (body, pooling, place) in enumerate(zip(bodies, ("mean", "cls"), (0, 2), strict=True)):
        weights = {name: value.detach().numpy() for name, value in body.state_dict().items()}
        own = None if inputs is None else inputs[at]
        how = (WIDTH // 4, body.config.layer_norm_eps, pooling, True, 80, place)
        made.append(Body(weights, *how, own))
    return graph_of(made[0], head(), made[1], join())


def head() -> dict[str, Floats]:
    rng = np.random.default_rng(1)
    return {"weight": some(rng, 2, WIDTH), "bias": some(rng, 2)}


def join() -> Any:
    from denslice.encoders.onnx.graph import Join

    rng = np.random.default_rng(2)
    return Join((some(rng, WIDTH), some(rng, WIDTH)), some(rng, OUT, 2 * WIDTH))


def some(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.normal(size=shape).astype(np.float32)


def word_pieces() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    words = ["[UNK]", "[CLS]", "[SEP]", *KNOWN.split()]
    tokenizer = Tokenizer(models.WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
    return tokenizer


def wanted(bodies: tuple[Any, Any], ids: list[list[int]]) -> tuple[Floats, Floats]:
    """What transformers gives, joined."""
    with torch.inference_mode():
        states = [body(torch.tensor([one])).last_hidden_state[0].numpy() for body, one in zip(bodies, ids, strict=True)]
    return joined(*states)


def joined(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The definition: vectors of length 1, less their centres, with length 1, projected, with length 1."""
    how = join()
    parts = [unit(unit(one) - centre) for one, centre in zip((first.mean(axis=0), second[0]), how.centres, strict=True)]
    weight = head()
    importance = np.log1p(np.exp(first @ weight["weight"].T + weight["bias"] + np.log(np.e - 1)))
    return unit(how.axes @ np.concatenate(parts)), importance


def unit(vector: Floats) -> Floats:
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def test_two_bodies_give_the_vector_of_their_definition(bodies: tuple[Any, Any], folder: Path) -> None:
    read = list(OnnxModel(folder).read(TEXTS, 24))
    first, second = word_pieces(), make_byte_tokenizer()
    second.encode_special_tokens = True
    for text, found in zip(TEXTS, read, strict=True):
        second.enable_truncation(24)
        dense, importance = wanted(bodies, [first.encode(text.lower()).ids, second.encode(text).ids])
        np.testing.assert_allclose(found.importance, importance, rtol=1e-4)
        known = any(piece > 2 for piece in first.encode(text.lower()).ids)
        np.testing.assert_allclose(found.dense, dense * known, atol=1e-5)


@pytest.mark.parametrize("uneven", [False, True])
def test_int8_of_two_bodies_stays_close_to_float(
    bodies: tuple[Any, Any], folder: Path, tmp_path: Path, uneven: bool
) -> None:
    from denslice.encoders.onnx.export import inputs_of

    tokenizers = (word_pieces(), make_byte_tokenizer())
    cut = [[torch.tensor([tokenizer.encode(text).ids[:24]]) for text in TEXTS] for tokenizer in tokenizers]
    given = [inputs_of(body, texts) for body, texts in zip(bodies, cut, strict=True)]
    if uneven:  # as if one piece were far larger than the rest
        given = [{name: one._replace(unevenness=99.0) for name, one in some.items()} for some in given]
    for name in ("tokenizer.json", "second_tokenizer.json", "denslice.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    onnx.save(graph(bodies, (given[0], given[1])), tmp_path / "model.onnx")
    exact, rounded = (np.stack([one.dense for one in OnnxModel(at).read(TEXTS, 24)]) for at in (folder, tmp_path))
    assert (exact * rounded).sum(axis=1)[:4].min() > 0.97  # the last text has no piece that the first body knows


def test_an_index_of_two_bodies_finds_and_notices_another_second_tokenizer(folder: Path, tmp_path: Path) -> None:
    from denslice.encoders import mini

    copy = tmp_path / "model"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    index = Index.create(tmp_path / "my.idx", str(copy))
    index.add([{"id": "1", "text": "the cat sat"}, {"id": "2", "text": "a dog ran"}])
    assert open_index(tmp_path / "my.idx").search("the cat", k=1)[0].id == "1"
    second = copy / "second_tokenizer.json"
    second.write_text(second.read_text() + "\n")
    mini._fingerprint.cache_clear()
    with pytest.raises(InputError, match="is not the model this index was made with"):
        open_index(tmp_path / "my.idx").search("cat")


def test_a_folder_without_its_second_tokenizer_is_told(folder: Path, tmp_path: Path) -> None:
    for name in ("model.onnx", "tokenizer.json", "denslice.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(InputError, match="cannot be loaded"):
        Index.create(tmp_path / "my.idx", str(tmp_path)).add([{"id": "1", "text": "the cat sat"}])


def test_capitals_reach_the_second_body_alone(folder: Path) -> None:
    encoder = Mini(OnnxModel(folder), Bm25Config(), Growth(Vocabulary()))
    small, large = (encoder.encode_docs([text]) for text in ("the cat sat", "THE CAT SAT"))
    assert small.lexical.data.tolist() == large.lexical.data.tolist()
    assert small.dense is not None
    assert large.dense is not None
    assert not np.allclose(small.dense, large.dense)
