"""Past one machine: a collection in shards, built and searched on Ray."""
