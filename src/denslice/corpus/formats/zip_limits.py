"""Zip files of a known size: the containers of books and office documents, checked before anything is unpacked."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence

from denslice.corpus.formats.source_file import LARGEST_FILE, SourceFile
from denslice.errors import UnreadableError

MOST_ENTRIES = 100_000
ENTRY_SIGNATURE = b"PK\x01\x02"
LOCAL_HEADER = 30  # bytes before the name of an entry, whose length and that of the extra field are its last four
IS_ENCRYPTED = 0x1  # in the flags of an entry
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # that books and office documents may use
DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, RuntimeError, OverflowError, OSError)


def checked_zip(file: SourceFile) -> zipfile.ZipFile:
    """Return the file as an open zip whose entries, unpacked, are not larger than `LARGEST_FILE` together.

    Each entry was unpacked once, so that none is larger than it declares, with whatever library it is read. Raise
    UnreadableError if the file is no zip, has too many entries, or is too large, damaged or encrypted. The caller
    closes the zip.
    """
    raw = file.data()
    archive = _opened(raw)
    _check_headers(archive.infolist(), len(raw))
    if any(_is_larger_than_declared(raw, entry) for entry in archive.infolist()):
        raise UnreadableError("damaged file", "an entry of the zip is larger than it declares")
    return archive


def read_entry(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the bytes of an entry; raise UnreadableError if there is none of this name, or it is damaged."""
    try:
        return archive.read(name)
    except KeyError:
        raise UnreadableError("damaged file", f"the zip has no entry {name!r}") from None
    except DAMAGE as error:
        raise UnreadableError("damaged file", f"entry {name!r} of the zip is damaged ({error})") from None


def _opened(raw: bytes) -> zipfile.ZipFile:
    """Return the zip of these bytes.

    Entries are counted before zipfile makes an object of each. Each has the signature, whatever number the zip states.
    """
    if raw.count(ENTRY_SIGNATURE) > MOST_ENTRIES:
        raise UnreadableError("damaged file", f"a zip of more than {MOST_ENTRIES:,} entries")
    try:
        return zipfile.ZipFile(io.BytesIO(raw))
    except DAMAGE as error:
        raise UnreadableError("damaged file", f"not a zip, or damaged ({error})") from None


def _check_headers(entries: Sequence[zipfile.ZipInfo], packed: int) -> None:
    """Raise UnreadableError if entries of a zip of so many bytes are not to be unpacked, by what they declare."""
    if any(entry.flag_bits & IS_ENCRYPTED for entry in entries):
        raise UnreadableError("encrypted file", "encrypted with a password")
    if any(entry.compress_type not in METHODS for entry in entries):
        raise UnreadableError("damaged file", "an entry of the zip is neither stored nor deflated")
    if sum(entry.file_size for entry in entries) > LARGEST_FILE:
        raise UnreadableError("large file", f"larger than {LARGEST_FILE >> 20} MB, unpacked")
    if sum(entry.compress_size for entry in entries) > packed:
        raise UnreadableError("damaged file", "entries of the zip overlap")


def _is_larger_than_declared(raw: bytes, entry: zipfile.ZipInfo) -> bool:
    """Return whether a deflated entry goes on after its declared size; zipfile would unpack all of it to cut it."""
    if entry.compress_type != zipfile.ZIP_DEFLATED or not 0 <= entry.header_offset <= len(raw) - LOCAL_HEADER:
        return False
    start = entry.header_offset + LOCAL_HEADER + sum(struct.unpack_from("<HH", raw, entry.header_offset + 26))
    packed = memoryview(raw)[start : start + entry.compress_size]
    try:
        unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, entry.file_size + 1)
    except zlib.error:
        return False  # damage, which is an error when the entry is read
    return len(unpacked) > entry.file_size
