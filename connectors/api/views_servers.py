"""Servers of a member: list, add, change, remove, disconnect, further accounts."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors import selectors
from connectors.api import inputs, outputs
from connectors.models import Connection
from connectors.server_spec import AuthType, Relay
from connectors.services import connections, consents, custom_servers
from mcphub.api.serializers import camel
from mcphub.core.errors import FieldProblem, InvalidInputError
from mcphub.core.types import JSONObject
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Principal, Scope

COLUMNS = {
    "name": "name",
    "url": "url",
    "transport": "transport",
    "connection_timeout": "connect_timeout",
    "call_timeout": "call_timeout",
    "elicitation": "relay_elicitation",
    "definition_policy": "definition_policy",
    "auto_reconnect": "auto_reconnect",
    "relay_sampling": "relay_sampling",
    "relay_roots": "relay_roots",
}
"""Members of the input → columns of a server."""
OF_PRESETS = frozenset({"definition_policy", "name", "auth", "consent"})


class ServersView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ, write=Scope.SERVERS_WRITE)]

    @extend_schema(responses=outputs.ServerOutput(many=True))
    def get(self, request: Request) -> Response:
        """List all servers, without pages; with `ETag` and `X-Mcphub-Seq`."""
        principal = principal_in(request)
        seq = outputs.seq_of(principal)
        servers = [outputs.server(view, seq) for view in selectors.servers_for(principal)]
        etag = outputs.etag_of([{**one, "seq": 0} for one in servers])
        headers = {"ETag": etag, "X-Mcphub-Seq": str(seq)}
        if etag in request.headers.get("If-None-Match", ""):
            return Response(status=304, headers=headers)
        return Response(servers, headers=headers)

    @extend_schema(request=inputs.ServerInput, responses={201: outputs.ServerOutput})
    def post(self, request: Request) -> Response:
        """Add a server of the caller's own; it is not connected yet."""
        principal = principal_in(request)
        values = inputs.ServerInput.read(request.data)
        row = custom_servers.create_custom_server(principal, new_server(values))
        body = server_body(principal, row.slug)
        return Response(body, status=201, headers={"Location": f"/api/v1/servers/{row.slug}"})


class ServerView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ, write=Scope.SERVERS_WRITE)]

    @extend_schema(responses=outputs.ServerOutput)
    def get(self, request: Request, server: str) -> Response:
        """Return one server with the state of its connection."""
        body = server_body(principal_in(request), server)
        return Response(body, headers={"X-Mcphub-Seq": str(body["seq"])})

    @extend_schema(request=inputs.ServerPatchInput, responses=outputs.ServerOutput)
    def patch(self, request: Request, server: str) -> Response:
        """Change a server; of a preset only `name`, `consent` and the member's own `auth`."""
        principal = principal_in(request)
        row = selectors.connection_for(principal, server)
        values = inputs.ServerPatchInput.read(request.data, partial=True)
        with transaction.atomic():
            if row.custom_server is None:
                change_preset(principal, row, values)
            else:
                change_custom(principal, row, values)
            if consent := consent_of(values):
                row = connections.ensure(principal, server)
                consents.consent(principal, row, consent)
        selectors.targets.forget(principal, server)
        return Response(server_body(principal, server))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, server: str) -> Response:
        """Remove a server of the caller's own; a preset is a 409."""
        principal = principal_in(request)
        connections.remove(principal, selectors.connection_for(principal, server))
        selectors.targets.forget(principal, server)
        return Response(status=204)


class DisconnectView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_CONNECT)]

    @extend_schema(request=inputs.DisconnectInput, responses=outputs.ServerOutput)
    def post(self, request: Request, server: str) -> Response:
        """End the session; `forget` drops the stored credentials as well."""
        principal = principal_in(request)
        row = selectors.connection_for(principal, server)
        values = inputs.DisconnectInput.read(request.data)
        connections.disconnect(principal, row, forget=values["forget"])
        selectors.targets.forget(principal, server)
        return Response(server_body(principal, server))


