"""Numbered lines of plain and compressed text files, and the JSON objects that they hold.

Every error of reading is an InputError that names the file, and the line if there is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from denslice.corpus.compression import is_damage, open_bytes
from denslice.errors import InputError


def read_lines(path: Path, start: int = 0, end: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line that is not blank.

    Only LF and CRLF end a line: texts may hold U+2028 or U+0085, at which str.splitlines would split. `start` and `end`
    are byte offsets at which lines begin; numbers then count from `start`.
    """
    with reading(path), open_bytes(path) as file:
        if start:  # a pipe cannot seek
            file.seek(start)
        at = start
        for number, raw in enumerate(file, 1):
            line = _decode(raw, path, number, at == 0).removesuffix("\n").removesuffix("\r")
            if line.strip():
                yield number, line
            at += len(raw)
            if end is not None and at >= end:
                return


def read_text(path: Path) -> str:
    """Return the whole file as one text, with LF line ends."""
    with reading(path), open_bytes(path) as file:
        return _decode(file.read(), path, 1, True).replace("\r\n", "\n")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the file system and of decompression in the block into InputErrors that name the path."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file or folder") from None
    except Exception as error:
        if is_damage(error):
            raise InputError(f"{path}: damaged, or not compressed as its name says ({error})") from None
        if isinstance(error, OSError):
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
        raise


def located(path: Path, number: int, problem: object) -> InputError:
    """Return the error for a problem in one line of a file."""
    return InputError(f"{path}:{number}: {problem}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)  # by default json accepts NaN and Infinity


def parse_json_object(line: str) -> dict[str, Any]:
    """Return the JSON object in a line; raise InputError if it is not one, or cannot be written as UTF-8."""
    try:
        value = _JSON.decode(line)
    except json.JSONDecodeError as error:
        raise InputError(f"broken JSON at column {error.colno}: {error.msg}; expected one object per line") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"broken JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"the JSON is {type(value).__name__}, expected an object per line")
    if "\\ud" in line or "\\uD" in line:
        _check_surrogates(value)
    return value


def _check_surrogates(value: dict[str, Any]) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        found = error.object[error.start]
        raise InputError(f"half a surrogate pair, {found!r}, which no text can hold; remove it") from None


def _decode(raw: bytes, path: Path, first: int, opens: bool) -> str:
    """Return the bytes as text, without the byte order mark of a file; `first` is the number of their first line."""
    try:
        return raw.decode("utf-8-sig" if opens else "utf-8")
    except UnicodeDecodeError as error:
        number = first + error.object.count(b"\n", 0, error.start)
        bad = error.object[error.start]
        raise located(path, number, f"byte 0x{bad:02x} is not UTF-8; convert the file to UTF-8") from None
