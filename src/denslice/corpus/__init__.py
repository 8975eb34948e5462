"""Files in and out: documents, queries and ready vectors in; runs and judgements in and out."""
