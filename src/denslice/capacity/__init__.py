"""Capacity planning: how much disk, how much memory and how many machines a collection needs."""
