"""A figure travels with its commit, machine and versions, wherever it was measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from denslice import provenance


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_commit_is_dirty_where_its_code_was_changed_and_not_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert provenance.commit() == "none"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    git(tmp_path, "init", "--quiet")
    assert provenance.commit() == "none+dirty"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    head = git(tmp_path, "rev-parse", "HEAD").strip()[:12]
    (tmp_path / "notes").write_text("2")
    assert provenance.commit() == head
    (tmp_path / "src" / "a.py").write_text("2")
    assert provenance.commit() == f"{head}+dirty"


def test_versions_are_told_and_none_for_what_is_not_installed() -> None:
    told = provenance.provenance(["numpy", "no-such-package"])
    assert told["versions"]["numpy"] == np.__version__
    assert told["versions"]["no-such-package"] is None
    assert set(told["hardware"]) == {"cpu", "cores"}
