"""Search libraries beside denslice: one file for each, and the folder of vectors that all of them read.

Nothing here but denslice_index.py imports denslice, so that each contender can have a Python environment of its own.
"""
