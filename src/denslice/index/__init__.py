"""Index: an encoder, a folder on disk and search behind a few methods."""

from denslice.index.index import Index, open_index
from denslice.index.index_info import IndexInfo

__all__ = ["Index", "IndexInfo", "open_index"]
