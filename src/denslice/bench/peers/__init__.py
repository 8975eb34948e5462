"""The contenders of the benchmark: denslice and the libraries that a user might choose instead."""
