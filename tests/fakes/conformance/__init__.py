"""The server that the official suite calls by its own names, both eras."""
