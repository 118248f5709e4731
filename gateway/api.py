"""REST: the inventory of what the gateway relays."""

from __future__ import annotations

import json
from typing import Any

from django.urls import path
from drf_spectacular.utils import extend_schema
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from connectors import selectors
from gateway import sources
from gateway.endpoint import Endpoint
from gateway.inventory import EVERYTHING, inventory
from gateway.projection.capabilities import Client
from mcphub.api.serializers import Input, Output
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Scope

VERSIONS = [*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS]
LONGEST = 8000


class InventoryQuery(Input):
    """Query of GET /gateway/inventory: which client is meant."""

    version = serializers.ChoiceField(choices=VERSIONS, default=LATEST_MODERN_VERSION)
    client = serializers.CharField(
        max_length=LONGEST,
        required=False,
        help_text="Capabilities of the client as JSON; left out: all that a client can offer.",
    )
    server = serializers.CharField(required=False, help_text="Only this server.")

    def validate_client(self, text: str) -> Any:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise serializers.ValidationError("A JSON object.") from exc
        if not isinstance(found, dict):
            raise serializers.ValidationError("A JSON object.")
        return found


class InventoryRowOutput(Output):
    """One capability; `sources` has a cell by server id."""

    capability = serializers.CharField(help_text="Its path, such as `resources.subscribe`.")
    sources = serializers.DictField(
        help_text="`{declared, relayable, relayed, whyNot, answeredHere}` of each server."
    )


class InventoryOutput(Output):
    """What `/mcp` relays to this client, out of the decision that sessions are answered with."""

    client = serializers.DictField()
    advertised = serializers.DictField(help_text="Server capabilities that `/mcp` advertises.")
    sources = serializers.ListField(child=serializers.DictField())
    server_capabilities = InventoryRowOutput(many=True)
    client_capabilities = InventoryRowOutput(many=True)
    reasons = serializers.DictField(child=serializers.CharField())


class InventoryView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ)]

    @extend_schema(parameters=[InventoryQuery], responses=InventoryOutput)
    def get(self, request: Request) -> Response:
        """Tell what is relayed of every server to a client, and why the rest is not."""
        values = InventoryQuery.read(request.query_params)
        named = values.get("server")
        principal = principal_in(request)
        if named:
            selectors.connection_for(principal, named)  # the tenant gate
        endpoint = Endpoint(servers=frozenset({named}) if named else None)
        client = Client(version=values["version"], capabilities=values.get("client", EVERYTHING))
        return Response(inventory(sources.read(principal, endpoint), client))


urlpatterns = [path("gateway/inventory", InventoryView.as_view())]
