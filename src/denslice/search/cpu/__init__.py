"""Search on the CPU: compiled loops over posting lists and rows, and numpy for small indexes."""
