"""Stop words: English words that are not indexed. In other languages their idf makes them count little."""

# fmt: off
# Lucene's 33, and the one letter that is a frequent word besides a.
ENGLISH_STOP_WORDS = (
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "i", "if", "in", "into", "is", "it", "no", "not",
    "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will",
    "with",
)
# fmt: on
