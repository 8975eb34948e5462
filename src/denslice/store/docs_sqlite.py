"""The documents of a segment: an SQLite file with id, title, text and metadata, written once and then only read.

A second table holds the values of filterable fields, one row for each value and for each element of a list, so that
a filter on such a field reads an index instead of every document.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from denslice.errors import IndexFormatError, InputError, UnavailableError
from denslice.records import Doc, Place, filter_fields
from denslice.store.field_values import BOOLEAN, NULL, NUMBER, PRESENT, STRING, FieldValues
from denslice.store.files import StoredFile, damaged
from denslice.store.folder import Folder
from denslice.store.recent_masks import RecentMasks

DOCS_FILE = "docs.sqlite"
SCHEMA = (
    """CREATE TABLE docs (
        row INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        text TEXT NOT NULL,
        meta TEXT NOT NULL
    )""",
    """CREATE TABLE passages (
        row INTEGER NOT NULL,
        number INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        heading TEXT NOT NULL,
        page INTEGER,
        PRIMARY KEY (row, number)
    ) WITHOUT ROWID""",
    "CREATE TABLE field_values (field TEXT NOT NULL, kind INTEGER NOT NULL, value, row INTEGER NOT NULL)",
)
CREATE_INDEX = "CREATE INDEX by_value ON field_values (field, kind, value, row)"
INSERT = "INSERT INTO docs VALUES (?, ?, ?, ?, ?)"
INSERT_PASSAGE = "INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?)"
INSERT_VALUE = "INSERT INTO field_values VALUES (?, ?, ?, ?)"
WANTED_ROWS = "FROM json_each(?) AS wanted CROSS JOIN docs ON docs.row = wanted.value"
BY_ROWS = f"SELECT row, docs.id, title, text, meta {WANTED_ROWS}"
TEXTS_BY_ROWS = f"SELECT title, text {WANTED_ROWS}"
TEXTS_BETWEEN = "SELECT title, text FROM docs WHERE row BETWEEN ? AND ? ORDER BY row"
FIELDS_BY_ROWS = f"SELECT row, docs.id, title, meta {WANTED_ROWS}"
BY_IDS = "SELECT docs.id, row FROM json_each(?) AS wanted CROSS JOIN docs ON docs.id = wanted.value"
NEXT_IDS = "SELECT id, row FROM docs WHERE id > ? ORDER BY id LIMIT ?"
PLACES = """SELECT row, first, last, heading, page FROM json_each(?) AS wanted
    CROSS JOIN passages ON passages.row = wanted.value ORDER BY row, number"""
OPERATORS = {"eq": "IS", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
HAVING_ID = {name: f"SELECT row FROM docs WHERE id {sign} ?" for name, sign in OPERATORS.items()}
HAVING_FIELD = "SELECT row FROM field_values WHERE field = ? AND kind = ?"
HAVING = {"exists": HAVING_FIELD} | {name: f"{HAVING_FIELD} AND value {sign} ?" for name, sign in OPERATORS.items()}
EVERY_VALUE = "SELECT DISTINCT kind, value FROM field_values WHERE field = ? AND kind > 1"  # not PRESENT, not NULL
# Both in the order of the index, so that SQLite neither sorts nor reads the table.
DIFFERENT_VALUES = """SELECT kind, value, COUNT(*) FROM field_values WHERE field = ? AND kind > 0
    GROUP BY kind, value ORDER BY kind, value"""
ROWS_BY_VALUE = "SELECT row, rowid FROM field_values WHERE field = ? AND kind > 0 ORDER BY kind, value, row, rowid"
EVERY_META = "SELECT meta FROM docs"
EVERY_FIELD = "SELECT DISTINCT key FROM docs CROSS JOIN json_each(docs.meta)"
ANY_TITLE = "SELECT 1 FROM docs WHERE title <> '' LIMIT 1"
ANY_WITH = "SELECT 1 FROM docs WHERE EXISTS (SELECT 1 FROM json_each(meta) WHERE key = ?) LIMIT 1"
SYSTEM_ERRORS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_INTERRUPT)
Fetched = TypeVar("Fetched")
MAPPED_BYTES = 1 << 40  # of the file that SQLite may map into memory: all of them


class DocumentsWriter:
    """Writes documents in row order. The file needs no journal: it is not read before the commit."""

    def __init__(self, folder: Path, filterable: Sequence[str] = ()) -> None:
        self.connection = sqlite3.connect(folder / DOCS_FILE, isolation_level=None)
        self.filterable = filterable
        self.count = 0
        try:
            for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", *SCHEMA, "BEGIN"):
                self.connection.execute(statement)
        except BaseException:
            self.close()
            raise

    def add(self, docs: Sequence[Doc], places: Sequence[Sequence[Place]] = ()) -> None:
        """Append documents, whose ids must be new, with the places of those that have several passages."""
        numbered = list(enumerate(docs, self.count))
        cut = ((row, number, *at) for row, some in enumerate(places, self.count) for number, at in enumerate(some))
        self.connection.executemany(INSERT_PASSAGE, cut)
        self.connection.executemany(INSERT, [(row, d.id, d.title, d.text, d.meta_json()) for row, d in numbered])
        for field in self.filterable:
            values = [(field, kind, value, row) for row, d in numbered for kind, value in indexed_values(d, field)]
            self.connection.executemany(INSERT_VALUE, values)
        self.count += len(numbered)

    def finish(self) -> None:
        """Build the index of values and close the file."""
        self.connection.execute(CREATE_INDEX)
        self.connection.execute("COMMIT")
        self.close()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self.connection.close()


class Documents:
    """A finished file, open for reading; thread-safe. It is opened at once, as a later commit may remove it."""

    def __init__(self, folder: Folder, name: str, stored: StoredFile) -> None:
        """Open the file of this name; raise MovedError if another file takes its path meanwhile."""
        self.path = folder.path / name
        self.stored = stored
        self._folder, self._name = folder, name
        self._lock = threading.Lock()
        self._connection = self._opened()
        self._field_values: dict[str, FieldValues] = {}  # by field
        self.recent_masks = RecentMasks()

    def fetch(self, rows: Sequence[int]) -> dict[int, Doc]:
        """Return the documents of these rows."""
        found = self._select_rows(BY_ROWS, rows)
        return {row: Doc(id, text, title, self._meta(meta)) for row, id, title, text, meta in found}

    def texts(self, rows: Sequence[int]) -> list[tuple[str, str]]:
        """Return title and text of each of these rows, which ascend; those that follow each other are read faster."""
        is_range = len(rows) > 1 and rows[-1] - rows[0] == len(rows) - 1
        found: list[Any] = self._select(TEXTS_BETWEEN, rows[0], rows[-1]) if is_range else []
        return found if len(found) == len(rows) else self._select_rows(TEXTS_BY_ROWS, rows)

    def ids_after(self, id: str, count: int) -> list[tuple[str, int]]:
        """Return the next ids in rising order, each with its row, from the index of ids."""
        found: list[Any] = self._select(NEXT_IDS, id, count)
        return found

    def places(self, rows: Sequence[int]) -> dict[int, list[Place]]:
        """Return the places of the passages of these rows, each of which has several."""
        found: dict[int, list[Place]] = {}
        for row, *place in self._select(PLACES, json.dumps(rows)) if rows else ():
            found.setdefault(row, []).append(Place(*place))
        return found

    def fields(self, rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Return each of these rows with the fields that a filter can name."""
        found = self._select_rows(FIELDS_BY_ROWS, rows)
        return ((row, filter_fields(id, title, self._meta(meta))) for row, id, title, meta in found)

    def has_field(self, field: str) -> bool:
        """Return whether any document has a field of this name; this may read all of them."""
        if not field.isprintable():  # SQLite truncates a name at NUL and refuses half a surrogate pair
            return any(field in self._meta(meta) for (meta,) in self._select(EVERY_META))
        is_own = field == "id" or (field == "title" and bool(self._select(ANY_TITLE)))
        return is_own or bool(self._select(ANY_WITH, field))

    @cached_property
    def field_names(self) -> frozenset[str]:
        """The fields of metadata, and `title` if any document has one. This reads all documents once."""
        named = frozenset(name for (name,) in self._select(EVERY_FIELD))
        return named | {"title"} if self._select(ANY_TITLE) else named

    def rows(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the rows of those ids that the segment has."""
        found = self._select(BY_IDS, json.dumps(ids))
        wanted = set(ids)  # SQLite truncates a text at NUL and then finds another id
        return {id: row for id, row in found if id in wanted}

    def having_id(self, operator: str, value: str) -> npt.NDArray[np.int64]:
        """Return the rows whose id satisfies the comparison with `value`, from the index of ids."""
        return np.array([row for (row,) in self._select(HAVING_ID[operator], value)], dtype=np.int64)

    def having(self, operator: str, field: str, kind: int, value: object = None) -> npt.NDArray[np.int64]:
        """Return the rows whose filterable field has a value of this kind that satisfies the comparison."""
        if operator != "exists" and (known := self._field_values.get(field)) is not None:
            return known.having(operator, (kind, value))
        given = (field, kind) if operator == "exists" else (field, kind, value)
        return np.array([row for (row,) in self._select(HAVING[operator], *given)], dtype=np.int64)

    def values(self, field: str) -> list[tuple[int, Any]]:
        """Return the different values of a filterable field with their kinds, as `having` takes them, but for null."""
        return [(kind, value) for kind, value in self._select(EVERY_VALUE, field)]

    def field_values(self, field: str, rows: int) -> FieldValues:
        """Return the values of a filterable field, which are read once; the segment has so many rows."""
        if (known := self._field_values.get(field)) is not None:
            return known
        found = self._select(DIFFERENT_VALUES, field)
        flat = chain.from_iterable(self._select(ROWS_BY_VALUE, field))
        entries = np.fromiter(flat, dtype=np.int64).reshape(-1, 2)
        if len(entries) != sum(count for *_, count in found) or entries[:, :1].max(initial=0) >= rows:
            raise damaged(self.path, f"the values of the field {field!r} do not fit its rows")
        values = FieldValues.of(
            [(kind, value) for kind, value, _ in found], [count for *_, count in found], entries, rows
        )
        self._field_values[field] = values
        return values

    def verify(self) -> None:
        """Read the whole file as it was opened; raise IndexFormatError if it has changed."""
        try:
            handle = self._folder.open(self._name)
        except IndexFormatError:  # a later commit has removed it; SQLite still has it open
            digest = hashlib.sha256(self._execute(lambda connection: connection.serialize()))
        else:
            with os.fdopen(handle, "rb") as file:
                digest = hashlib.file_digest(file, "sha256")
        if digest.hexdigest() != self.stored.sha256:
            raise damaged(self.path, "its contents differ from what was written")

    def _meta(self, text: str) -> dict[str, Any]:
        if text == "{}":
            return {}
        try:
            meta: dict[str, Any] = json.loads(text)
        except (TypeError, ValueError) as error:
            raise damaged(self.path, f"its metadata is not JSON ({error})") from error
        return meta

    def _select(self, statement: str, *given: object) -> list[tuple[Any, ...]]:
        return self._execute(lambda connection: list(connection.execute(statement, given)))

    def _select_rows(self, statement: str, rows: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return what a statement finds of each of these rows, in their order."""
        found = self._select(statement, json.dumps(rows))
        if len(found) != len(rows):
            raise damaged(self.path, f"{len(rows) - len(found):,} documents are missing")
        return found

    def _execute(self, ask: Callable[[sqlite3.Connection], Fetched]) -> Fetched:
        with self._lock:
            try:
                return ask(self._connection)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise _sqlite_error(self.path, error) from error

    def _opened(self) -> sqlite3.Connection:
        """Return a connection to the file. SQLite opens it by path, so the path is checked before and after."""
        handle = self._folder.open(self._name)
        try:
            expected = os.fstat(handle)
            if expected.st_size != self.stored.bytes:
                raise damaged(self.path, f"has {expected.st_size:,} bytes, expected {self.stored.bytes:,}")
            _check_path(self.path, expected)
            address = f"{self.path.as_uri()}?mode=ro&immutable=1"
            connection = sqlite3.connect(address, uri=True, check_same_thread=False)
            connection.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
            connection.execute("PRAGMA schema_version")  # opens the file
            _check_path(self.path, expected)
            return connection
        except sqlite3.Error as error:
            _check_path(self.path, expected)  # a writer may have removed the file between the check and its opening
            raise _sqlite_error(self.path, error) from error
        finally:
            os.close(handle)

    def __del__(self) -> None:
        if connection := vars(self).get("_connection"):
            connection.close()


class MovedError(Exception):
    """A path leads to another file than a moment ago; a reader opens the index again."""


def _check_path(path: Path, expected: os.stat_result) -> None:
    try:
        found = path.stat()
    except OSError:
        raise MovedError(path) from None
    if not os.path.samestat(found, expected):
        raise MovedError(path)


def _sqlite_error(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> IndexFormatError | UnavailableError:
    """Return the error to raise for one of SQLite's: damage only if the file itself shows it."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in SYSTEM_ERRORS:
        return UnavailableError(f"{path}: cannot be read ({error})")
    return damaged(path, str(error))


def indexed_values(doc: Doc, field: str) -> Iterable[tuple[int, object]]:
    """Return the kind and value of each row that a document has in the table of a filterable field."""
    fields = filter_fields(doc.id, doc.title, doc.meta)
    if field not in fields:
        return []
    value = fields[field]
    scalars = [kind_and_value(item) for item in (value if isinstance(value, list | tuple) else [value])]
    return [(PRESENT, None), *(scalar for scalar in scalars if scalar)]


def kind_and_value(value: object) -> tuple[int, object] | None:
    """Return how the table stores a JSON scalar, or None for an object or a nested list, which it does not store."""
    if value is None:
        return NULL, None
    if isinstance(value, bool):
        return BOOLEAN, int(value)
    if isinstance(value, int | float):
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise InputError(f"number {value} does not fit 64 bits; a filterable field holds no larger ones")
        return NUMBER, value
    return (STRING, value) if isinstance(value, str) else None
