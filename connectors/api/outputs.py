"""What the endpoints of connectors answer: the documented shapes, and the objects themselves.

Objects of upstream servers keep every field they came with; the shapes name what is promised.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, cast

from rest_framework import serializers

from connectors import events, selectors
from connectors.api.inputs import AUTH_TYPES, DEFINITION_POLICIES
from connectors.api.tool_outputs import SourceRefOutput, ToolOutput
from connectors.models import CatalogListing, Connector, TimelineEntry, ToolCall
from connectors.selectors import ServerView, SourceOutcome
from connectors.states import State
from mcphub.api.serializers import Output
from mcphub.core import broadcast
from mcphub.core.event_stream import EventGroup
from mcphub.core.types import JSONObject
from tenants.principal import Principal

JSON = serializers.JSONField
TEXT = serializers.CharField


class ForecastOutput(Output):
    will_refresh_at = serializers.DateTimeField(allow_null=True)
    can_refresh = serializers.BooleanField()
    ends_at = serializers.DateTimeField(
        allow_null=True, help_text="When a person is needed, as far as is known."
    )
    reason = TEXT(allow_null=True, help_text="Why it cannot refresh, or why it waits.")


class AuthorizationRequestOutput(Output):
    """What the member will be asked to allow at `authorizationUrl`, to be shown before."""

    issuer = TEXT()
    scopes = serializers.ListField(child=TEXT())
    expires_at = serializers.DateTimeField()


class ServerAuthOutput(Output):
    """The members after `scopes` are there for `oauth` only."""

    type = serializers.ChoiceField(choices=AUTH_TYPES)
    has_credentials = serializers.BooleanField()
    header_names = serializers.ListField(child=TEXT())
    scopes = serializers.ListField(child=TEXT())
    granted_scopes = serializers.ListField(child=TEXT(), required=False)
    signed_in_as = TEXT(allow_null=True, required=False)
    issuer = TEXT(allow_null=True, required=False)
    expires_at = serializers.DateTimeField(allow_null=True, required=False)
    forecast = ForecastOutput(allow_null=True, required=False)
    authorization_request = AuthorizationRequestOutput(allow_null=True, required=False)


class LastErrorOutput(Output):
    message = TEXT()
    code = TEXT()
    retryable = serializers.BooleanField()
    hint = TEXT(required=False, allow_null=True)


class ElicitationErrorOutput(Output):
    message = TEXT()
    properties = serializers.DictField(child=TEXT(), required=False)


class ElicitationOutput(Output):
    """A question of a server; message, schema and address are the server's own."""

    id = TEXT()
    server = TEXT()
    call_id = TEXT(allow_null=True)
    kind = serializers.ChoiceField(choices=["form", "url", "sampling", "roots"])
    state = TEXT(help_text="open, answered, declined, cancelled or expired.")
    message = TEXT()
    requested_schema = JSON(allow_null=True)
    url = TEXT(allow_null=True, help_text="Open it only when the member says so.")
    host = TEXT(allow_null=True, help_text="Of the address, in the form that is looked up.")
    params = JSON(allow_null=True, help_text="Of a sampling or roots request.")
    error = ElicitationErrorOutput(allow_null=True)
    is_consented = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class RelayOutput(Output):
    offered = serializers.BooleanField(help_text="The switch of the server.")
    consented = serializers.BooleanField(help_text="The member lets such requests through.")


class RelaysOutput(Output):
    """What a server may ask; it is declared to the server where both hold."""

    elicitation = RelayOutput()
    sampling = RelayOutput()
    roots = RelayOutput()


