"""Presets: for everybody in react-mcp's shape, for a tenant's admins to manage."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors import selectors
from connectors.api import inputs, outputs
from connectors.api.views_servers import columns_of
from connectors.services import connectors
from mcphub.api.serializers import camel
from mcphub.core.types import JSONObject
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Scope

SAME = (
    "icon",
    "description",
    "order",
    "may_replay_reads",
)


class ConnectorsView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ, write=Scope.CONNECTORS_WRITE)]

    @extend_schema(responses=outputs.PresetOutput(many=True))
    def get(self, request: Request) -> Response:
        """List enabled presets without secrets, in the shape that `defineConnector` takes."""
        rows = selectors.connectors_for(principal_in(request))
        return Response([outputs.preset(row) for row in rows])

    @extend_schema(request=inputs.ConnectorInput, responses={201: outputs.ConnectorOutput})
    def post(self, request: Request) -> Response:
        """Declare a preset for the members of the tenant."""
        principal = principal_in(request)
        values = inputs.ConnectorInput.read(request.data)
        row = connectors.create_connector(
            principal, fields=fields_of(values), secrets=secrets_of(values)
        )
        headers = {"Location": f"/api/v1/connectors/{row.slug}"}
        return Response(outputs.connector(row, principal), status=201, headers=headers)


class ConnectorView(APIView):
    permission_classes = [requires_scope(Scope.CONNECTORS_WRITE)]

    @extend_schema(responses=outputs.ConnectorOutput)
    def get(self, request: Request, connector: str) -> Response:
        """Return one preset, without secrets."""
        principal = principal_in(request)
        return Response(outputs.connector(selectors.connector_for(principal, connector), principal))

    @extend_schema(request=inputs.ConnectorInput, responses=outputs.ConnectorOutput)
    def patch(self, request: Request, connector: str) -> Response:
        """Change a preset of the tenant; another `url` ends sessions and drops secrets."""
        principal = principal_in(request)
        row = selectors.connector_for(principal, connector)
        values = inputs.ConnectorInput.read(request.data, partial=True)
        row = connectors.update_connector(
            principal, row, fields=fields_of(values), secrets=secrets_of(values)
        )
        return Response(outputs.connector(row, principal))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, connector: str) -> Response:
        """Remove a preset of the tenant, with the connections to it."""
        principal = principal_in(request)
        connectors.delete_connector(principal, selectors.connector_for(principal, connector))
        return Response(status=204)


def fields_of(values: dict[str, Any]) -> dict[str, Any]:
    fields = {**columns_of(values), **{name: values[name] for name in SAME if name in values}}
    if "id" in values:
        fields["slug"] = values["id"]
    if "enabled" in values:
        fields["is_enabled"] = values["enabled"]
    auth = values.get("auth")
    if auth is not None:
        fields["auth_type"] = auth["type"]
        config = {camel(name): value for name, value in auth.items() if name != "type"}
        fields["auth_config"] = {name: value for name, value in config.items() if value}
    return fields


def secrets_of(values: dict[str, Any]) -> JSONObject | None:
    """Return the secrets to store; None when the request says nothing of them."""
    secrets = values.get("secrets")
    if secrets is None:
        return None
    oauth = {camel(name): text for name, text in secrets.items() if name != "headers"}
    headers: JSONObject = {"headers": secrets.get("headers", {})}
    return {**headers, "oauth": oauth} if oauth else headers
