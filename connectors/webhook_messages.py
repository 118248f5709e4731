"""What a tenant's webhook hears of a connection: its state and forecast, without any secret.

Neither addresses to sign in at, which are the member's own, nor texts of servers are in it.
"""

from __future__ import annotations

from typing import cast

from connectors.event_types import ServerPayload
from connectors.models import Connection
from mcphub.core.types import JSONObject
from oauth.names import Change
from tenants.webhooks.outbox import Message

UPDATED = "connection.updated"
STATE = "state"
ERROR_MEMBERS = ("code", "reason", "retryable")
AUTH_MEMBERS = ("type", "hasCredentials", "grantedScopes", "issuer", "expiresAt", "forecast")


def of_state(row: Connection, server: ServerPayload) -> Message:
    """Return the message for a connection as it is now."""
    return _message(row, server, STATE)


def of_change(row: Connection, server: ServerPayload, change: Change) -> Message:
    """Return the message for what has become of an authorization, or is about to."""
    return _message(row, server, change.value)


def _message(row: Connection, server: ServerPayload, change: str) -> Message:
    error = server["lastError"]
    data: JSONObject = {
        "connection": str(row.pk),
        "member": {"id": str(row.member_id), "externalId": row.member.external_id},
        "server": server["id"],
        "name": server["name"],
        "connector": server["connector"],
        "connectionState": server["connectionState"],
        "nextAction": server["nextAction"],
        "lastError": _only(error, ERROR_MEMBERS) if error else None,
        "auth": _only(server["auth"], AUTH_MEMBERS),
    }
    return Message(type=UPDATED, data=data, subject=row.pk, change=change)


def _only(value: JSONObject, names: tuple[str, ...]) -> JSONObject:
    return cast("JSONObject", {name: value[name] for name in names if name in value})
