"""Index: an encoder, a folder on disk and search, joined behind a few verbs."""

from denslice.index.index import Index, open_index

__all__ = ["Index", "open_index"]
