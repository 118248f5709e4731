"""mcphub as one MCP server for downstream clients."""