class ServerOutput(Output):
    """A superset of react-mcp's server state."""

    id = TEXT()
    kind = serializers.ChoiceField(choices=["connector", "custom"])
    connector = TEXT(allow_null=True, help_text="Id of the preset that this is a connection to.")
    name = TEXT()
    url = TEXT()
    icon = TEXT(allow_null=True)
    connection_state = serializers.ChoiceField(choices=[state.wire for state in State])
    next_action = serializers.ChoiceField(
        choices=["authorize", "reconnect", "answer_input"], allow_null=True
    )
    last_error = LastErrorOutput(allow_null=True)
    tools = ToolOutput(many=True)
    authorization_url = TEXT(allow_null=True)
    pending_elicitations = ElicitationOutput(many=True)
    auth = ServerAuthOutput()
    transport = TEXT()
    protocol_version = TEXT(allow_null=True)
    server_info = serializers.DictField()
    capabilities = serializers.DictField()
    instructions = TEXT(allow_null=True)
    connection_timeout = serializers.IntegerField(help_text="Milliseconds.")
    elicitation = serializers.BooleanField()
    relays = RelaysOutput()
    definition_policy = serializers.ChoiceField(choices=DEFINITION_POLICIES)
    attempt = serializers.IntegerField()
    next_retry_at = serializers.DateTimeField(allow_null=True)
    connected_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    catalog_version = serializers.IntegerField()
    seq = serializers.IntegerField(help_text="Events up to this number are in the object.")


class TimelineOutput(Output):
    id = TEXT()
    at = serializers.DateTimeField()
    kind = TEXT()
    detail = serializers.DictField()


class CallProblemOutput(Output):
    code = TEXT()
    detail = TEXT()


class CallOutput(Output):
    id = TEXT()
    server = TEXT()
    method = TEXT()
    target = TEXT()
    status = TEXT()
    attempt = serializers.IntegerField()
    is_tool_error = serializers.BooleanField()
    problem = CallProblemOutput(allow_null=True)
    delivery = serializers.ChoiceField(
        choices=["not_sent", "answered", "outcome_unknown"], allow_null=True
    )
    progress = serializers.DictField(allow_null=True)
    timeout_ms = serializers.IntegerField()
    is_cancel_requested = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    sent_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)


class SourceOutput(Output):
    """How one server contributed to the list."""

    server_id = TEXT()
    connection_state = TEXT()
    tool_count = serializers.IntegerField()
    error = serializers.DictField(allow_null=True)
    problems = serializers.ListField(child=JSON())
    fetched_at = serializers.DateTimeField(allow_null=True)


class DroppedOutput(Output):
    server_id = TEXT()
    name = TEXT()
    reason = TEXT()


class ToolsOutput(Output):
    """`format`, `index`, `dropped` and `etag` are there when a format was asked for."""

    tools = serializers.ListField(child=JSON())
    sources = SourceOutput(many=True)
    format = TEXT(required=False)
    index = serializers.DictField(child=SourceRefOutput(), required=False)
    dropped = DroppedOutput(many=True, required=False)
    etag = TEXT(required=False)


class PresetAuthOutput(Output):
    type = serializers.ChoiceField(choices=AUTH_TYPES)
    scopes = serializers.ListField(child=TEXT(), required=False)


class PresetOutput(Output):
    """A preset in the shape that react-mcp's `defineConnector` takes."""

    id = TEXT()
    name = TEXT()
    url = TEXT()
    auth = PresetAuthOutput()
    icon = TEXT(required=False)
    connection_timeout = serializers.IntegerField()
    elicitation = serializers.BooleanField()


class ConnectorOutput(Output):
    """A preset as a tenant's admins manage it; secrets are write-only."""

    id = TEXT()
    name = TEXT()
    url = TEXT()
    description = TEXT()
    icon = TEXT()
    auth = serializers.DictField()
    transport = TEXT()
    scope = serializers.ChoiceField(choices=["global", "tenant"])
    has_secrets = serializers.BooleanField()
    enabled = serializers.BooleanField()
    order = serializers.IntegerField()
    connection_timeout = serializers.IntegerField()
    call_timeout = serializers.IntegerField()
    auto_reconnect = serializers.BooleanField()
    elicitation = serializers.BooleanField()
    definition_policy = serializers.ChoiceField(choices=DEFINITION_POLICIES)
    relay_sampling = serializers.BooleanField()
    relay_roots = serializers.BooleanField()
    may_replay_reads = serializers.BooleanField()
    created_at = serializers.DateTimeField()


