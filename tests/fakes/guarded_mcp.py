"""GuardedMcp: an MCP server whose tokens somebody else's authorization server gives and checks."""

from __future__ import annotations

import httpx

from tests.fakes.oauth_mcp import ProtectedMcp

RESOURCE_SERVER = ("resource-server", "of-the-test")
"""The client as which it looks tokens up (RFC 7662)."""


class GuardedMcp(ProtectedMcp):
    """`issuer` and `introspection` are set once the authorization server runs."""

    external_issuer = introspection = ""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        """Tokens that are refused although they are good."""
        self.given: list[str] = []
        """Good tokens, in the order in which they were seen first."""

    @property
    def issuer(self) -> str:
        return self.external_issuer

    def scope_of(self, token: str) -> str | None:
        scope = self.looked_up(token) if token and token not in self.refused else None
        if scope is not None and token not in self.given:
            self.given.append(token)
        return scope

    def looked_up(self, token: str) -> str | None:
        """Ask the authorization server; None: the token is good for nothing."""
        answer = httpx.post(
            self.introspection, data={"token": token}, auth=RESOURCE_SERVER, trust_env=False
        ).json()
        return str(answer.get("scope", "")) if answer["active"] else None
