"""The files that an index follows: what was read from each, so that a later look at the folder finds what changed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from denslice.store.container import ENDING, Container, write_container
from denslice.store.files import damaged
from denslice.store.manifest import FileEntry, new_name

READERS = 1  # goes up when the readers of formats change what they return: every file is then read again
UNKNOWN_TIME = -1  # of a file that changed so shortly before it was read that its time tells nothing


class FollowedFile(NamedTuple):
    """A file as it was read: its size and time, a digest of its bytes, its documents and what could not be read."""

    size: int
    modified_ns: int
    digest: str  # "" if the file is to be read again in any case
    ids: tuple[str, ...] | None  # of all its documents; None if it is one, with the file's own name as id
    problems: tuple[tuple[str, str, str], ...] = ()  # place, kind and problem of each


FileList = dict[str, FollowedFile]  # by path relative to the root


@dataclass(frozen=True)
class FollowedRoot:
    """A folder that an index follows, with its files."""

    name: str
    location: str
    whole: bool
    parts: tuple[str, ...]
    text_field: str | None
    files: FileList


def write_list(folder: Path, files: Mapping[str, FollowedFile]) -> FileEntry:
    """Write a list of files to a new container in the folder, and return its entry."""
    folder.mkdir(exist_ok=True)  # an index of an older version has none
    text = "\n".join(json.dumps([name, *file], ensure_ascii=False) for name, file in files.items())
    name = new_name()
    array = np.frombuffer(text.encode(), np.uint8)
    return FileEntry(name, write_container(folder / f"{name}{ENDING}", {"files": array}, {"readers": READERS}))


def read_list(container: Container) -> FileList:
    """Return the list of files of a container. If readers have changed since, all files are to be read again."""
    text = container.array("files", "uint8").tobytes()
    try:
        files = dict(_parsed(json.loads(line)) for line in text.split(b"\n") if line)
    except (ValueError, TypeError) as error:
        raise damaged(container.path, str(error)) from error
    if container.about.get("readers") == READERS:
        return files
    return {name: file._replace(digest="") for name, file in files.items()}


def _parsed(fields: Iterable[Any]) -> tuple[str, FollowedFile]:
    name, size, modified_ns, digest, ids, problems = fields
    own = None if ids is None else tuple(ids)
    return name, FollowedFile(size, modified_ns, digest, own, tuple(map(tuple, problems)))
