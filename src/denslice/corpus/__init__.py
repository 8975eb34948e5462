"""Input and output files: readers of documents, queries and ready vectors, and of runs and qrels."""
