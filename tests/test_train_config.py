"""The training config: TOML in, checked, and out again in full."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

from denslice.errors import InputError
from denslice.train.config import read_config
from tiny import write_config

CONFIGS = Path(__file__).parents[1] / "configs"
FIVE = ["splade", "unicoil", "dense", "splade-dense", "unicoil-dense"]


def test_an_unknown_key_is_an_error_that_names_the_file_the_key_and_the_known_ones(tmp_path: Path) -> None:
    path = write_config(tmp_path, optimizer="learning_rate = 1")
    with pytest.raises(
        InputError, match=r"config.toml: unknown key 'optimizer.learning_rate'.*known here: steps, batch"
    ):
        read_config(path)


def test_an_unknown_section_and_an_unknown_top_key_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown key 'optimiser'"):
        read_config(write_config(tmp_path, optimiser=""))
    with pytest.raises(InputError, match=r"unknown key 'colour'"):
        read_config(write_config(tmp_path, 'colour = "red"'))


def test_a_value_of_another_type_is_an_error_that_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"optimizer.steps is 'many', expected a whole number"):
        read_config(write_config(tmp_path, optimizer='steps = "many"'))
    with pytest.raises(InputError, match=r"optimizer.steps is True, expected a whole number"):
        read_config(write_config(tmp_path, optimizer="steps = true"))
    with pytest.raises(InputError, match=r"optimizer.schedule is 'fast', expected 'linear' or"):
        read_config(write_config(tmp_path, optimizer='schedule = "fast"'))
    with pytest.raises(InputError, match=r"evaluation.slices is 768, expected a list"):
        read_config(write_config(tmp_path, evaluation="slices = 768"))


@pytest.mark.parametrize(
    ("section", "line", "complaint"),
    [
        ("optimizer", "batch = 0", "optimizer.batch is 0, expected at least 1"),
        ("optimizer", "lr = inf", "optimizer.lr is inf"),
        ("loss", "temperature = 0", "must be above 0"),
        ("data", "", "name the training data"),
        ("data", 'triples = "t.tsv"\nnegatives = 2', "a line of triples holds 1"),
        ("data", 'triples = "t.tsv"\nqueries = "q.tsv"', "both data.collection and data.queries"),
        ("model", "", "a model needs a lexical head"),
    ],
)
def test_values_that_make_no_sense_are_errors(tmp_path: Path, section: str, line: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_config(write_config(tmp_path, **{section: line}))


def test_a_config_without_a_model_says_what_the_section_is_for(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[data]\nfolder = "x"\n')
    with pytest.raises(InputError, match=r"no section \[model\]"):
        read_config(tmp_path / "config.toml")


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.toml: no such file"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "broken.toml").write_text("[model\n")
    with pytest.raises(InputError, match=r"broken.toml: broken TOML"):
        read_config(tmp_path / "broken.toml")


def test_the_resolved_config_reads_back_as_itself(tmp_path: Path) -> None:
    config = read_config(write_config(tmp_path, evaluation='slices = [8, 4]\nfinal = ["dev"]', loss="lexical = 0.5"))
    (tmp_path / "again.toml").write_text(config.to_toml())
    assert read_config(tmp_path / "again.toml") == config


def test_options_of_the_command_line_take_the_place_of_keys(tmp_path: Path) -> None:
    config = read_config(write_config(tmp_path), data="other", out="there", steps=5, backbone="b", limit=None)
    assert (config.data.folder, config.output.folder, config.optimizer.steps, config.backbone) == (
        "other",
        "there",
        5,
        "b",
    )
    assert config.evaluation.limit is None


def test_the_embedded_models_runs_start_alike_and_differ_only_in_how_they_learn() -> None:
    runs = [read_config(path) for path in sorted((CONFIGS / "mini").glob("*.toml"))]
    assert len(runs) == 4
    assert len({(run.backbone, run.seed, run.model, run.data.folders, run.optimizer.steps) for run in runs}) == 1


@pytest.mark.parametrize("name", FIVE)
def test_the_papers_configs_are_its_recipe(name: str) -> None:
    config = read_config(CONFIGS / "paper" / f"{name}.toml")
    settings = config.optimizer
    assert (settings.steps, settings.batch, settings.lr, settings.body_lr) == (100_000, 96, 7e-6, None)
    assert config.backbone == "bert-base-uncased"
    assert config.data.triples is not None
    assert (config.loss.flops_queries, config.loss.flops_docs) == (0, 0)
    assert (
        f"{config.model.lexical}-{config.model.dense}"
        == {
            "splade": "splade-none",
            "unicoil": "unicoil-none",
            "dense": "none-cls",
            "splade-dense": "splade-cls",
            "unicoil-dense": "unicoil-cls",
        }[name]
    )
    assert config.model.lam == 1.0


@pytest.mark.parametrize("name", FIVE)
def test_the_scaled_configs_have_the_papers_models(name: str) -> None:
    scaled, paper = (read_config(CONFIGS / kind / f"{name}.toml") for kind in ("acl", "paper"))
    assert (scaled.model.lexical, scaled.model.dense, scaled.model.lam) == (
        paper.model.lexical,
        paper.model.dense,
        paper.model.lam,
    )
    assert (scaled.optimizer.batch, scaled.data.negatives) == (96, 1)


def test_the_pair_for_a_cpu_differs_in_the_control_of_sparsity_alone() -> None:
    controlled, free = (read_config(CONFIGS / "acl" / f"splade-short{kind}.toml") for kind in ("", "-free"))
    assert (controlled.warmup.active, free.warmup.active) == (256, None)
    changed = replace(controlled, warmup=replace(controlled.warmup, active=None), output=free.output)
    assert changed == free
