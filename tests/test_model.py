"""BiEncoder: its heads against their formulas, what is saved comes back, and bad folders are told apart."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="transformer models need torch")
pytest.importorskip("transformers", reason="transformer models need transformers")

from huggingface_hub import constants  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from denslice import InputError  # noqa: E402
from denslice.encoders.torch import bi_encoder as model_module  # noqa: E402
from denslice.encoders.torch.bi_encoder import BiEncoder, ModelConfig, load_tokenizer  # noqa: E402
from denslice.encoders.torch.licence import read_licence  # noqa: E402
from small_models import WIDTH, WORDS, make_folder, make_model, make_tokenizer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

IDS = torch.tensor([[2, 5, 6, 15, 5, 3], [2, 11, 3, 0, 0, 0], [2, 9, 9, 9, 3, 0]])
MASK = (IDS != 0).long()
CONFIGS = [
    ModelConfig(lexical="splade"),
    ModelConfig(lexical="unicoil", head_width=8),
    ModelConfig(dense="mean", dimensions=4, normalise=True, query_prompt="red: "),
    ModelConfig(lexical="splade", dense="cls", lam=0.5),
    ModelConfig(lexical="unicoil", dense="cls", dimensions=4),
]


def plain_splade(model: Any) -> Any:
    """SPLADE-max as it is written down, with all logits at once."""
    logits = model(input_ids=IDS, attention_mask=MASK).logits  # (B, L, V)
    return (torch.log1p(torch.relu(logits)) * MASK.unsqueeze(-1)).amax(dim=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "plain")


# Heads


@pytest.mark.parametrize("kind", ["Bert", "DistilBert", "Roberta", "XLMRoberta", "MPNet", "Electra", "ModernBert"])
@pytest.mark.parametrize("piece", [1, 4, 16])
def test_the_running_maximum_is_the_plain_formula(kind: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "LOGIT_POSITIONS", piece)
    backbone = make_model(kind)
    lexical = BiEncoder(backbone, make_tokenizer(), ModelConfig(lexical="splade"))(IDS, MASK).lexical
    torch.testing.assert_close(lexical, plain_splade(backbone))
    assert (lexical > 0).any()
    assert (lexical == 0).any()


def test_gradients_through_the_running_maximum_are_the_plain_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "LOGIT_POSITIONS", 2)
    backbone = make_model("Bert")
    weights = backbone.get_input_embeddings().weight
    (expected,) = torch.autograd.grad(plain_splade(backbone).sum(), [weights])
    model = BiEncoder(backbone, make_tokenizer(), ModelConfig(lexical="splade"))
    (found,) = torch.autograd.grad(model(IDS, MASK).lexical.sum(), [weights])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("training", [True, False])
def test_logits_of_more_than_a_piece_are_never_held(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "LOGIT_POSITIONS", 2)
    model = BiEncoder(make_model("Bert"), make_tokenizer(), ModelConfig(lexical="splade"))
    kept: list[tuple[int, ...]] = []
    pieces: list[int] = []
    model.backbone.cls.register_forward_hook(lambda module, inputs, logits: pieces.append(logits.shape[1]))

    def keep(saved: Any) -> Any:
        kept.append(tuple(saved.shape))
        return saved

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t)
    with torch.set_grad_enabled(training), hooks:
        model(IDS, MASK)
    assert pieces == [2, 2, 2]
    assert bool(kept) == training
    assert not [shape for shape in kept if len(shape) == 3 and shape[-1] == len(WORDS)]


@pytest.mark.parametrize("lexical", ["splade", "unicoil"])
def test_in_bfloat16_vectors_are_float32_and_gradients_flow(lexical: str) -> None:
    config = ModelConfig(lexical=lexical, dense="mean", dimensions=4, normalise=True)
    torch.manual_seed(2)
    model = BiEncoder(make_model("Bert", mlm=lexical == "splade"), make_tokenizer(), config)
    expected = model(IDS, MASK)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(IDS, MASK)
    (found.lexical.sum() + found.dense.sum()).backward()
    assert (found.lexical.dtype, found.dense.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(found.lexical, expected.lexical, atol=0.1, rtol=0)
    torch.testing.assert_close(found.dense, expected.dense, atol=0.1, rtol=0)
    assert model.projection is not None
    assert model.projection.weight.grad is not None
    assert model.projection.weight.grad.any()


def test_padding_changes_nothing() -> None:
    model = BiEncoder(make_model("Bert"), make_tokenizer(), ModelConfig(lexical="splade", dense="mean"))
    together, alone = model(IDS, MASK), model(IDS[1:2, :3], MASK[1:2, :3])
    torch.testing.assert_close(together.lexical[1:2], alone.lexical)
    torch.testing.assert_close(together.dense[1:2], alone.dense)


class Literal(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A backbone whose hidden states are given: two numbers a token."""

    def __init__(self, hidden: list[list[list[float]]]) -> None:
        super().__init__()
        self.hidden = torch.tensor(hidden)
        self.config = SimpleNamespace(hidden_size=2)
        self.base_model_prefix = "literal"

    @property
    def base_model(self) -> Any:
        return lambda input_ids, attention_mask: SimpleNamespace(last_hidden_state=self.hidden)

    def get_input_embeddings(self) -> Any:
        return SimpleNamespace(num_embeddings=len(WORDS))


