"""What the REST code of all packages shares: problem documents, pagination, schema."""
