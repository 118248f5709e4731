"""Api: the REST calls that an app makes, with the waiting that an app does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tests.waiting import eventually

EVERY_QUESTION: Mapping[str, Any] = {
    "relaySampling": True,
    "relayRoots": True,
    "consent": {"elicitation": True, "sampling": True, "roots": True},
}
"""Fields of a server whose every question is let through to whoever can answer it."""
SETTLED = {"connected", "error", "authRequired", "disconnected"}


@dataclass(frozen=True, slots=True)
class Api:
    """One credential's view of a running hub."""

    http: httpx.Client

    def add_server(self, slug: str, url: str, **fields: Any) -> Mapping[str, Any]:
        body = {"id": slug, "name": slug, "url": url, "auth": {"type": "none"}, **fields}
        response = self.http.post("/api/v1/servers", json=body)
        assert response.status_code == 201, response.text
        server: dict[str, Any] = response.json()
        return server

    def server(self, slug: str) -> Mapping[str, Any]:
        response = self.http.get(f"/api/v1/servers/{slug}")
        assert response.status_code == 200, response.text
        server: dict[str, Any] = response.json()
        return server

    def connect(
        self, slug: str, *, seconds: float = 30.0, consent: Mapping[str, bool] | None = None
    ) -> Mapping[str, Any]:
        """Connect and return the server object when its state has settled."""
        body = {} if consent is None else {"consent": consent}
        response = self.http.post(f"/api/v1/servers/{slug}/connect", json=body)
        assert response.status_code in {200, 202}, response.text

        def settled() -> Mapping[str, Any] | None:
            server = self.server(slug)
            return server if server["connectionState"] in SETTLED else None

        found = eventually(settled, seconds, f"{slug} settles")
        assert found is not None
        return found

    def connected(self, slug: str, url: str, **fields: Any) -> Mapping[str, Any]:
        """Add a server, connect it, and return it connected."""
        consent = fields.pop("consent", None)
        self.add_server(slug, url, **fields)
        server = self.connect(slug, consent=consent)
        assert server["connectionState"] == "connected", server["lastError"]
        return server

    def call(
        self, slug: str, tool: str, arguments: Mapping[str, Any] | None = None, **fields: Any
    ) -> httpx.Response:
        headers = fields.pop("headers", None)
        return self.http.post(
            f"/api/v1/servers/{slug}/tools/{tool}/call",
            json={"arguments": arguments or {}, **fields},
            headers=headers,
        )

    def text(self, slug: str, tool: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Call a tool that must succeed, return its first text."""
        response = self.call(slug, tool, arguments)
        assert response.status_code == 200, response.text
        text: str = response.json()["content"][0]["text"]
        return text

    def get(self, path: str, **params: Any) -> Any:
        response = self.http.get(f"/api/v1{path}", params=params)
        assert response.status_code == 200, response.text
        return response.json()
