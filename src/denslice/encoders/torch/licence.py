"""The licence that a model card states in the front matter of its README.md."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

CARD_FILE = "README.md"


def read_licence(folder: Path) -> str | None:
    """Return the licence in the folder's model card, or None if there is no card or it states none."""
    card = folder / CARD_FILE
    lines = card.read_text(encoding="utf-8", errors="replace").splitlines() if card.is_file() else []
    if not lines or lines[0].strip() != "---":
        return None
    front = list(takewhile(lambda line: line.strip() != "---", lines[1:]))
    found = [at for at, line in enumerate(front) if line.startswith("license:")]
    return _value(front[found[0] :]) if found else None


def write_licence(folder: Path, licence: str) -> None:
    """Write a model card that states the licence, unless the folder has a card."""
    card = folder / CARD_FILE
    if not card.exists():
        card.write_text(f"---\nlicense: {licence}\n---\n", encoding="utf-8")


def _value(lines: list[str]) -> str | None:
    """Return the value after the colon of the first line, or the list items under it."""
    value = lines[0].partition(":")[2].strip().strip("[]'\"")
    listed = takewhile(lambda line: line.lstrip().startswith("- "), lines[1:])
    return value or ", ".join(line.lstrip()[2:].strip(" '\"") for line in listed) or None
