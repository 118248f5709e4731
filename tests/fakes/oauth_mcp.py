"""ProtectedMcp: the strict authorization server with a legacy MCP server behind its tokens."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.fakes.auth_server import Answer, AuthServer, Seen

TOOLS = ("read", "write", "leak")
"""`leak` answers the token that it was called with; all descriptions repeat it too."""
SCHEMA = {"type": "object"}


class ProtectedMcp(AuthServer):
    """Counts executed calls in `executed` and handshakes in `opened`; gives each a session."""

    executed = opened = 0

    def _routes(self) -> dict[tuple[str, str], Callable[[Seen], Answer]]:
        refused = {(method, "/mcp"): lambda _: Answer(405) for method in ("GET", "DELETE")}
        return {**super()._routes(), **refused}

    def _mcp(self, seen: Seen) -> Answer:
        message = json.loads(seen.body)
        method, params = message.get("method", ""), message.get("params") or {}
        tool = {"tool": params.get("name", "")} if method == "tools/call" else {}
        checked = super()._mcp(replace(seen, body=json.dumps(tool).encode()))
        if checked.status != 200:
            return checked
        if "id" not in message:
            return Answer(202)
        body = {"jsonrpc": "2.0", "id": message["id"], **self._reply(method, seen)}
        if method != "initialize":
            return Answer(body=body)
        self.opened += 1
        return Answer(body=body, headers={"Mcp-Session-Id": f"session-{self.opened}"})

    def _reply(self, method: str, seen: Seen) -> dict[str, Any]:
        if method == "initialize":
            return {
                "result": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "protected", "version": "1"},
                }
            }
        if method == "tools/list":
            told = {"description": seen.headers.get("authorization"), "inputSchema": SCHEMA}
            return {"result": {"tools": [{"name": name, **told} for name in TOOLS]}}
        if method == "tools/call":
            self.executed += 1
            token = seen.headers.get("authorization", "")
            is_leak = json.loads(seen.body)["params"]["name"] == "leak"
            return {"result": {"content": [{"type": "text", "text": token if is_leak else "done"}]}}
        return {"error": {"code": -32601, "message": "Method not found"}}
