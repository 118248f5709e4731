"""The table of what the hub relays from end to end, by the eras of server and client.

`capabilities` decides by nothing else. A row belongs here once the gateway does it and a test of
the relay shows it; what servers or clients declare beyond it is not passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from mcp_types.version import OLDEST_SUPPORTED_VERSION

from connectors.server_spec import Era, Relay
from connectors.started_tasks import TASKS_EXTENSION

UI_EXTENSION = "io.modelcontextprotocol/ui"
TASKS_SINCE = "2025-11-25"
ELICITATION_SINCE = "2025-06-18"

Path: TypeAlias = tuple[str, ...]
Pair: TypeAlias = tuple[Era, Era]
"""Era of the server, era of the client."""

EVERY_PAIR: frozenset[Pair] = frozenset((one, other) for one in Era for other in Era)
HANDSHAKE_ONLY: frozenset[Pair] = frozenset({(Era.LEGACY, Era.LEGACY)})
MODERN_ONLY: frozenset[Pair] = frozenset({(Era.MODERN, Era.MODERN)})
TO_MODERN_SERVERS: frozenset[Pair] = frozenset({(Era.MODERN, era) for era in Era})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One capability that is relayed; `since` is the first revision of clients that knows it."""

    pairs: frozenset[Pair] = EVERY_PAIR
    since: str = OLDEST_SUPPORTED_VERSION
    is_flag: bool = False
    relay: Relay | None = None
    """The switch of the server that a capability of clients needs."""


SERVER_KINDS: Mapping[Path, Kind] = {
    ("tools",): Kind(),
    ("tools", "listChanged"): Kind(is_flag=True),
    ("resources",): Kind(),
    ("resources", "subscribe"): Kind(is_flag=True),
    ("resources", "listChanged"): Kind(is_flag=True),
    ("prompts",): Kind(),
    ("prompts", "listChanged"): Kind(is_flag=True),
    ("completions",): Kind(),
    ("logging",): Kind(),
    ("tasks",): Kind(pairs=HANDSHAKE_ONLY, since=TASKS_SINCE),
    ("tasks", "list"): Kind(pairs=HANDSHAKE_ONLY, since=TASKS_SINCE),
    ("tasks", "cancel"): Kind(pairs=HANDSHAKE_ONLY, since=TASKS_SINCE),
    ("tasks", "requests"): Kind(pairs=HANDSHAKE_ONLY, since=TASKS_SINCE),
    ("tasks", "requests", "tools"): Kind(pairs=HANDSHAKE_ONLY, since=TASKS_SINCE),
    ("tasks", "requests", "tools", "call"): Kind(pairs=HANDSHAKE_ONLY, since=TASKS_SINCE),
    ("extensions", TASKS_EXTENSION): Kind(pairs=MODERN_ONLY),
    ("extensions", UI_EXTENSION): Kind(),
}
"""What a server offers its clients."""

CLIENT_KINDS: Mapping[Path, Kind] = {
    ("elicitation",): Kind(since=ELICITATION_SINCE, relay=Relay.ELICITATION),
    ("elicitation", "form"): Kind(since=ELICITATION_SINCE, relay=Relay.ELICITATION),
    ("elicitation", "url"): Kind(since=TASKS_SINCE, relay=Relay.ELICITATION),
    ("sampling",): Kind(relay=Relay.SAMPLING),
    ("sampling", "context"): Kind(since=TASKS_SINCE, relay=Relay.SAMPLING),
    ("sampling", "tools"): Kind(since=TASKS_SINCE, relay=Relay.SAMPLING),
    ("roots",): Kind(relay=Relay.ROOTS),
    ("roots", "listChanged"): Kind(pairs=HANDSHAKE_ONLY, is_flag=True, relay=Relay.ROOTS),
    ("extensions", TASKS_EXTENSION): Kind(pairs=MODERN_ONLY),
    ("extensions", UI_EXTENSION): Kind(pairs=TO_MODERN_SERVERS),
}
"""What a client offers servers; the hub's own word to a server is never more than this."""

OPEN_GROUPS = ("extensions", "experimental")
"""Members whose members are named by whoever declares them."""
