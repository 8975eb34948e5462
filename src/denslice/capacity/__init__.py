"""Capacity: which disk, memory and machines a collection of a given size needs."""
