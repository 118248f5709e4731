"""The table that test_tenancy_walk holds the URLconf to: one entry per route below /api/v1."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from connectors.services import browser_storage
from mcphub.core.clock import now
from mcphub.core.types import JSONObject
from tenants.models import ApiKey
from tests import factories
from tests.connectors import server_factories
from tests.gateway.login import client_logins
from tests.world import Person
from tracing.models import Direction, MessageType, TraceEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the walk sends: `gated` are the methods that answer 404 for a stranger's object."""

    methods: str
    gated: str = ""
    body: JSONObject = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    is_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """Ids of somebody's objects by the name that they have in routes."""

    by_member: dict[str, str]
    """Objects of one member: strangers are all others, of the same tenant too."""
    by_tenant: dict[str, str]
    """Objects of the tenant: strangers are all other tenants."""

    @property
    def ids(self) -> dict[str, str]:
        return self.by_member | self.by_tenant


FIXED = {"tool": "search"}
"""Parts of a route that belong to no row of their own."""

UNKNOWN = {
    "server": "no-such-server",
    "connector": "no-such-connector",
    "server_id": "no-such-record",
    "session_id": f"cs_{uuid.uuid4().hex}",
    **{
        name: str(uuid.uuid4())
        for name in (
            "call_id",
            "trace_id",
            "member_id",
            "api_key_id",
            "input_id",
            "elicitation_id",
            "login_id",
        )
    },
}

PUBLIC = {"problems", "schema"}
"""Routes that anybody may read: documentation."""

ROUTES: dict[str, Entry] = {
    "problems": Entry(methods="GET"),
    "schema": Entry(methods="GET"),
    # --- tenants -------------------------------------------------------------------------------
    "tenants/current": Entry(methods="GET PATCH"),
    "tenants/current/webhook": Entry(methods="GET PUT DELETE"),
    "tenants/current/webhook/rotate": Entry(methods="POST"),
    "tenants/current/webhook/test": Entry(methods="POST"),
    "tenants/current/webhook/deliveries": Entry(methods="GET"),
    "members": Entry(methods="GET POST"),
    "members/<str:member_id>": Entry(methods="GET PATCH DELETE"),
    "api-keys": Entry(methods="GET POST"),
    "api-keys/<str:api_key_id>": Entry(methods="GET DELETE"),
    "api-keys/<str:api_key_id>/rotate": Entry(methods="POST"),
    "connect-sessions": Entry(methods="POST"),
    "connect-sessions/<str:session_id>": Entry(methods="DELETE"),
    "ws-tickets": Entry(methods="POST"),
    "usage": Entry(methods="GET"),
    # --- tracing -------------------------------------------------------------------------------
    "events": Entry(methods="GET", is_stream=True),
    "traces": Entry(methods="GET"),
    "traces/export": Entry(methods="GET"),
    "traces/<str:trace_id>": Entry(methods="GET"),
    # --- connectors ----------------------------------------------------------------------------
    "servers": Entry(methods="GET POST"),
    "servers/<str:server>": Entry(methods="GET PATCH DELETE"),
    "servers/<str:server>/connect": Entry(methods="POST"),
    "servers/<str:server>/diagnose": Entry(methods="POST"),
    "servers/<str:server>/ping": Entry(methods="POST"),
    "servers/<str:server>/logging-level": Entry(methods="POST", body={"level": "debug"}),
    "servers/<str:server>/disconnect": Entry(methods="POST"),
    "servers/<str:server>/complete-auth": Entry(
        methods="POST", body={"callbackUrl": "https://hub.example/callback?code=1"}
    ),
    "servers/<str:server>/connections": Entry(methods="POST", body={"name": "Second"}),
    "servers/<str:server>/timeline": Entry(methods="GET"),
    "servers/<str:server>/tools": Entry(methods="GET"),
    "servers/<str:server>/tools/<path:tool>": Entry(methods="PATCH", body={"enabled": False}),
    "servers/<str:server>/tools/<path:tool>/approve": Entry(
        methods="POST", body={"digest": "0" * 64}
    ),
    "servers/<str:server>/tools/<path:tool>/call": Entry(methods="POST", body={"arguments": {}}),
    "servers/<str:server>/resources": Entry(methods="GET"),
    "servers/<str:server>/resource-templates": Entry(methods="GET"),
    "servers/<str:server>/prompts": Entry(methods="GET"),
    "servers/<str:server>/resources/read": Entry(methods="POST", body={"uri": "file:///a"}),
    "servers/<str:server>/prompts/get": Entry(methods="POST", body={"name": "p"}),
    "servers/<str:server>/complete": Entry(
        methods="POST",
        body={
            "ref": {"type": "ref/prompt", "name": "p"},
            "argument": {"name": "a", "value": "v"},
        },
    ),
    "calls": Entry(methods="GET"),
    "calls/<str:call_id>": Entry(methods="GET"),
    "calls/<str:call_id>/cancel": Entry(methods="POST"),
    "calls/<str:call_id>/inputs/<str:input_id>": Entry(methods="POST", body={"action": "cancel"}),
    "elicitations": Entry(methods="GET"),
    "elicitations/<str:elicitation_id>": Entry(methods="POST", body={"action": "cancel"}),
    "tool-calls": Entry(methods="POST"),
    "tool-calls/batch": Entry(methods="POST"),
    "tools": Entry(methods="GET"),
    "tool-changes": Entry(methods="GET"),
    "connectors": Entry(methods="GET POST"),
    "connectors/<str:connector>": Entry(methods="GET PATCH DELETE"),
    # --- gateway -------------------------------------------------------------------------------
    "gateway/inventory": Entry(methods="GET"),
    "client-logins": Entry(methods="GET"),
    "client-logins/<str:login_id>": Entry(methods="DELETE"),
    # --- react-mcp -----------------------------------------------------------------------------
    "react-mcp/custom-servers": Entry(methods="GET PUT"),
    "react-mcp/auth/<str:server_id>": Entry(methods="GET PUT DELETE", gated="GET DELETE"),
}


