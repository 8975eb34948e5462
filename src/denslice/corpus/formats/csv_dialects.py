"""How a CSV file is written: its delimiter, its quotes, and which of its first rows is the header, if any."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from denslice.corpus.formats.text_fields import KNOWN_NAMES

DELIMITERS = {".tsv": "\t", ".tab": "\t", ".psv": "|"}  # of any other extension: the one that fits best
CSV_DELIMITERS = ",;\t|"
NO_DELIMITER = "\x1f"  # of a table of one column, whose texts may hold any of the others
SAMPLE_LINES = 200
LARGEST_CELL = 16 << 20  # characters: a quote that is not closed takes no more than this
LONGEST_NAME = 64  # characters of the name of a column
LONGEST_QUESTION = 200  # characters of a question that names the column of its answers, in an export of a survey
MOST_PREAMBLE = 0.2  # of the rows of a sample, before the header

Cells = list[str]
Row = tuple[int, Cells]  # the line at which a row begins, from 1, and its cells
is_number = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?").fullmatch
_excel_line = re.compile(r"sep=(.)\s*", re.IGNORECASE).fullmatch  # which Excel takes before the header


@dataclass(frozen=True)
class CsvDialect:
    """How rows are written. The first ones may be a title or a note on the table, and are not to be read."""

    delimiter: str
    has_quotes: bool = True
    preamble: int = 0  # rows

    def rows(self, lines: Iterable[str]) -> Iterator[Row]:
        """Yield the rows that are not blank. One without cells has a cell that is too large."""
        csv.field_size_limit(LARGEST_CELL)  # of the whole process; the default is too small for a long text
        quoting = csv.QUOTE_MINIMAL if self.has_quotes else csv.QUOTE_NONE
        reader = csv.reader(lines, delimiter=self.delimiter, quoting=quoting)  # type: ignore[arg-type]
        return islice(_numbered(reader), self.preamble, None)


class Fit(NamedTuple):
    """How well a dialect fits a sample; of two, the larger fits better."""

    has_known_name: bool  # among those of the columns
    share: float  # of rows that have as many cells as there are columns
    width: int  # columns
    dialect: CsvDialect


def dialect_of(extension: str, sample: Sequence[str]) -> CsvDialect:
    """Return the dialect in which most rows of a sample have equally many cells."""
    if found := _excel_line(sample[0]):
        return CsvDialect(found[1], preamble=1)
    delimiters = DELIMITERS.get(extension, CSV_DELIMITERS)
    fits = [_fit(dialect, sample) for delimiter in delimiters for dialect in _quotings(delimiter, sample)]
    best = max(fits, key=lambda fit: fit[:3])  # the first of equals
    return best.dialect if best.width > 1 else CsvDialect(NO_DELIMITER)


def has_header(cells: Cells) -> bool:
    """Return whether the first row of a CSV file names its columns: it does, unless it clearly is data."""
    if has_known_name(cells):
        return True
    if len(cells) == 1:
        return len(cells[0].split()) <= 3
    return not any(is_number(cell.strip()) or len(cell) > LONGEST_QUESTION for cell in cells)


def is_header(cells: Cells) -> bool:
    """Return whether the first row of a TSV file clearly names its columns."""
    names = {cell.strip().casefold() for cell in cells}
    are_names = all(0 < len(name) <= LONGEST_NAME and not is_number(name) for name in names)
    return len(names) == len(cells) > 1 and are_names and has_known_name(cells)


def has_known_name(cells: Cells) -> bool:
    """Return whether a cell is the usual name of an id, a title or a text."""
    return any(cell.strip().casefold() in KNOWN_NAMES for cell in cells)


def _numbered(reader: Iterator[Cells]) -> Iterator[Row]:
    before = 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error:
            yield before + 1, []
        else:
            if any(cells):
                yield before + 1, cells
        before = reader.line_num  # type: ignore[attr-defined]


def _quotings(delimiter: str, sample: Sequence[str]) -> list[CsvDialect]:
    """Return the dialects to try: if quotes do not enclose cells everywhere, they may be part of the texts."""
    quoted, plain = CsvDialect(delimiter), CsvDialect(delimiter, has_quotes=False)
    try:
        list(csv.reader(sample, delimiter=delimiter, strict=True))
    except csv.Error as error:
        is_cut = len(sample) >= SAMPLE_LINES and "unexpected end" in str(error)
        return [quoted] if is_cut else [plain, quoted]
    return [quoted]


def _fit(dialect: CsvDialect, sample: Sequence[str]) -> Fit:
    rows = [cells for _, cells in dialect.rows(sample)]
    rows = rows[:-1] if len(sample) >= SAMPLE_LINES else rows  # the last one may go on after the sample
    if not rows:
        return Fit(False, 0.0, 1, dialect)
    width = _width(rows)
    share = sum(1 for cells in rows if len(cells) == width) / len(rows)
    preamble = next(at for at, cells in enumerate(rows) if len(cells) == width)
    is_known = width > 1 and has_known_name(rows[preamble])
    return Fit(is_known, share if width > 1 else 0.0, width, replace(dialect, preamble=preamble))


def _width(rows: Sequence[Cells]) -> int:
    """Return how many cells a row should have: as many as the first one, unless it is a title above the table."""
    [(usual, count)] = Counter(map(len, rows)).most_common(1)
    is_title = count >= (1 - MOST_PREAMBLE) * len(rows) and not has_known_name(rows[0])
    return usual if is_title else len(rows[0])
