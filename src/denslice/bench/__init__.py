"""Benchmarks against the peers a user would reach for: each contender checked first, then timed, all in one run."""
