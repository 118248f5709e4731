"""REST as the tests of connectors speak it: requests of one person, and the server object whole."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

from django.test import Client

from tests.world import Person

SERVERS = "/api/v1/servers"


def send(client: Client, method: str, path: str, person: Person, body: Any = None) -> Any:
    call = getattr(client, method)
    content = {} if body is None else body
    return call(path, content, content_type="application/json", headers=person.headers)


def server_json(slug: str, **more: Any) -> dict[str, Any]:
    return {
        "id": slug,
        "kind": "custom",
        "connector": None,
        "name": slug.title(),
        "url": f"https://{slug}.example/mcp",
        "icon": None,
        "connectionState": "disconnected",
        "nextAction": None,
        "lastError": None,
        "tools": [],
        "authorizationUrl": None,
        "pendingElicitations": [],
        "auth": {"type": "none", "hasCredentials": False, "headerNames": [], "scopes": []},
        "transport": "auto",
        "protocolVersion": None,
        "serverInfo": {},
        "capabilities": {},
        "instructions": None,
        "connectionTimeout": 10000,
        "elicitation": True,
        "attempt": 0,
        "nextRetryAt": None,
        "connectedAt": None,
        "createdAt": ANY,
        "catalogVersion": 0,
        "seq": ANY,
        **more,
    }
