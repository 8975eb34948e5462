"""Indexes: several indexes that are searched together, with the methods of one that search and explain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from denslice.errors import InputError
from denslice.index.index import Index, open_index
from denslice.index.joined_reader import JoinedReader
from denslice.index.qualified_ids import names_of
from denslice.index.search_verbs import SearchVerbs
from denslice.records import GivenDocs
from denslice.store.manifest import FULL


class Indexes(SearchVerbs):
    """Several indexes, by name. Searches return what one index of all documents would return.

    The id of a document is NAME:ID, with the name of its index and its own id. Nothing can be written.
    """

    def __init__(self, indexes: Mapping[str, Index]) -> None:
        if not indexes:
            raise InputError("there is no index to open: give at least one path")
        self._indexes = dict(indexes)
        self._shown: JoinedReader | None = self._joined()

    @property
    def reader(self) -> JoinedReader:
        """The reader of the commits that are shown."""
        if self._shown is None:
            raise InputError("these indexes are closed; open them again")
        return self._shown

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indexes, which are what ids begin with."""
        return tuple(self._indexes)

    def __repr__(self) -> str:
        if self._shown is None:
            return "<Indexes, closed>"
        return f"<Indexes {', '.join(self.names)}: {len(self):,} documents, {self.reader.snapshot.manifest.encoder}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Indexes, (self._indexes,)

    def refresh(self) -> bool:
        """Move on to the last commit of each index, of any process, and return whether any was not shown yet.

        If an index was replaced by one whose scores do not compare, InputError is raised, and nothing changes.
        """
        for index in self._indexes.values():
            index.refresh()
        newer = self._joined()
        is_newer = newer.commit != self.reader.commit
        if is_newer:
            self._shown = newer
        return is_newer

    def close(self) -> None:
        """Release all files and GPU memory. A second call has no effect, and rankings remain readable."""
        self._shown = None
        for index in self._indexes.values():
            index.close()

    def add(self, docs: GivenDocs, *, level: str = FULL, wait: float = 0.0) -> NoReturn:
        """Raise InputError: nothing can be written to several indexes."""
        raise self._read_only("add to")

    def delete(self, ids: Iterable[str], *, wait: float = 0.0) -> NoReturn:
        """Raise InputError: nothing can be written to several indexes."""
        raise self._read_only("delete from")

    def _read_only(self, verb: str) -> InputError:
        return InputError(f"indexes that are searched together are read-only; open one of them to {verb} it")

    def _joined(self) -> JoinedReader:
        readers = {name: index.reader for name, index in self._indexes.items()}
        return JoinedReader(readers, next(iter(readers.values())).queries)


def open_indexes(
    paths: Sequence[str | Path] | Mapping[str, str | Path],
    device: str = "cpu",
    *,
    leave_out: Sequence[str] = (),
    queries: str = FULL,
) -> Indexes:
    """Open several indexes to be searched together, with the options of `open_index`.

    They are named by their folders, without .idx, or by the keys of `paths`. If their scores do not compare, because
    they were made with different options or models, InputError says what differs.
    """
    if isinstance(paths, str | Path):
        raise InputError(f"open_indexes takes a list of paths, not one; open_index({str(paths)!r}) opens one index")
    named = paths if isinstance(paths, Mapping) else names_of(paths)
    return Indexes(
        {name: open_index(path, device, leave_out=leave_out, queries=queries) for name, path in named.items()}
    )
