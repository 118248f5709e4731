"""A small MCP server to try the hub with: one of every kind of thing that a server can offer."""
