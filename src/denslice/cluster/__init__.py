"""Clusters: collections in shards that are built and searched on Ray, on one machine or many."""
