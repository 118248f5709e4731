"""What all REST code shares: problem documents, pages, headers, schema."""