class NamedConnectionsView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_WRITE)]

    @extend_schema(request=inputs.NamedConnectionInput, responses={201: outputs.ServerOutput})
    def post(self, request: Request, server: str) -> Response:
        """Add a further account at the same server, under an id of its own."""
        principal = principal_in(request)
        row = selectors.connection_for(principal, server)
        values = inputs.NamedConnectionInput.read(request.data)
        with transaction.atomic():
            added = connections.add_named(principal, row, values["name"])
            if "auth" in values:
                give_credentials(principal, added, values["auth"])
        headers = {"Location": f"/api/v1/servers/{added.slug}"}
        return Response(server_body(principal, added.slug), status=201, headers=headers)


class TimelineView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ)]

    @extend_schema(responses=outputs.TimelineOutput(many=True))
    def get(self, request: Request, server: str) -> Response:
        """Tell why the connection is in its state, newest first."""
        principal = principal_in(request)
        row = selectors.connection_for(principal, server)
        steps = selectors.timeline_for(principal, row)[:200]
        return Response([outputs.timeline(step) for step in steps])


def server_body(principal: Principal, slug: str) -> JSONObject:
    """Return the server object as it is now; the event number is read first."""
    seq = outputs.seq_of(principal)
    return outputs.server(selectors.server_for(principal, slug), seq)


def columns_of(values: dict[str, Any]) -> dict[str, Any]:
    return {column: values[name] for name, column in COLUMNS.items() if name in values}


def new_server(values: dict[str, Any]) -> custom_servers.NewServer:
    auth = values.get("auth", {"type": AuthType.NONE})
    fields = columns_of(values)
    name, url = fields.pop("name"), fields.pop("url")
    if config := config_of(auth):
        fields["auth_config"] = config
    return custom_servers.NewServer(
        name=name,
        url=url,
        auth_type=auth_type_of(auth),
        credentials=credentials_of(auth),
        slug=values.get("id"),
        fields=fields,
    )


def consent_of(values: dict[str, Any]) -> dict[Relay, bool]:
    given = values.get("consent", {})
    return {relay: given[relay.value] for relay in Relay if relay.value in given}


def change_custom(principal: Principal, row: Connection, values: dict[str, Any]) -> None:
    changes = columns_of(values)
    auth = values.get("auth")
    if auth is not None:
        changes["auth_type"] = auth_type_of(auth)
        if config := config_of(auth):
            changes["auth_config"] = config
    changed = custom_servers.update_custom_server(principal, row, changes)
    if auth is not None and credentials_of(auth):
        connections.set_credentials(principal, changed, credentials_of(auth))


def change_preset(principal: Principal, row: Connection, values: dict[str, Any]) -> None:
    refused = sorted(values.keys() - OF_PRESETS)
    if refused:
        problems = [
            FieldProblem(path=f"/{name}", message="The preset decides this.", code="of_preset")
            for name in refused
        ]
        raise InvalidInputError(problems=problems)
    row = connections.stored(principal, row)
    if "auth" in values:
        give_credentials(principal, row, values["auth"])
    if "name" in values:
        connections.rename(principal, row, values["name"])
    if "definition_policy" in values:
        connections.set_definition_policy(principal, row, values["definition_policy"])


def give_credentials(principal: Principal, row: Connection, auth: dict[str, Any]) -> None:
    """Store what the member brings for a server whose kind of authentication is settled."""
    wanted = AuthType(selectors.server_of(row).auth_type)
    if auth_type_of(auth) is not wanted:
        problem = FieldProblem(
            path="/auth/type", message=f"This server takes {wanted.value}.", code="unfit"
        )
        raise InvalidInputError(problems=[problem])
    connections.set_credentials(principal, row, credentials_of(auth))


def auth_type_of(auth: dict[str, Any]) -> AuthType:
    return AuthType(auth["type"])


def config_of(auth: dict[str, Any]) -> JSONObject:
    """Return what is no secret."""
    return {camel(name): auth[name] for name in ("scopes", "client_id") if name in auth}


def credentials_of(auth: dict[str, Any]) -> JSONObject:
    names = ("token", "headers", "client_secret")
    return {camel(name): auth[name] for name in names if auth.get(name)}
