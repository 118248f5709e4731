"""What happened, redacted: every JSON-RPC message, and the live events about it."""
