"""The contenders of the benchmark: denslice and what a user might take instead of it."""
