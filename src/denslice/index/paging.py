"""Pages of a ranking: where one begins, and the cursor that continues after it.

A cursor is a number of hits to skip, with digests of the commit, of the query and of the options that determine the
order. It holds nothing that a server would have to keep.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from typing import Any

from denslice.errors import InputError
from denslice.options import SearchOptions
from denslice.queries import Query
from denslice.vectors import Encoded

DIGEST_BYTES, OFFSET_BYTES = 6, 5
FREE = ("k", "offset", "cursor", "facets")  # options that may change from page to page
START_AGAIN = "search again without a cursor"
PINNED = tuple(one.name for one in fields(Query) if one.name != "id")  # what a cursor pins of a query


@dataclass(frozen=True)
class Cursor:
    """How many hits are skipped, and digests of what the order depends on."""

    offset: int
    commit: bytes
    query: bytes
    options: bytes

    @classmethod
    def of(cls, offset: int, commit: str, query: Mapping[str, Any], options: SearchOptions) -> Cursor:
        """Return the cursor that skips so many hits of a search."""
        order = {name: value for name, value in vars(options).items() if name not in FREE}
        return cls(offset, _digest(commit), _digest(query), _digest(order))

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Return the cursor of a text; raise InputError if it is none."""
        try:
            data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            data = b""
        if len(data) != OFFSET_BYTES + 3 * DIGEST_BYTES:
            raise InputError(f"cursor is {text[:80]!r}, expected the cursor of a page unchanged; {START_AGAIN}")
        digests = [data[at : at + DIGEST_BYTES] for at in range(OFFSET_BYTES, len(data), DIGEST_BYTES)]
        return cls(int.from_bytes(data[:OFFSET_BYTES]), *digests)

    def __str__(self) -> str:
        data = self.offset.to_bytes(OFFSET_BYTES) + self.commit + self.query + self.options
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    def check(self, searched: Cursor) -> None:
        """Raise InputError if the cursor belongs to another search than this one."""
        if self.commit != searched.commit:
            gone = "the index has changed since, and the commit that it continues is gone"
            raise InputError(f"this cursor is of another commit: {gone}; {START_AGAIN}")
        if self.query != searched.query:
            raise InputError(f"this cursor is of another query; give the query of its page, or {START_AGAIN}")
        if self.options != searched.options:
            free = ", ".join(name for name in FREE if name not in ("offset", "cursor"))
            advice = f"only {free} may change from page to page; give the others as before, or {START_AGAIN}"
            raise InputError(f"this cursor is of a search with other options; {advice}")


def start_of(options: SearchOptions) -> int:
    """Return how many hits, or groups, are skipped before the page."""
    return options.offset if options.cursor is None else Cursor.read(options.cursor).offset


def described(query: Query, encoded: Encoded, at: int) -> dict[str, Any]:
    """Return what a cursor pins of a query: its text and vector, or if it has none its encoded row `at`."""
    pinned = {name: getattr(query, name) for name in PINNED}
    if query.must or query.must_not or query.should:
        pinned |= {name: value for name, value in asdict(query).items() if name in PINNED}  # clauses as dicts
    if query.text or query.vector is not None:
        return pinned
    one = encoded.rows(slice(at, at + 1))
    weights = [one.lexical.indices.tolist(), one.lexical.data.tolist()]
    return pinned | {"weights": weights, "dense": None if one.dense is None else one.dense.tolist()}


def _digest(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, default=str)
    return blake2b(text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest()