def make_theirs(person: Person) -> Theirs:
    """Make one object of each kind; `person` is an admin of the tenant."""
    connection = server_factories.make_connected(person, factories.unique("own")[:24])
    call = server_factories.make_call(person, connection)
    question = server_factories.make_input(person, connection, call_id=call.pk)
    connector = server_factories.make_connector(factories.unique("tc")[:24], tenant=person.tenant)
    record = factories.unique("record")
    browser_storage.save(
        person.principal,
        browser_storage.auth_key(record),
        {"token": "t"},
        if_match=browser_storage.ABSENT,
    )
    session = factories.make_connect_session(person.member)
    key = ApiKey.unscoped.filter(member=person.member).latest("pk")
    return Theirs(
        by_member={
            "server": connection.slug,
            "call_id": str(call.pk),
            "trace_id": str(make_trace(person, connection.pk, connection.slug).pk),
            "server_id": record,
            "input_id": str(question.pk),
            "elicitation_id": str(question.pk),
            "login_id": str(client_logins.make_login(person).pk),
        },
        by_tenant={
            "member_id": str(person.member.pk),
            "api_key_id": str(key.pk),
            "session_id": f"cs_{session.session.pk.hex}",
            "connector": connector.slug,
        },
    )


def make_trace(person: Person, connection_id: uuid.UUID, server: str) -> TraceEvent:
    text = '{"jsonrpc":"2.0","method":"ping"}'
    return TraceEvent.unscoped.create(
        tenant=person.tenant,
        member_id=person.member.pk,
        connection_id=connection_id,
        server=server,
        seq=1,
        at=now(),
        direction=Direction.SENT,
        type=MessageType.NOTIFICATION,
        method="ping",
        content=text,
        size=len(text),
    )
