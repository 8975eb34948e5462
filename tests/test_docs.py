"""The documentation site: it builds without a warning, shows every public name and command, and loads nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import denslice
from denslice.__main__ import app

pytest.importorskip("mkdocs", reason="the extra docs is not installed")
ROOT = Path(__file__).parents[1]
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]* src=\"?http[^>]*>|<link[^>]*stylesheet[^>]*http[^>]*>|url\(.?http"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


def headings(page: Path) -> set[str]:
    """The ids of the headings of a page."""
    return set(re.findall(r"<h[1-6] id=\"([^\"]+)\"", page.read_text(encoding="utf-8")))


def test_every_public_name_has_its_docstring_in_the_api_reference(site: Path) -> None:
    public = [getattr(denslice, name) for name in denslice.__all__]
    page = site / "api.html"
    assert {f"{one.__module__}.{one.__name__}" for one in public} <= headings(page)
    told = str(denslice.gip.__doc__).partition("\n")[0]
    assert told in page.read_text(encoding="utf-8")  # the docstring of the function gip, and not of the module


def test_every_command_and_option_is_in_the_command_reference(site: Path) -> None:
    page = site / "commands.html"
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert {f"denslice-{name}" for name in commands} | {"denslice-bench-cpu"} <= headings(page)
    text = page.read_text(encoding="utf-8")
    options = {name for one in commands.values() for param in one.params for name in param.opts if name.startswith("-")}
    assert not [name for name in options if f"<code>{name}" not in text]


def test_a_link_out_of_docs_leads_to_the_page_made_of_the_file_or_to_the_repository(site: Path) -> None:
    page = (site / "contributing.html").read_text(encoding="utf-8")
    assert 'href="security.html"' in page
    assert 'blob/main/src/denslice/encoders/__init__.py"' in page


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert not {page.name: found for page in pages if (found := LOADED.findall(page.read_text(encoding="utf-8")))}
