"""Index: an encoder, a folder on disk and search, joined behind a few verbs."""

from denslice.index.index import Index, open_index
from denslice.index.index_info import IndexInfo

__all__ = ["Index", "IndexInfo", "open_index"]
