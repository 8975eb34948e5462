"""The loop: learning, resuming, freezing, warm-up, several processes, and what is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

import torch
from accelerate.state import AcceleratorState

from denslice.encoders.model_config import ModelConfig
from denslice.encoders.torch.bi_encoder import BiEncoder
from denslice.errors import InputError
from denslice.train.config import CONFIG_FILE, OptimizerConfig, WarmupConfig, read_config
from denslice.train.loop import train
from denslice.train.mlm import calibrate, mask_tokens, masked_loss, warm_up
from denslice.train.optimizer import make_optimizer, set_rate
from denslice.train.tokens import padded, tokenised
from tiny import logged_losses, make_backbone, make_folder, write_config

SRC = Path(__file__).parents[1] / "src"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_backbone(folder / "bert")
    make_backbone(folder / "headless", mlm=False)
    make_backbone(folder / "sure", dropout=0.0)
    make_folder(folder / "beir")
    return folder


@pytest.fixture
def place(tmp_path: Path, made: Path) -> Path:
    """A folder of one's own that has the tiny backbones and the collection."""
    for name in ("bert", "headless", "sure", "beir"):
        (tmp_path / name).symlink_to(made / name)
    return tmp_path


class StoppedError(Exception):
    pass


def stop_after(step: int) -> Any:
    def watch(entry: dict[str, Any]) -> None:
        if entry.get("step") == step:
            raise StoppedError

    return watch


def run_in_process(config: Path, *options: str, launcher: tuple[str, ...] = ("-m",)) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC), "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, *launcher, "denslice.train", str(config), *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


# --- learning


def test_training_lowers_the_loss_and_leaves_a_model_its_config_and_measures(place: Path) -> None:
    path = write_config(
        place,
        optimizer="steps = 40\nbatch = 5\nlr = 5e-3",
        output=f'folder = "{place}/out"\nlog_every = 1\ncheckpoint_every = 20',
        evaluation='every = 20\nfinal = ["dev"]\nslices = [8]\nskip = 5',
    )
    config = read_config(path)
    shown: list[dict[str, Any]] = []
    folder = train(config, watch=shown.append)
    losses = list(logged_losses(place / "out").values())
    assert len(losses) == 40
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    assert folder == place / "out" / "model"
    assert BiEncoder.load(folder).config == config.model
    assert read_config(folder / CONFIG_FILE) == config
    assert [entry["step"] for entry in shown if entry.get("split") == "dev" and "step" in entry] == [20]
    result = json.loads((place / "out" / "results.jsonl").read_text())
    assert result["measures"]["joint"]["RR@10"] > 0.7
    assert {"lexical-8", "joint-8-full"} <= set(result["measures"])
    assert result["config"]["optimizer"]["steps"] == 40


def test_a_folder_that_holds_a_run_is_not_overwritten(place: Path) -> None:
    config = read_config(write_config(place), steps=3)
    train(config)
    with pytest.raises(InputError, match="holds a training run already; resume it with --resume"):
        train(config)


def test_accumulated_batches_move_the_weights_once(place: Path) -> None:
    optimizer = "steps = 4\nbatch = 2\naccumulate = 2\nlr = 1e-3"
    train(read_config(write_config(place, optimizer=optimizer)))
    assert list(logged_losses(place / "out")) == [1, 2, 3, 4]
    state = json.loads((place / "out" / "step-0000004" / "state.json").read_text())
    assert state == {"step": 4, "examples": 16}


@pytest.fixture
def any_precision() -> Iterator[None]:
    """Lets accelerate, which keeps to one precision in a process, take another."""
    AcceleratorState._reset_state()
    yield
    AcceleratorState._reset_state()


def test_bf16_trains_too(place: Path, any_precision: None) -> None:
    train(read_config(write_config(place, optimizer='steps = 3\nbatch = 4\nlr = 1e-3\nprecision = "bf16"')))
    assert AcceleratorState().mixed_precision == "bf16"
    assert len(logged_losses(place / "out")) == 3


# --- resuming


