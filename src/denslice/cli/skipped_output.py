"""What was skipped: a line that counts it by kind, and a file that lists it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from denslice.cli.output import counted, write_line
from denslice.errors import InputError
from denslice.index.sync import MISSING_PACKAGE, Synced


def tell_skipped(done: Synced) -> None:
    """Write how many files or parts of files were skipped and why, and what was guessed."""
    for remark in done.remarks:
        write_line(f"note: {remark}")
    if line := skipped_line(done):
        write_line(line)
    if any(problem.kind == MISSING_PACKAGE for problem in done.problems):
        write_line("more formats are read after pip install 'denslice[files]', by the next sync")
    if done.gone:
        left = f"{counted(done.gone, 'followed file')} {'is' if done.gone == 1 else 'are'} gone"
        write_line(f"{left}; `denslice sync` removes {'its' if done.gone == 1 else 'their'} documents")


def skipped_line(done: Synced) -> str:
    """Return what was skipped, such as `skipped 3: 2 scanned PDFs, 1 binary`, or nothing."""
    kinds = Counter(problem.kind for problem in done.problems)
    told = ", ".join(counted(count, kind) for kind, count in kinds.most_common())
    return f"skipped {len(done.problems):,}: {told}" if kinds else ""


def write_report(path: Path | None, done: Synced) -> None:
    """Write each problem to a file as a line of JSON, if a file is given."""
    if path is None:
        return
    lines = [json.dumps(problem._asdict(), ensure_ascii=False) + "\n" for problem in done.problems]
    try:
        path.write_text("".join(lines), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise InputError(f"{path}: the report cannot be written ({error.strerror})") from error
