"""ServerSpec: what both kinds of server (preset and custom) reduce to before anything is opened."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mcphub.core.crypto import Secret
from mcphub.core.types import JSONObject
from oauth.server_auth import ServerAuth


class Transport(StrEnum):
    """How to reach a server; `auto` is Streamable HTTP with the SSE fallback rule."""

    AUTO = "auto"
    STREAMABLE_HTTP = "streamable-http"
    SSE = "sse"
    STDIO = "stdio"


class Era(StrEnum):
    """Spec terms: handshake-based (≤ 2025-11-25) or per-request metadata (2026-07-28)."""

    LEGACY = "legacy"
    MODERN = "modern"


class AuthType(StrEnum):
    NONE = "none"
    BEARER = "bearer"
    HEADERS = "headers"
    OAUTH = "oauth"


class Relay(StrEnum):
    """A capability of clients that a server's switches turn on."""

    ELICITATION = "elicitation"
    ROOTS = "roots"
    SAMPLING = "sampling"


CAPABILITIES: Mapping[Relay, JSONObject] = {
    Relay.ELICITATION: {"form": {}, "url": {}},
    Relay.ROOTS: {"listChanged": True},
    Relay.SAMPLING: {"tools": {}},
}


def declared_per_request(capabilities: JSONObject) -> JSONObject:
    """Return what 2026-07-28 can declare of these: there nobody says that roots have changed."""
    return {**capabilities, "roots": {}} if "roots" in capabilities else capabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session of the handshake era that an earlier holder opened and did not end."""

    session_id: str = field(repr=False)
    protocol_version: str
    server_info: JSONObject
    capabilities: JSONObject
    instructions: str
    fingerprint: str
    """Of what it was opened with: address, headers, declared capabilities."""
    holders: int = 1
    """How many have held it: each counts its requests from a number of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """Everything the session host needs to open one session; seconds for every duration."""

    connection_id: uuid.UUID
    tenant_id: uuid.UUID
    member_id: uuid.UUID
    slug: str
    url: str
    transport: Transport = Transport.AUTO
    command: tuple[str, ...] = ()
    environment: Mapping[str, Secret] = field(default_factory=dict)
    headers: Mapping[str, Secret] = field(default_factory=dict)
    oauth: ServerAuth | None = None
    """Set when requests carry the token of a grant."""
    tokens: list[str] = field(default_factory=list, repr=False, compare=False)
    """The last ones that this session has sent: secrets that its server may repeat."""
    era_hint: Era | None = None
    """Era that was detected before; re-checked when it fails."""
    connect_timeout: float = 10.0
    call_timeout: float = 60.0
    relays: frozenset[Relay] = frozenset()
    """Which requests of the server the hub takes to the member or the app."""
    stored_session: StoredSession | None = None

    @property
    def client_capabilities(self) -> JSONObject:
        """What is declared to the server: what can be answered, and nothing else."""
        return {relay.value: dict(CAPABILITIES[relay]) for relay in sorted(self.relays)}
