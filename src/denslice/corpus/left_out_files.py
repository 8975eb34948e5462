"""What a walk through a folder leaves out by itself: what programs keep beside the files of people.

Left out are hidden files, temporary ones of editors and office programs, and folders of packages, caches and indexes.
Compiled files and other binaries are not: they are read and counted, so that nobody misses a file without a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_left_out_names = re.compile(
    r"\..*"  # hidden
    r"|node_modules|__pycache__"
    r"|~\$.*|~WR[A-Z]\d+\.tmp"  # Microsoft Office
    r"|.*~|\#.*\#|.*\.sw[op]"  # editors
    r"|(?i:thumbs\.db|desktop\.ini)",
    re.DOTALL,
)
MARKER_FILES: Mapping[str, re.Pattern[bytes]] = {  # the file that marks a folder, and how it begins
    "pyvenv.cfg": re.compile(rb""),
    "CACHEDIR.TAG": re.compile(rb"Signature: 8a477f597d28d172789f06886806bc55"),
    "manifest.json": re.compile(rb'\{\s*"format": \d+,\s*"checksum": "[0-9a-f]{64}",\s*"index": \{'),
    "cluster.json": re.compile(rb'\{\s*"format": \d+,\s*"shards": \d+,\s*"owner": '),
}


def is_left_out_name(name: str) -> bool:
    """Return whether files and folders of this name are left out."""
    return _left_out_names.fullmatch(name) is not None


def is_left_out_folder(entries: Mapping[str, os.DirEntry[str]]) -> bool:
    """Return whether a folder with these entries is a virtual environment, a cache, an index or a cluster."""
    return any(_marks(entries[name], begins) for name, begins in MARKER_FILES.items() if name in entries)


def _marks(entry: os.DirEntry[str], begins: re.Pattern[bytes]) -> bool:
    try:
        if not entry.is_file(follow_symlinks=False):
            return False
        with Path(entry.path).open("rb") as file:
            return begins.match(file.read(256)) is not None
    except OSError:
        return False
