"""Measures how much of the main text of web pages is read, how much around it, and how fast, beside trafilatura's own.

    python benchmarks/html_rate.py PAGES JUDGED.json

JUDGED.json maps addresses to {"file": name, "with": [text, …], "without": [text, …]}, as in the evaluation data of
trafilatura: phrases that the main text of the page has, and phrases that it must not have. PAGES are the folders of the
files, separated by commas. Appends a line to results/html_rate.jsonl.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trafilatura

import journal
from denslice.corpus.formats.html_pages import read_html
from denslice.corpus.formats.source_file import SourceFile

PACKAGES = ("lxml", "trafilatura")
_marks = re.compile(r"[|#`~\s-]+")  # of Markdown, and spaces


def main() -> None:
    """Measure, print and append the line."""
    given = _arguments()
    pages = _judged(given.pages, json.loads(given.judged.read_text(encoding="utf-8")))
    paths, megabytes = [path for path, _ in pages], sum(path.stat().st_size for path, _ in pages) / 1e6
    readers = {"denslice": _denslice_text, "trafilatura": _trafilatura_text}
    figures: dict[str, Any] = {"pages": len(pages), "megabytes": round(megabytes, 1), "readers": {}}
    for name, read in readers.items():
        texts, seconds = _read(paths, read)
        figures["readers"][name] = {
            "found": _share(texts, [phrases.get("with", []) for _, phrases in pages]),
            "found_around": _share(texts, [phrases.get("without", []) for _, phrases in pages]),
            "without_text": sum(not text for text in texts),
            "pages_a_second": round(len(pages) / sum(seconds), 1),
            "megabytes_a_second": round(megabytes / sum(seconds), 2),
        }
        print(name, figures["readers"][name])
    print(journal.append("html_rate", PACKAGES, {"judged": given.judged.name}, figures))


def _denslice_text(path: Path) -> str:
    return " ".join(doc.text for doc in read_html(SourceFile(path, path.name)))


def _trafilatura_text(path: Path) -> str:
    return trafilatura.extract(path.read_bytes(), include_comments=False) or ""


def _judged(folders: Iterable[Path], judged: Mapping[str, Any]) -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the pages that are in one of the folders, with their phrases."""
    found = (
        (next((f / one["file"] for f in folders if (f / one["file"]).exists()), None), one) for one in judged.values()
    )
    return [(path, one) for path, one in found if path is not None]


def _read(paths: Sequence[Path], read: Callable[[Path], str]) -> tuple[list[str], list[float]]:
    """Return the texts of the pages, and the seconds of processor time that each took."""
    texts, seconds = [], []
    read(paths[0])  # imports what it needs
    for path in paths:
        start = time.process_time()
        texts.append(read(path))
        seconds.append(time.process_time() - start)
    return texts, seconds


def _share(texts: Sequence[str], phrases: Sequence[Sequence[str]]) -> float:
    """Return the share of all phrases that are in the text of their page."""
    plain = (_marks.sub(" ", text) for text in texts)
    found = [_marks.sub(" ", phrase) in text for text, some in zip(plain, phrases, strict=True) for phrase in some]
    return round(sum(found) / len(found), 3)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=lambda given: [Path(one) for one in given.split(",")], metavar="PAGES")
    parser.add_argument("judged", type=Path, metavar="JUDGED.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
