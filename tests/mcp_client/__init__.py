"""A downstream MCP client that keeps every byte, of both eras behind one face."""
