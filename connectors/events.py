"""Event payloads of connectors and the functions that announce them (API design §7).

Every announcement waits for the commit of the transaction it is made in, is sent to the one
principal it concerns and never raises. `seq` of the envelope is stamped by `broadcast`; the server
object inside carries none. Texts of upstream servers are bounded here.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import cast

from django.db import transaction

from connectors import selectors, webhook_messages
from connectors.event_types import (
    CallFinishedEvent,
    CallLogEvent,
    CallPayload,
    CallProgressEvent,
    CallStartedEvent,
    ConnectorEvent,
    ElicitationEvent,
    InputChange,
    ServerAuthorizationEvent,
    ServerPayload,
    ToolChangedEvent,
)
from connectors.models import Connection, InputRequest, ToolCall
from connectors.server_spec import Relay, ServerSpec
from mcphub.core import broadcast
from mcphub.core.event_stream import EventGroup
from mcphub.core.types import JSONObject, JSONValue
from oauth.names import Change
from tenants.principal import MEMBER_SCOPES, Principal
from tenants.webhooks import outbox

TOOLS_BYTES = 64 << 10
"""Past this the tools are left out of a server object in an event; REST has them."""
TEXT_LENGTH = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNotice:
    """What an event tells of a call; the worker has it without reading the row again."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    member_id: uuid.UUID
    server: str
    method: str
    target: str
    status: str
    attempt: int = 0
    is_tool_error: bool = False
    problem_code: str = ""
    problem_detail: str = ""

    @classmethod
    def of(cls, call: ToolCall) -> CallNotice:
        return cls(
            id=call.pk,
            tenant_id=call.tenant_id,
            member_id=call.member_id,
            server=call.server,
            method=call.method,
            target=call.target,
            status=call.status,
            attempt=call.attempt,
            is_tool_error=call.is_tool_error,
            problem_code=call.problem_code,
            problem_detail=call.problem_detail,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChanges:
    """Upstream names; all empty when only resources or prompts changed."""

    added: Sequence[str] = ()
    changed: Sequence[str] = ()
    removed: Sequence[str] = ()
    blocked: Sequence[str] = ()
    """Of the others: those that cannot be called before somebody has approved them."""


def announce_server(connection: Connection) -> None:
    """Send `server.state` with the connection as it is stored after the commit; up to 6 queries."""

    def publish() -> None:
        owner = owner_of(connection)
        row = selectors.rows_for(owner).filter(pk=connection.pk).first()
        if row is not None:
            tools = selectors.tools_for(owner, row) if row.state == "connected" else None
            pending = selectors.pending_of(owner, [row.pk]).get(row.pk, ())
            view = replace(selectors.view_of(row), pending=pending)
            payload = server_payload(*selectors.with_authorizations(owner, [view]))
            payload["pendingElicitations"] = [question.told for question in pending]
            payload["tools"] = _small(tools)
            _publish(owner, {"type": "server.state", "server": payload})
            told = partial(webhook_messages.of_state, row, payload)
            outbox.tell_news(row.tenant_id, told)

    _after_commit(publish)


def announce_authorization(connection: Connection, change: Change) -> None:
    """Send `server.authorization` with what will happen to it; up to 3 queries."""

    def publish() -> None:
        owner = owner_of(connection)
        row = selectors.rows_for(owner).filter(pk=connection.pk).first()
        if row is not None:
            [view] = selectors.with_authorizations(owner, [selectors.view_of(row)])
            event: ServerAuthorizationEvent = {
                "type": "server.authorization",
                "id": view.slug,
                "change": change.value,
                "auth": view.auth.wire,
            }
            _publish(owner, event)
            told = partial(webhook_messages.of_change, row, server_payload(view), change)
            outbox.tell(row.tenant_id, told)

    _after_commit(publish)


def announce_server_removed(principal: Principal, slug: str) -> None:
    """Send `server.removed`."""
    _after_commit(lambda: _publish(principal, {"type": "server.removed", "id": slug}))


def announce_call_started(call: CallNotice) -> None:
    """Send `call.started`; no query."""
    event: CallStartedEvent = {"type": "call.started", "call": call_payload(call)}
    _after_commit(lambda: _publish(call, event))


def announce_call_finished(call: CallNotice) -> None:
    """Send `call.finished` without the result, which is in REST; no query."""
    event: CallFinishedEvent = {"type": "call.finished", "call": call_payload(call)}
    _after_commit(lambda: _publish(call, event))


def announce_call_parked(call: CallNotice) -> None:
    """Send `call.input_required`; no query."""
    _after_commit(
        lambda: _publish(call, {"type": "call.input_required", "call": call_payload(call)})
    )


def announce_call_resumed(call: CallNotice) -> None:
    """Send `call.resumed`; no query."""
    _after_commit(lambda: _publish(call, {"type": "call.resumed", "call": call_payload(call)}))


def announce_input(change: InputChange, row: InputRequest) -> None:
    """Send a question as it stands, and the server object that lists the open ones."""
    event: ElicitationEvent = {
        "type": change,
        "call": str(row.call_id) if row.call_id else None,
        "elicitation": selectors.input_view(row).told,
    }
    _after_commit(lambda: _publish(row.connection, event))
    announce_server(row.connection)


def announce_call_progress(call: CallNotice, params: JSONObject) -> None:
    """Send `call.progress` for the params of a progress notification; no query.

    Coalescing to 10 per second is the caller's.
    """
    message = params.get("message")
    event: CallProgressEvent = {
        "type": "call.progress",
        "id": str(call.id),
        "server": call.server,
        "progress": _number(params.get("progress")) or 0.0,
        "total": _number(params.get("total")),
        "message": message[:TEXT_LENGTH] if isinstance(message, str) else None,
    }
    _after_commit(lambda: _publish(call, event))


def announce_call_log(
    connection: selectors.ConnectionView | ServerSpec,
    params: JSONObject,
    *,
    call_id: uuid.UUID | None = None,
) -> None:
    """Send `call.log` for the params of a logging notification; no query."""
    name = params.get("logger")
    content = params.get("data")
    text = json.dumps(content)
    event: CallLogEvent = {
        "type": "call.log",
        "id": str(call_id) if call_id else None,
        "server": connection.slug,
        "level": str(params.get("level", "info"))[:20],
        "logger": name[:200] if isinstance(name, str) else None,
        "data": content if len(text) <= TEXT_LENGTH else text[:TEXT_LENGTH],
    }
    _after_commit(lambda: _publish(connection, event))


def announce_tools_changed(connection: Connection, changes: ToolChanges) -> None:
    """Send `tool.changed`; no query. `connection.catalog_version` is the new one."""
    event: ToolChangedEvent = {
        "type": "tool.changed",
        "id": connection.slug,
        "added": [name[:200] for name in changes.added],
        "changed": [name[:200] for name in changes.changed],
        "removed": [name[:200] for name in changes.removed],
        "blocked": [name[:200] for name in changes.blocked],
        "catalogVersion": connection.catalog_version,
    }
    _after_commit(lambda: _publish(connection, event))


def server_payload(view: selectors.ServerView) -> ServerPayload:
    """Return the server object of the API, with the tools of the view."""
    return {
        "id": view.slug,
        "kind": view.kind,
        "connector": view.connector,
        "name": view.name,
        "url": view.url,
        "icon": view.icon or None,
        "connectionState": view.state.wire,
        "nextAction": view.next_action,
        "lastError": view.last_error,
        "tools": [tool.wire for tool in view.tools],
        "authorizationUrl": view.authorization_url,
        "pendingElicitations": [question.wire for question in view.pending],
        "auth": view.auth.wire,
        "transport": view.transport,
        "protocolVersion": view.protocol_version or None,
        "serverInfo": view.server_info,
        "capabilities": view.capabilities,
        "instructions": view.instructions or None,
        "connectionTimeout": round(view.connect_timeout * 1000),
        "elicitation": view.relays[Relay.ELICITATION].is_offered,
        "relays": {relay.value: terms.wire for relay, terms in view.relays.items()},
        "definitionPolicy": view.definition_policy.value,
        "attempt": view.attempt,
        "nextRetryAt": _instant(view.next_retry_at),
        "connectedAt": _instant(view.connected_at),
        "createdAt": view.created_at.isoformat(),
        "catalogVersion": view.catalog_version,
    }


def call_payload(call: CallNotice) -> CallPayload:
    """Return what events and listings tell of a call."""
    problem: JSONObject | None = None
    if call.problem_code:
        problem = {"code": call.problem_code, "detail": call.problem_detail}
    return {
        "id": str(call.id),
        "server": call.server,
        "method": call.method,
        "target": call.target,
        "status": selectors.wire_status(call.status),
        "attempt": call.attempt,
        "isToolError": call.is_tool_error,
        "problem": problem,
    }


Owner = Principal | Connection | CallNotice | selectors.ConnectionView | ServerSpec


def _publish(owner: Owner, event: ConnectorEvent) -> None:
    broadcast.publish(EventGroup.of(owner), cast("JSONObject", event))


def _after_commit(publish: Callable[[], None]) -> None:
    """Run now, or when the transaction of this thread is committed; usable on an event loop too."""
    connection = transaction.get_connection()
    if connection.in_atomic_block:
        connection.on_commit(publish, robust=True)
    else:
        publish()


def owner_of(connection: Connection) -> Principal:
    return Principal(
        tenant_id=connection.tenant_id, member_id=connection.member_id, scopes=MEMBER_SCOPES
    )


def _small(tools: Sequence[selectors.ToolView] | None) -> list[JSONObject] | None:
    if tools is None:
        return None
    listed = [tool.wire for tool in tools]
    return listed if len(json.dumps(listed)) <= TOOLS_BYTES else None


def _number(value: JSONValue) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _instant(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
