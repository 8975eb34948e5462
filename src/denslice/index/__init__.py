"""Index: an encoder, a folder on disk and search behind a few methods."""

from denslice.index.index import Index, open_index

__all__ = ["Index", "open_index"]
