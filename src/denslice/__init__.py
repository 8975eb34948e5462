"""denslice: hybrid search in one index, with explanations. This module has the public names and nothing else."""

import sys

if sys.platform == "win32":
    raise ImportError("denslice runs on Linux and macOS; on Windows, install it in WSL")

from denslice.client.async_client import AsyncClient
from denslice.client.client import Client
from denslice.cluster.cluster import open_cluster
from denslice.densify import densify
from denslice.errors import (
    DensliceError,
    DensliceWarning,
    IndexFormatError,
    InputError,
    LockedError,
    MissingExtraError,
    MissingShardsError,
    NotShownError,
    PartialWriteError,
    UnavailableError,
)
from denslice.gip import gip
from denslice.index.async_index import AsyncIndex
from denslice.index.index import Index, open_index
from denslice.index.index_info import IndexInfo
from denslice.index.indexes import Indexes, open_indexes
from denslice.profiling import Profile, profiled
from denslice.queries import Clause, Query
from denslice.rankings import Explanation, Hit, Ranking
from denslice.records import Doc
from denslice.slicing import Slicing
from denslice.vectors import Encoded, Slices

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncIndex",
    "Clause",
    "Client",
    "DensliceError",
    "DensliceWarning",
    "Doc",
    "Encoded",
    "Explanation",
    "Hit",
    "Index",
    "IndexFormatError",
    "IndexInfo",
    "Indexes",
    "InputError",
    "LockedError",
    "MissingExtraError",
    "MissingShardsError",
    "NotShownError",
    "PartialWriteError",
    "Profile",
    "Query",
    "Ranking",
    "Slices",
    "Slicing",
    "UnavailableError",
    "densify",
    "gip",
    "open_cluster",
    "open_index",
    "open_indexes",
    "profiled",
]