def seq_of(principal: Principal) -> int:
    """Return the number of the newest event; read it before the objects it is put on."""
    return broadcast.current_seq(EventGroup.of(principal))


def server(view: ServerView, seq: int) -> JSONObject:
    return {**cast("JSONObject", events.server_payload(view)), "seq": seq}


def etag_of(value: Any) -> str:
    """Return a strong ETag of an answer, from its content."""
    text = json.dumps(value, sort_keys=True, default=str)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def timeline(row: TimelineEntry) -> JSONObject:
    return {"id": str(row.pk), "at": row.at.isoformat(), "kind": row.kind, "detail": row.detail}


def call(row: ToolCall) -> JSONObject:
    """Return a call without its outcome."""
    return {
        **cast("JSONObject", events.call_payload(events.CallNotice.of(row))),
        "delivery": delivery_of(row),
        "progress": row.progress,
        "timeoutMs": row.timeout_ms,
        "isCancelRequested": row.is_cancel_requested,
        "createdAt": row.created_at.isoformat(),
        "sentAt": row.sent_at.isoformat() if row.sent_at else None,
        "finishedAt": row.finished_at.isoformat() if row.finished_at else None,
    }


def delivery_of(row: ToolCall) -> str | None:
    """Say what is known about the request's way to the server; None while the call is open."""
    if row.finished_at is None:
        return None
    if row.status == "outcome_unknown":
        return "outcome_unknown"
    if row.sent_at is None:
        return "not_sent"
    is_answered = row.status == "succeeded" or row.problem_code == "protocol_error"
    return "answered" if is_answered else "outcome_unknown"


def source(outcome: SourceOutcome) -> JSONObject:
    return {
        "serverId": outcome.server,
        "connectionState": outcome.state.wire,
        "toolCount": outcome.tool_count,
        "error": outcome.error,
        "problems": list(outcome.problems),
        "fetchedAt": outcome.fetched_at.isoformat() if outcome.fetched_at else None,
    }


def listing(key: str, items: list[JSONObject], row: CatalogListing | None) -> JSONObject:
    """Return an MCP list result with what the hub knows of it."""
    return {
        key: [*items],
        "problems": row.problems if row else [],
        "isComplete": row.is_complete if row else False,
        "error": row.error if row else None,
        "ttlMs": row.ttl_ms if row else None,
        "fetchedAt": row.fetched_at.isoformat() if row else None,
    }


def preset(row: Connector) -> JSONObject:
    view = selectors.preset_url(row)
    auth: JSONObject = {"type": row.auth_type}
    _, scopes = selectors.auth_lists(row)
    if scopes:
        auth["scopes"] = [*scopes]
    made: JSONObject = {
        "id": row.slug,
        "name": row.name,
        "url": view,
        "auth": auth,
        "connectionTimeout": round(row.connect_timeout * 1000),
        "elicitation": row.relay_elicitation,
    }
    return {**made, "icon": row.icon} if row.icon else made


def connector(row: Connector, principal: Principal) -> JSONObject:
    is_own, is_object = row.tenant_id == principal.tenant_id, isinstance(row.auth_config, dict)
    return {
        "id": row.slug,
        "name": row.name,
        "url": row.url if is_own else selectors.preset_url(row),
        "description": row.description,
        "icon": row.icon,
        "auth": {**(row.auth_config if is_object else {}), "type": row.auth_type},
        "transport": row.transport,
        "scope": "tenant" if is_own else "global",
        "hasSecrets": row.sealed_secrets is not None,
        "enabled": row.is_enabled,
        "order": row.order,
        "connectionTimeout": round(row.connect_timeout * 1000),
        "callTimeout": round(row.call_timeout * 1000),
        "autoReconnect": row.auto_reconnect,
        "elicitation": row.relay_elicitation,
        "definitionPolicy": row.definition_policy,
        "relaySampling": row.relay_sampling,
        "relayRoots": row.relay_roots,
        "mayReplayReads": row.may_replay_reads,
        "createdAt": row.created_at.isoformat(),
    }
