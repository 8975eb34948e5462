"""Search on the CPU: compiled loops over posting lists and rows, and plain numpy for small indexes."""