HIDDEN = [
    [[9.0, 9.0], [1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [9.0, 9.0]],
    [[7.0, 7.0], [-3.0, 0.0], [5.0, 5.0], [8.0, 8.0], [8.0, 8.0]],
]
LITERAL_IDS = torch.tensor([[2, 5, 6, 5, 3], [2, 6, 3, 0, 0]])


def test_unicoil_weighs_each_token_by_its_best_place_and_leaves_special_tokens_out() -> None:
    model = BiEncoder(Literal(HIDDEN), make_tokenizer(), ModelConfig(lexical="unicoil"))
    head: Any = model.token_head
    head.weight.data, head.bias.data = torch.tensor([[2.0, -1.0]]), torch.tensor([0.5])
    lexical, dense = model(LITERAL_IDS, (LITERAL_IDS != 0).long())
    # "the" (5): 2·1 + 0.5 = 2.5 and 2·2 - 1 + 0.5 = 3.5; "cat" (6): -1 + 0.5 → 0; in the second row -6 + 0.5 → 0
    expected = torch.zeros(2, len(WORDS))
    expected[0, 5] = 3.5
    torch.testing.assert_close(lexical, expected)
    assert dense is None


def test_unicoil_with_a_wider_head() -> None:
    model = BiEncoder(Literal(HIDDEN), make_tokenizer(), ModelConfig(lexical="unicoil", head_width=1))
    head: Any = model.token_head
    first, _, last = head
    first.weight.data, first.bias.data = torch.tensor([[1.0, 0.0]]), torch.tensor([0.0])
    last.weight.data, last.bias.data = torch.tensor([[10.0]]), torch.tensor([1.0])
    lexical = model(LITERAL_IDS, (LITERAL_IDS != 0).long()).lexical
    assert lexical[0, 5].item() == pytest.approx(10 * 1.9545 + 1, abs=1e-3)  # GELU(2) = 1.9545
    assert lexical[0, 6].item() == pytest.approx(1.0)  # GELU(0) = 0
    assert lexical[1, 6].item() == pytest.approx(10 * -0.00405 + 1, abs=1e-3)  # GELU(-3) = -0.00405
    assert lexical.count_nonzero() == 3


def test_cls_is_the_first_token_and_mean_leaves_padding_out() -> None:
    mask = (LITERAL_IDS != 0).long()
    cls = BiEncoder(Literal(HIDDEN), make_tokenizer(), ModelConfig(dense="cls"))(LITERAL_IDS, mask)
    mean = BiEncoder(Literal(HIDDEN), make_tokenizer(), ModelConfig(dense="mean"))(LITERAL_IDS, mask)
    unit = BiEncoder(Literal(HIDDEN), make_tokenizer(), ModelConfig(dense="cls", normalise=True))(LITERAL_IDS, mask)
    torch.testing.assert_close(cls.dense, torch.tensor([[9.0, 9.0], [7.0, 7.0]]))
    torch.testing.assert_close(mean.dense, torch.tensor([[4.2, 4.0], [3.0, 4.0]]))
    torch.testing.assert_close(unit.dense, torch.full((2, 2), 0.5**0.5))
    assert cls.lexical is None


@pytest.mark.parametrize("lexical", ["splade", "unicoil"])
def test_a_joint_model_gives_what_its_parts_give_alone(lexical: str, folder: Path, tmp_path: Path) -> None:
    joint = BiEncoder.load(folder, ModelConfig(lexical=lexical, dense="mean", dimensions=4, normalise=True))
    joint.save(tmp_path / "joint")
    both = joint(IDS, MASK)
    only_lexical = BiEncoder.load(tmp_path / "joint", ModelConfig(lexical=lexical))(IDS, MASK)
    only_dense = BiEncoder.load(tmp_path / "joint", ModelConfig(dense="mean", dimensions=4, normalise=True))(IDS, MASK)
    torch.testing.assert_close(both.lexical, only_lexical.lexical)
    torch.testing.assert_close(both.dense, only_dense.dense)
    assert both.lexical.count_nonzero()


# Folders


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_what_is_saved_comes_back(config: ModelConfig, folder: Path, tmp_path: Path) -> None:
    saved = BiEncoder.load(folder, config)
    saved.save(tmp_path / "saved")
    loaded = BiEncoder.load(tmp_path / "saved")
    assert loaded.config == saved.config
    for expected, found in zip(saved(IDS, MASK), loaded(IDS, MASK), strict=True):
        assert (expected is None) == (found is None)
        if expected is not None:
            assert torch.equal(expected, found)


def test_a_length_beyond_the_backbone_is_cut_to_what_it_can_take(folder: Path) -> None:
    model = BiEncoder.load(folder, ModelConfig(dense="cls", max_length=512, query_length=32))
    assert (model.config.max_length, model.config.query_length) == (64, 32)


def test_roberta_has_fewer_places_than_position_embeddings() -> None:
    model = BiEncoder(make_model("Roberta", mlm=False), make_tokenizer(), ModelConfig(dense="cls"))
    ids = torch.full((1, model.config.max_length), 7)
    assert model.config.max_length == 63
    assert model(ids, torch.ones_like(ids)).dense.shape == (1, WIDTH)


@pytest.mark.parametrize("pickled", [False, True])
def test_a_published_unicoil_is_told_by_its_tok_proj(pickled: bool, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "unicoil", mlm=False)
    weights = {f"bert.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    weights |= {"tok_proj.weight": torch.arange(WIDTH).reshape(1, WIDTH) / WIDTH, "tok_proj.bias": torch.tensor([0.25])}
    (folder / "model.safetensors").unlink()
    if pickled:
        torch.save(weights, folder / "pytorch_model.bin")
    else:
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model = BiEncoder.load(folder)
    hidden = make_model("Bert", mlm=False)(IDS, MASK).last_hidden_state
    weight = torch.relu(hidden @ weights["tok_proj.weight"][0] + 0.25)  # (B, L)
    lexical = model(IDS, MASK).lexical
    assert model.config.lexical == "unicoil"
    assert lexical[0, 5].item() == pytest.approx(max(weight[0, 1].item(), weight[0, 4].item()), abs=1e-5)
    assert lexical[1, 11].item() == pytest.approx(weight[1, 1].item(), abs=1e-5)
    assert lexical.count_nonzero()


def test_a_backbone_without_an_mlm_head_gets_one_quietly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = make_folder(tmp_path / "headless", mlm=False)
    capfd.readouterr()
    model = BiEncoder.load(folder, ModelConfig(lexical="splade", dense="mean"))
    assert model.backbone.cls.predictions.decoder.weight is model.backbone.get_input_embeddings().weight
    model.save(tmp_path / "saved")
    again = BiEncoder.load(tmp_path / "saved")
    assert again.backbone.cls.predictions.decoder.weight is again.backbone.get_input_embeddings().weight
    torch.testing.assert_close(again(IDS, MASK).lexical, model(IDS, MASK).lexical)
    assert capfd.readouterr() == ("", "")


def test_the_licence_travels_with_the_model(folder: Path, tmp_path: Path) -> None:
    (folder / "README.md").write_text("---\ntags:\n- a\nlicense: cc-by-4.0\n---\n# A model\n")
    model = BiEncoder.load(folder, ModelConfig(dense="cls"))
    model.save(tmp_path / "saved")
    assert model.licence == "cc-by-4.0"
    assert BiEncoder.load(tmp_path / "saved").licence == "cc-by-4.0"


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("# no front matter\nlicense: mit\n", None),
        ("---\nlicense: 'mit'\n---\n", "mit"),
        ("---\nlicense:\n- mit\n- apache-2.0\n---\n", "mit, apache-2.0"),
        ("---\ntags: a\n---\nlicense: mit\n", None),
        ("", None),
    ],
)
def test_the_licence_is_read_from_the_front_matter(card: str, licence: str | None, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(card)
    assert read_licence(tmp_path) == licence


# Bad folders and settings


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        BiEncoder.load(folder, ModelConfig(dense="cls"))


def test_missing_heads_are_named(folder: Path, tmp_path: Path) -> None:
    BiEncoder.load(folder, ModelConfig(lexical="unicoil")).save(tmp_path / "saved")
    (tmp_path / "saved" / "heads.safetensors").unlink()
    with pytest.raises(InputError, match=r"heads\.safetensors"):
        BiEncoder.load(tmp_path / "saved")


def test_weights_that_lack_a_layer_are_an_error(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if "layer.1" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lack bert\.encoder\.layer\.1"):
        BiEncoder.load(folder, ModelConfig(lexical="splade"))


def test_a_saved_model_without_its_mlm_head_is_an_error(folder: Path, tmp_path: Path) -> None:
    BiEncoder.load(folder, ModelConfig(lexical="splade")).save(tmp_path / "saved")
    path = tmp_path / "saved" / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(path).items() if not name.startswith("cls.")}
    save_file(kept, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lack cls\.predictions"):
        BiEncoder.load(tmp_path / "saved")


@pytest.mark.parametrize("damage", [b"", b"not weights at all", b"\xff" * 64])
def test_damaged_weights_are_an_input_error(damage: bytes, folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(damage)
    with pytest.raises(InputError, match=r"model\.safetensors"):
        BiEncoder.load(folder, ModelConfig(dense="cls"))


def test_a_tokenizer_larger_than_the_model_is_refused(folder: Path) -> None:
    make_tokenizer(extra=("one", "two", "three")).save_pretrained(folder)
    with pytest.raises(InputError, match=f"it has {len(WORDS) + 3} tokens, the model embeds {len(WORDS)}"):
        BiEncoder.load(folder, ModelConfig(dense="cls"))


def test_heads_of_another_shape_are_refused(folder: Path, tmp_path: Path) -> None:
    BiEncoder.load(folder, ModelConfig(dense="cls", dimensions=4)).save(tmp_path / "saved")
    with pytest.raises(InputError, match=r"projection.weight is \(4, 16\) .* needs \(8, 16\)"):
        BiEncoder.load(tmp_path / "saved", ModelConfig(dense="cls", dimensions=8))


def test_a_plain_folder_needs_a_config(folder: Path) -> None:
    with pytest.raises(InputError, match="give ModelConfig"):
        BiEncoder.load(folder)


def test_an_architecture_without_a_known_head_is_refused() -> None:
    with pytest.raises(InputError, match="masked-language head of a Literal"):
        BiEncoder(Literal(HIDDEN), make_tokenizer(), ModelConfig(lexical="splade"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lexical": "splade", "pooling": "max"}, "no setting pooling; it has lexical, dense"),
        ({"lexical": "bm25"}, "lexical is 'bm25', expected one of none, splade, unicoil"),
        ({"dense": "max"}, "dense is 'max'"),
        ({}, "lexical and dense are none"),
        ({"lexical": "splade", "dimensions": 128}, "dense is none"),
        ({"lexical": "splade", "head_width": 8}, "head_width belongs to the head of unicoil and words"),
        ({"dense": "cls", "dimensions": 0}, "dimensions must be a whole number of at least 1, not 0"),
        ({"dense": "cls", "max_length": 2}, "max_length must be a whole number of at least 3, not 2"),
        ({"dense": "cls", "query_length": "64"}, "query_length must be a whole number of at least 3, not '64'"),
        ({"dense": "cls", "lam": float("nan")}, "lam must be a number of 0 or more, not nan"),
        ({"dense": "cls", "normalise": 1}, "normalise is 1"),
        ({"dense": "cls", "query_prompt": None}, "query_prompt is None"),
    ],
)
def test_wrong_settings_are_told(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModelConfig.from_json(settings)


def test_wrong_settings_in_a_folder_are_told(folder: Path, tmp_path: Path) -> None:
    BiEncoder.load(folder, ModelConfig(lexical="splade")).save(tmp_path / "saved")
    path = tmp_path / "saved" / "denslice.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pieces": 3}))
    with pytest.raises(InputError, match="no setting pieces"):
        BiEncoder.load(tmp_path / "saved")
    path.write_text("{")
    with pytest.raises(InputError, match=r"denslice\.json is not JSON"):
        BiEncoder.load(tmp_path / "saved")


def test_a_folder_that_is_not_there_is_told_apart_from_a_hub_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no model folder"):
        load_tokenizer(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="a model is a folder"):
        load_tokenizer(tmp_path / "file")


def run_python(code: str, **variables: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | variables)
    return done.stdout + done.stderr


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_a_hub_name_offline_says_so(variable: str, tmp_path: Path) -> None:
    code = "from denslice.encoders.torch.hub import local_folder; local_folder('someone/some-model')"
    said = run_python(code, **{variable: "1", "HF_HOME": str(tmp_path)})
    assert "InputError: no model folder someone/some-model" in said
    assert f"{variable}" in said
    assert "forbids downloading" in said


def test_a_hub_name_offline_is_read_from_the_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "home" / "hub" / "models--someone--some-model" / "snapshots" / "abc"
    shutil.copytree(folder, snapshot)
    refs = snapshot.parents[1] / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    code = "from denslice.encoders.torch.hub import local_folder; print(local_folder('someone/some-model'))"
    assert run_python(code, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "home")) == f"{snapshot}\n"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert BiEncoder.load("someone/some-model", ModelConfig(dense="cls")).width == WIDTH


def test_without_torch_the_extra_is_named() -> None:
    code = "import sys; sys.modules['torch'] = None\nimport denslice.encoders.torch.transformer_encoder"
    assert (
        "MissingExtraError: a transformer model needs optional packages: pip install 'denslice[torch]'"
        in run_python(code)
    )


def test_the_package_does_not_import_torch() -> None:
    assert (
        run_python("import sys, denslice, denslice.encoders.model_config; print('torch' in sys.modules)") == "False\n"
    )
