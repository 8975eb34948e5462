"""The licence a model's card states, read from the front matter of its README.md."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

CARD_FILE = "README.md"


def read_licence(folder: Path) -> str | None:
    """The licence in the folder's model card; None where there is no card or it states none."""
    card = folder / CARD_FILE
    lines = card.read_text(encoding="utf-8", errors="replace").splitlines() if card.is_file() else []
    if not lines or lines[0].strip() != "---":
        return None
    front = list(takewhile(lambda line: line.strip() != "---", lines[1:]))
    found = [at for at, line in enumerate(front) if line.startswith("license:")]
    return _value(front[found[0] :]) if found else None


def write_licence(folder: Path, licence: str) -> None:
    """A model card that states the licence, where the folder has no card yet."""
    card = folder / CARD_FILE
    if not card.exists():
        card.write_text(f"---\nlicense: {licence}\n---\n", encoding="utf-8")


def _value(lines: list[str]) -> str | None:
    """What the first line says after its colon, or the items listed under it."""
    said = lines[0].partition(":")[2].strip().strip("[]'\"")
    listed = takewhile(lambda line: line.lstrip().startswith("- "), lines[1:])
    return said or ", ".join(line.lstrip()[2:].strip(" '\"") for line in listed) or None
