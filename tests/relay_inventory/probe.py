"""What is measured: one row of the inventory, its meaning and where it applies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay.content import TASKS_EXTENSION, UI_EXTENSION, VIEW_TYPE
from tests.relay_inventory.route import Route

Measure = Callable[[Route], Awaitable[JSONValue]]
BOTH = frozenset({"legacy", "modern"})
LEGACY = frozenset({"legacy"})
UI: JSONObject = {UI_EXTENSION: {"mimeTypes": [VIEW_TYPE]}}
ASKABLE: JSONObject = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {"listChanged": True},
}
CAPABLE: Mapping[str, JSONObject] = {
    "legacy": {**ASKABLE, "extensions": UI},
    "modern": {**ASKABLE, "extensions": {**UI, TASKS_EXTENSION: {}}},
}
"""What a client of each era offers when it offers everything."""
ANSWERS: dict[str, JSONObject] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada", "size": "s"}},
    "sampling/createMessage": {
        "role": "assistant",
        "model": "m-1",
        "stopReason": "endTurn",
        "content": {"type": "text", "text": "Hello."},
        "_meta": {"vendor.example/cost": None},
    },
    "roots/list": {"roots": [{"uri": "file:///work", "name": "Work", "_meta": {"v": None}}]},
}


class NotSeenError(Exception):
    """What is measured does not happen at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One row."""

    name: str
    group: str
    measure: Measure
    does: str
    """What a client should see, and what the hub does for it."""
    clients: frozenset[str] = BOTH
    servers: frozenset[str] = BOTH
    in_aggregate: bool = True
    is_offering: bool = True
    """Whether the client offers everything that a client can offer."""

    def applies(self, client_era: str, server_era: str, *, is_aggregate: bool) -> bool:
        has_both = client_era in self.clients and server_era in self.servers
        return has_both and (self.in_aggregate or not is_aggregate)


def answered(method: str, params: JSONObject) -> JSONObject:
    """Answer a question the same way every time."""
    if params.get("mode") == "url":
        return {"action": "accept"}
    return ANSWERS[method]
