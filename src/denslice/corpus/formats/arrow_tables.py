"""Parquet, Arrow and Feather files, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from denslice.corpus.formats.record_docs import record_docs
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.text_fields import kept_if_empty, named
from denslice.errors import MissingExtraError, UnreadableError
from denslice.json_cells import ROWS_AT_ONCE, Row, arrow_rows, distinct_names, is_binary
from denslice.records import ID_FIELDS, Doc

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_LIST = 16  # fractions in a list that is metadata; a longer one is the vector of a model
LONGEST_PROBLEM = 200  # characters of an error of pyarrow


def read_arrow(file: SourceFile) -> Iterator[Doc]:
    """Yield the rows of a Parquet file, or of an Arrow file or stream; Feather files are Arrow files."""
    with _damage_as_unreadable(), file.seekable() as stream:
        yield from record_docs(file, enumerate(_rows(file, stream), 1), "bad row")


def _rows(file: SourceFile, stream: IO[bytes]) -> Iterator[Row]:
    for batch in _readable_columns(file, _batches(stream)):
        yield from arrow_rows([batch], kept_if_empty(file, distinct_names(batch.schema.names)))


@contextmanager
def _damage_as_unreadable() -> Iterator[None]:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("reading Parquet and Arrow files", "files") from None
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        told = (str(error).splitlines() or ["out of memory"])[0][:LONGEST_PROBLEM]
        raise UnreadableError("damaged file", f"not a Parquet or Arrow file that can be read: {told}") from None


def _batches(stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a file in the format that its first bytes name."""
    from pyarrow import ipc

    opening = stream.read(8)
    stream.seek(0)
    if not opening:
        raise UnreadableError("empty file", "has no documents")
    if opening.startswith(b"PARE"):
        raise UnreadableError("encrypted file", "its columns are encrypted")
    if opening.startswith(b"FEA1"):
        raise UnreadableError("old Feather file", "of version 1; write it again as Parquet")
    if opening.startswith(b"PAR1"):
        yield from _parquet_batches(stream)
    elif opening.startswith(b"ARROW1"):
        found = ipc.open_file(stream, options=ipc.IpcReadOptions(use_threads=False))
        yield from (found.get_batch(number) for number in range(found.num_record_batches))
    else:
        yield from ipc.open_stream(stream, options=ipc.IpcReadOptions(use_threads=False))


def _parquet_batches(stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    found = parquet.ParquetFile(stream, pre_buffer=False)
    names = [field.name for field in found.schema_arrow if not _holds_bytes(field.type)]
    yield from found.iter_batches(ROWS_AT_ONCE, columns=names, use_threads=False)


def _readable_columns(file: SourceFile, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches without bytes, vectors of models and the numbers of rows that pandas adds."""
    vectors: list[str] = []
    for number, batch in enumerate(batches):
        batch.validate(full=True)  # Arrow trusts the offsets in a file, and would read outside of its memory
        if number == 0 and (vectors := [name for name in batch.schema.names if _is_vector(batch, name)]):
            listed = ", ".join(f"`{name}`" for name in vectors)
            file.remark(f"vectors are left out: {listed}")
        kept = [at for at, field in enumerate(batch.schema) if not _is_left_out(field) and field.name not in vectors]
        yield _with_whole_ids(batch.select(kept))


def _is_left_out(field: pa.Field) -> bool:
    return _holds_bytes(field.type) or field.name.startswith("__index_level_")


def _holds_bytes(type: pa.DataType) -> bool:
    """Return whether values hold bytes, as those of pictures do: an object of bytes and a path."""
    return is_binary(type) or any(_holds_bytes(type.field(at).type) for at in range(type.num_fields))


def _is_vector(batch: pa.RecordBatch, name: str) -> bool:
    """Return whether a column holds long lists of fractions."""
    from pyarrow import compute, types

    type = batch.schema.field(batch.schema.names.index(name)).type
    if not (types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type)):
        return False
    lengths = compute.list_value_length(batch.column(batch.schema.names.index(name)))
    return types.is_floating(type.value_type) and (compute.max(lengths).as_py() or 0) > LONGEST_LIST


def _with_whole_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with ids that are whole numbers as such; pandas makes fractions of them if one is missing."""
    import pyarrow as pa

    name = named(batch.schema.names, ID_FIELDS)
    if name is None or not pa.types.is_floating(batch.schema.field(name).type):
        return batch
    try:
        ids = batch.column(name).cast(pa.int64())
    except pa.ArrowInvalid:
        return batch
    return batch.set_column(batch.schema.names.index(name), name, ids)
