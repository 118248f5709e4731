"""Login for MCP clients: the hub as OAuth authorization server of its own `/mcp`, when switched on.

django-oauth-toolkit does the protocol; here is what is decided about it: who may register, where a
client may be sent back to, what the person is asked, and which Principal a token is.
It is never chained to the authorization server of an upstream server.
"""
