"""Times reading PDFs beside pypdf, which is all Python, on the same files in one run.

    python benchmarks/pdf_rate.py [FOLDER] [--files 50] [--pages 20] [--repeats 3]

Without a folder, PDFs of made-up words are generated. Nothing is timed unless both readers find the same letters and
words, but for a few. Files that one of them cannot read are left out. Appends a line to results/pdf_rate.jsonl.
"""

from __future__ import annotations

import argparse
import logging
import re
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fpdf import FPDF
from pypdf import PdfReader
from pypdf.errors import PyPdfError

import journal
from denslice.corpus.formats.pdf_pages import read_pdf
from denslice.corpus.formats.source_file import SourceFile
from denslice.errors import InputError

PACKAGES = ("pypdfium2", "pypdf", "fpdf2")
VOCABULARY = 20_000
WORDS = 550  # of a page
LEAST_WORDS = 0.75  # that both readers find, of all: pypdf leaves out many spaces in formulas
LEAST_LETTERS = 0.95
_words = re.compile(r"\w+")
_line_hyphens = re.compile(r"(?<=\w)-\n(?=[a-z])")


def main() -> None:
    """Make or take the files, verify, time, print and append the line."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="denslice-pdf-") as folder:
        if asked.folder is None:
            generate(Path(folder), asked.files, asked.pages)
        given = sorted((asked.folder or Path(folder)).rglob("*.pdf"))
        paths = [path for path in given if pages_of(path)]
        shared = check(paths)
        figures = measured(paths, asked.repeats) | shared | {"left_out": len(given) - len(paths)}
    print_table(figures)
    print(journal.append("pdf_rate", PACKAGES, vars(asked), figures))


def generate(folder: Path, files: int, pages: int) -> None:
    """Write PDFs of random words, which are as frequent as Zipf's law says."""
    random = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    vocabulary = ["".join(random.choice(letters, random.integers(2, 11))) for _ in range(VOCABULARY)]
    for number in range(files):
        pdf = FPDF()
        pdf.set_font("times", size=11)
        for _ in range(pages):
            pdf.add_page()
            pdf.multi_cell(0, 5, " ".join(vocabulary[at % VOCABULARY] for at in random.zipf(1.2, WORDS)))
        pdf.output(str(folder / f"{number:03}.pdf"))


def by_denslice(path: Path) -> str:
    """Return the text of a file as denslice reads it."""
    return "".join(doc.text for doc in read_pdf(SourceFile(path, path.name)))


def by_pypdf(path: Path) -> str:
    """Return the text of a file as pypdf reads it."""
    return "\f".join(page.extract_text() for page in PdfReader(path).pages)


READERS: dict[str, Callable[[Path], str]] = {"denslice": by_denslice, "pypdf": by_pypdf}


def pages_of(path: Path) -> int:
    """Return how many pages a file has, or 0 if one of the readers cannot read it."""
    try:
        return by_denslice(path).count("\f") + 1 if by_pypdf(path) else 0
    except (InputError, PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0


def check(paths: Sequence[Path]) -> dict[str, float]:
    """Return the shares of words and letters that both readers find; stop if one is low."""
    texts = [[_comparable(read(path)) for read in READERS.values()] for path in paths]
    words = _shared([[_words.findall(text) for text in both] for both in texts])
    letters = _shared([["".join(_words.findall(text)) for text in both] for both in texts])
    if words < LEAST_WORDS or letters < LEAST_LETTERS:
        raise SystemExit(f"the readers share {words:.1%} of the words, {letters:.1%} of the letters; nothing is timed")
    return {"shared_words": round(words, 4), "shared_letters": round(letters, 4)}


def _comparable(text: str) -> str:
    """Return a text without what only one of the readers does: ligatures, and words that a line end cuts."""
    return _line_hyphens.sub("", unicodedata.normalize("NFKC", text))


def _shared(found: Sequence[Sequence[Sequence[str]]]) -> float:
    """Return the share of what both readers find of what either does."""
    counts = [(Counter(ours), Counter(theirs)) for ours, theirs in found]
    either = sum((ours | theirs).total() for ours, theirs in counts)
    return sum((ours & theirs).total() for ours, theirs in counts) / either if either else 0.0


def measured(paths: Sequence[Path], repeats: int) -> dict[str, Any]:
    """Return pages and megabytes a second of both readers, from the fastest of some rounds over all files."""
    pages, megabytes = sum(map(pages_of, paths)), sum(path.stat().st_size for path in paths) / 1e6
    seconds: dict[str, list[float]] = {name: [] for name in READERS}
    for _ in range(repeats):
        for name, read in READERS.items():
            began = time.perf_counter()
            for path in paths:
                read(path)
            seconds[name].append(time.perf_counter() - began)
    rates = {
        name: {"pages_a_second": round(pages / min(took), 1), "megabytes_a_second": round(megabytes / min(took), 2)}
        for name, took in seconds.items()
    }
    return {"files": len(paths), "pages": pages, "megabytes": round(megabytes, 2), "readers": rates}


def print_table(figures: dict[str, Any]) -> None:
    """Print a line for each reader."""
    print(f"{figures['files']} files, {figures['pages']:,} pages, {figures['megabytes']} MB")
    print(f"{'reader':10} {'pages/s':>10} {'MB/s':>8}")
    for name, rates in figures["readers"].items():
        print(f"{name:10} {rates['pages_a_second']:>10,.1f} {rates['megabytes_a_second']:>8.2f}")


def _arguments() -> argparse.Namespace:
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
