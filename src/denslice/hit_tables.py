"""The hits of a ranking as a table of pandas or Arrow, with a column for each field of metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from denslice.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

WHOLE_COLUMNS = ("rank", "passage")
SCORE_COLUMNS = ("score", "lexical", "dense")
TEXT_COLUMNS = ("id", "title", "text")

HitObject = Mapping[str, Any]  # a hit as `Hit.to_dict` returns it


def pandas_table(hits: Sequence[HitObject], passages: Sequence[int]) -> pd.DataFrame:
    """Return a frame of hits, best first."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("Ranking.to_pandas()", "files") from None
    table = hit_columns(hits, passages)
    empty = {name: pd.Series(dtype=_pandas_type(name)) for name in table}
    return pd.DataFrame(table if hits else empty)


def arrow_table(hits: Sequence[HitObject], passages: Sequence[int]) -> pa.Table:
    """Return an Arrow table of hits, best first. A field whose values have no common type is a column of JSON text."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("Ranking.to_arrow()", "files") from None
    types = {**dict.fromkeys(WHOLE_COLUMNS, pa.int64()), **dict.fromkeys(SCORE_COLUMNS, pa.float64())}
    types |= dict.fromkeys(TEXT_COLUMNS, pa.string())
    columns = hit_columns(hits, passages)
    return pa.table({name: _arrow_column(cells, types.get(name)) for name, cells in columns.items()})


def hit_columns(hits: Sequence[HitObject], passages: Sequence[int]) -> dict[str, list[Any]]:
    """Return the columns of a table of hits: rank from 1, id, scores, title, text, and the fields of metadata.

    If passages were searched, `passage` is the number of each in its document. A field that has the name of another
    column is called `meta.NAME`.
    """
    own: dict[str, list[Any]] = {"rank": list(range(1, len(hits) + 1)), "id": [hit["id"] for hit in hits]}
    own |= {"passage": list(passages)} if passages else {}
    own |= {name: [hit[name] for hit in hits] for name in (*SCORE_COLUMNS, "title", "text")}
    fields = dict.fromkeys(name for hit in hits for name in hit["meta"])
    names = {f"meta.{name}" if name in own else name: name for name in fields}
    return own | {column: [hit["meta"].get(name) for hit in hits] for column, name in names.items()}


def _pandas_type(name: str) -> str:
    return "int64" if name in WHOLE_COLUMNS else "float64" if name in SCORE_COLUMNS else "str"


def _arrow_column(cells: list[Any], type: pa.DataType | None) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(cells, type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if cell is None else json.dumps(cell, ensure_ascii=False) for cell in cells])
