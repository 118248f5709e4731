"""Relay: what passes between the server of a call and the downstream client that made it (pure).

A call by REST has none: what its server may ask goes to the inbox, what it says goes to events.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from connectors.server_spec import CAPABILITIES, Era, declared_per_request
from mcphub.core.errors import InvalidInputError
from mcphub.core.types import JSONObject, JSONValue

CAPABILITY_BYTES = 16 << 10
EXTENSIONS = ("io.modelcontextprotocol/tasks", "io.modelcontextprotocol/ui")
"""Extensions that the hub relays by leaving their messages as they are."""

OnNotification = Callable[[str, JSONObject], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayTerms:
    """How much of one call is relayed."""

    client_capabilities: JSONObject | None = None
    """What this client declared, as far as it can be asked. None: as by REST, the inbox answers."""
    log_level: str = ""
    """From which level on this client wants log messages of the call; "": says nothing of it."""
    on_notification: OnNotification | None = field(default=None, repr=False)
    """Told on this process's loop, in order, what the server says during the call; returns at once.

    Params are the server's own: the progress token in them is the hub's.
    """
    on_dropped: Callable[[int], None] | None = field(default=None, repr=False)
    """Told how many notifications were lost in between, since there were too many."""


def stored(terms: RelayTerms | None) -> JSONObject | None:
    """Return what the worker has to know, for the call's row. Raises InvalidInputError."""
    if terms is None:
        return None
    offered = terms.client_capabilities
    kept = None if offered is None else _relayable(offered)
    if kept is not None and len(json.dumps(kept)) > CAPABILITY_BYTES:
        raise InvalidInputError(
            "The client's capabilities are too large.", code="arguments_too_large"
        )
    told = terms.on_notification is not None
    return {"capabilities": kept, "isTold": told, "logLevel": terms.log_level}


def is_told(relay: JSONObject | None) -> bool:
    """Whether somebody wants to know what the server says during the call."""
    return relay is not None and relay["isTold"] is True


def log_level(relay: JSONObject | None) -> str:
    """Return the level that the client of a call wishes for its duration; "": none."""
    return str(relay.get("logLevel", "")) if relay is not None else ""


def declared(of_session: JSONObject, era: Era, relay: JSONObject | None) -> JSONObject:
    """Return what the server of a call may ask: what its session declares, and this client can.

    A session of the handshake era has said what it declares before, so the inbox answers the rest.
    """
    if era is Era.LEGACY:
        return of_session
    declared_here = declared_per_request(of_session)
    offered = relay["capabilities"] if relay is not None else None
    if not isinstance(offered, dict):
        return declared_here
    common: JSONObject = {}
    for name, modes in declared_here.items():
        wanted = offered.get(name)
        if isinstance(modes, dict) and isinstance(wanted, dict):
            kept = {mode: wanted[mode] for mode in modes if mode in wanted}
            if kept or not modes or name == "sampling":
                common[name] = kept
    if extensions := offered.get("extensions"):
        common["extensions"] = extensions
    return common


def _relayable(offered: JSONObject) -> JSONObject:
    """Leave out what the hub does not relay; `elicitation` without a mode means forms."""
    kept: JSONObject = {}
    for relay in CAPABILITIES:
        settings = offered.get(relay.value)
        if isinstance(settings, dict):
            kept[relay.value] = settings
    if kept.get("elicitation") == {}:
        kept["elicitation"] = {"form": {}}
    extensions = _extensions(offered.get("extensions"))
    if extensions:
        kept["extensions"] = extensions
    return kept


def _extensions(offered: JSONValue) -> JSONObject:
    if not isinstance(offered, dict):
        return {}
    return {name: offered[name] for name in EXTENSIONS if isinstance(offered.get(name), dict)}
