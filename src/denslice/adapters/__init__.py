"""Adapters that make an index a component of other libraries. Each has its own file and its own extra."""