def test_a_stopped_run_resumes_to_the_same_losses(place: Path) -> None:
    whole = read_config(write_config(place), out=str(place / "whole"))
    train(whole)
    config = read_config(write_config(place))
    with pytest.raises(StoppedError):
        train(config, watch=stop_after(8))
    assert list(logged_losses(place / "out")) == list(range(1, 9))
    newest = sorted(path.name for path in (place / "out").glob("step-*"))
    assert newest == ["step-0000003", "step-0000006"]
    (place / "out" / ".step-0000009.tmp").mkdir()  # as a kill while writing would leave it
    (place / "out" / ".step-0000009.tmp" / "model.safetensors").write_text("half")
    with (place / "out" / "log.jsonl").open("a") as file:
        file.write('{"step": 9, "lo')
    train(config, resume=True)
    expected, found = logged_losses(place / "whole"), logged_losses(place / "out")
    assert list(found) == list(range(1, 13))
    assert found == pytest.approx(expected, abs=1e-5)
    first, second = (BiEncoder.load(place / name / "model").state_dict() for name in ("whole", "out"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_killed_run_resumes_to_the_same_losses(place: Path) -> None:
    options = "steps = 40\nbatch = 4\nlr = 1e-3"
    output = f'folder = "{place}/out"\nlog_every = 1\ncheckpoint_every = 8'
    path = write_config(place, optimizer=options, output=output)
    process = run_in_process(path)
    deadline = time.monotonic() + 120
    while not list((place / "out").glob("step-*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (place / "out" / "model").exists()
    train(read_config(path), resume=True)
    train(read_config(path, out=str(place / "whole")))
    assert logged_losses(place / "out") == pytest.approx(logged_losses(place / "whole"), abs=1e-5)
    assert len(logged_losses(place / "out")) == 40


def test_resuming_with_another_config_is_an_error(place: Path) -> None:
    train(read_config(write_config(place)), watch=None)
    with pytest.raises(InputError, match=r"this run had optimizer = .*lr=0.001.*name another folder"):
        train(read_config(write_config(place, optimizer="steps = 12\nbatch = 4\nlr = 1e-2")), resume=True)


def test_resuming_where_nothing_is_starts_a_run(place: Path) -> None:
    train(read_config(write_config(place), steps=2), resume=True)
    assert list(logged_losses(place / "out")) == [1, 2]


# --- body and heads


def test_a_frozen_backbone_is_not_changed_and_its_heads_are(place: Path) -> None:
    optimizer = "steps = 3\nbatch = 4\nlr = 1e-2\nbody_lr = 0"
    path = write_config(place, optimizer=optimizer, model='lexical = "unicoil"\ndense = "mean"\ndimensions = 4')
    before = BiEncoder.load(place / "bert", ModelConfig(lexical="unicoil")).backbone.state_dict()
    after = BiEncoder.load(train(read_config(path)))
    assert all(torch.equal(before[name], value) for name, value in after.backbone.state_dict().items())
    started = torch.manual_seed(0) and BiEncoder.load(place / "bert", after.config)
    assert not torch.equal(started.token_head.weight, after.token_head.weight)  # type: ignore[union-attr, arg-type]
    assert not torch.equal(started.projection.weight, after.projection.weight)  # type: ignore[union-attr]


def test_body_and_heads_learn_at_their_own_rates(place: Path) -> None:
    model = BiEncoder.load(place / "bert", ModelConfig(lexical="splade"))
    config = OptimizerConfig(steps=10, lr=1e-3, body_lr=1e-4, warmup_steps=2, schedule="linear")
    optimizer = make_optimizer(model, config)
    sizes = [sum(p.numel() for p in group["params"]) for group in optimizer.param_groups]
    assert sum(sizes) == sum(p.numel() for p in model.parameters())
    assert sizes[1] == sum(p.numel() for p in model.backbone.base_model.parameters())
    rates = []
    for step in (0, 1, 2, 6):
        set_rate(optimizer, config, step)
        rates += [group["lr"] for group in optimizer.param_groups]
    assert rates == pytest.approx([5e-4, 5e-5, 1e-3, 1e-4, 1e-3, 1e-4, 5e-4, 5e-5])


# --- a new head


def masked_sample(model: BiEncoder) -> tuple[Any, Any]:
    import numpy as np

    docs = tokenised(model.tokenizer, ["the cat rests under the tree", "a fish swims in the river"] * 20, 16)
    texts = padded([docs[row] for row in range(40)], 0)
    ids, labels = mask_tokens(texts.ids.numpy(), model.tokenizer, 0.3, np.random.default_rng(0))
    return type(texts)(torch.from_numpy(ids), texts.mask), torch.from_numpy(labels)


def test_the_warm_up_lowers_the_masked_language_loss_and_keeps_a_held_body(place: Path) -> None:
    model = BiEncoder.load(place / "headless", ModelConfig(lexical="splade", max_length=16))
    body = {name: value.clone() for name, value in model.backbone.base_model.state_dict().items()}
    sample = masked_sample(model)
    before = float(masked_loss(model, *sample, bf16=False).detach())
    docs = ["the cat rests under the tree", "a fish swims in the river"]
    texts = [tokenised(model.tokenizer, docs, 16)[row] for row in (0, 1)]
    warm_up(model, texts, WarmupConfig(steps=80, batch=8, lr=2e-2), 0, False, lambda entry: None)
    model.eval()
    assert float(masked_loss(model, *sample, bf16=False).detach()) < before - 0.2
    assert all(torch.equal(body[name], value) for name, value in model.backbone.base_model.state_dict().items())


def test_masking_hides_the_share_asked_for_and_no_special_token(place: Path) -> None:
    model = BiEncoder.load(place / "bert", ModelConfig(lexical="splade"))
    texts, labels = masked_sample(model)
    original = torch.where(labels == -100, texts.ids, labels)
    special = torch.isin(original, torch.tensor(model.tokenizer.all_special_ids))
    assert (labels[special] == -100).all()
    share = float((labels != -100).sum() / (~special).sum())
    assert 0.2 < share < 0.4
    hidden = texts.ids[labels != -100] == model.tokenizer.mask_token_id
    assert 0.65 < float(hidden.float().mean()) < 0.95


def test_a_calibrated_splade_head_starts_with_the_weights_and_scores_asked_for(place: Path) -> None:
    model = BiEncoder.load(place / "headless", ModelConfig(lexical="splade", max_length=16))
    queries, passages = (
        tokenised(model.tokenizer, texts, 16) for texts in (["cat tree", "fish"], ["the cat", "a fish"])
    )
    rows = [[tokens[row] for row in range(2)] for tokens in (queries, passages)]
    calibrate(model, rows[0], rows[1], active=6, score=12.0)
    with torch.no_grad():
        asked, given = (model(batch.ids, batch.mask).lexical for batch in (padded(some, 0) for some in rows))
    assert float((asked * given).sum(1).mean()) == pytest.approx(12.0, rel=1e-3)
    assert 4 <= float((given > 0).sum(1).float().mean()) <= 8


def test_a_calibrated_unicoil_head_counts_nearly_every_token(place: Path) -> None:
    torch.manual_seed(1)
    model = BiEncoder.load(place / "bert", ModelConfig(lexical="unicoil", max_length=16, head_width=8))
    texts = ["the cat rests under the tree", "a fish swims in the river"]
    rows = [tokenised(model.tokenizer, texts, 16)[row] for row in (0, 1)]
    calibrate(model, rows, rows, active=None, score=10.0)
    batch = padded(rows, 0)
    with torch.no_grad():
        weights = model(batch.ids, batch.mask).lexical
    assert (weights > 0).sum(1).tolist() == [5, 6]  # "the" comes twice
    assert float((weights * weights).sum(1).mean()) == pytest.approx(10.0, rel=1e-3)


def test_a_run_warms_up_a_new_head_once(place: Path) -> None:
    path = write_config(
        place, warmup="steps = 4\nbatch = 4\nactive = 6\nscore = 8", model='lexical = "splade"\nmax_length = 16'
    )
    config = read_config(path, backbone=str(place / "headless"))
    with pytest.raises(StoppedError):
        train(config, watch=stop_after(1))
    assert (place / "out" / "step-0000000").is_dir()
    train(config, resume=True)
    lines = [json.loads(line) for line in (place / "out" / "log.jsonl").read_text().splitlines()]
    assert [line["warmup_step"] for line in lines if "warmup_step" in line] == [4]
    train(read_config(path, backbone=str(place / "headless"), out=str(place / "whole")))
    assert logged_losses(place / "out") == pytest.approx(logged_losses(place / "whole"), abs=1e-5)


# --- a teacher


def test_a_teacher_model_scores_the_whole_batch(place: Path) -> None:
    teacher = train(read_config(write_config(place, model='dense = "mean"\nnormalise = true'), steps=2))
    loss = f'distill = 0.5\ndistill_temperature = 2\nteacher = "{teacher}"'
    config = read_config(write_config(place, loss=loss), out=str(place / "taught"), steps=2)
    shown: list[dict[str, Any]] = []
    train(config, watch=shown.append)
    assert all(entry["parts"]["distill"] > 0 for entry in shown)
    assert [entry["loss"] for entry in shown] == pytest.approx([sum(entry["parts"].values()) for entry in shown])


# --- several processes and the command line


def test_two_processes_have_the_losses_of_one(place: Path) -> None:
    loss = "flops_queries = 0.01\nflops_docs = 0.01\nlexical = 0.5"
    optimizer = "steps = 4\nbatch = 4\nlr = 1e-3\naccumulate = 2"
    path = write_config(place, loss=loss, optimizer=optimizer)
    train(read_config(path, backbone=str(place / "sure")))
    launch: tuple[str, ...] = (
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    )
    launch += ("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0", "-m")
    done = run_in_process(path, "--backbone", str(place / "sure"), "--out", str(place / "two"), launcher=launch)
    output, _ = done.communicate(timeout=240)
    assert done.returncode == 0, output
    assert logged_losses(place / "two") == pytest.approx(logged_losses(place / "out"), abs=1e-5)


def test_the_command_tells_an_unknown_key_in_one_line(place: Path) -> None:
    done = run_in_process(write_config(place, optimizer="rate = 1"))
    output, _ = done.communicate(timeout=120)
    assert done.returncode == 2
    assert output.startswith("error: ")
    assert "unknown key 'optimizer.rate'" in output
    assert "Traceback" not in output
