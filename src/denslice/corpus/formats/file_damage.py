"""Malformed files: what a library raises on one becomes an error that names the problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from denslice.errors import DensliceError, UnreadableError

LONGEST_REASON = 80  # characters of a library's message


@contextmanager
def damage_reported() -> Iterator[None]:
    """Turn any error of a library in the block into UnreadableError.

    Errors of denslice, of memory and of the file system pass: they do not say that the file is malformed.
    """
    try:
        yield
    except (DensliceError, MemoryError, OSError):
        raise
    except Exception as error:
        raise damage(error) from error


def damage(error: BaseException) -> UnreadableError:
    """Return the error of a damaged file for what a library raised on it."""
    reason = " ".join(str(error).split()) or type(error).__name__
    shown = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]}…"
    return UnreadableError("damaged file", f"damaged, or not of the format that its name says ({shown})")
