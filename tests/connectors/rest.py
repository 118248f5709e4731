"""REST as the tests of connectors speak it: requests of one person, and the server object whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import ANY

import pytest
from django.test import Client
from redis import Redis

from connectors import selectors
from connectors.api import threads
from connectors.services import settling
from tests.world import Person

SERVERS = "/api/v1/servers"


@pytest.fixture
def rest(redis: Redis) -> Iterator[None]:
    """An empty Redis and nothing remembered; the views' threads end with their connections."""
    selectors.targets.clear()
    yield
    threads.close()
    settling.close()
    selectors.targets.close()


def send(client: Client, method: str, path: str, person: Person, body: Any = None) -> Any:
    call = getattr(client, method)
    content = {} if body is None else body
    return call(path, content, content_type="application/json", headers=person.headers)


def server_json(slug: str, **more: Any) -> dict[str, Any]:
    asks = more.get("elicitation", True)
    is_own = more.get("kind", "custom") == "custom"
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
        "relays": {
            "elicitation": {"offered": asks, "consented": True},
            "sampling": {"offered": is_own, "consented": False},
            "roots": {"offered": is_own, "consented": False},
        },
        "definitionPolicy": "warn",
        "attempt": 0,
        "nextRetryAt": None,
        "connectedAt": None,
        "createdAt": ANY,
        "catalogVersion": 0,
        "seq": ANY,
        **more,
    }
