"""REST: the MCP clients that a member let in, and how to end what they may do."""

from __future__ import annotations

from typing import Any

from django.urls import path
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from gateway.login import logins
from gateway.login.logins import EndReason
from gateway.login.models import ClientLogin
from mcphub.api.pagination import PageRequest, page_of
from mcphub.api.serializers import Output
from tenants.api.permissions import principal_in, requires_scope
from tenants.principal import Scope


class ClientLoginOutput(Output):
    """One MCP client that is signed in for the member."""

    id = serializers.UUIDField()
    client_name = serializers.CharField(source="client.name", help_text="What it calls itself.")
    client_host = serializers.CharField(
        source="client.document_host", help_text="Where it is published; empty: nobody knows."
    )
    endpoint = serializers.CharField(help_text="`/mcp`, or `/mcp/s/…` of one server.")
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=[scope.value for scope in Scope])
    )
    signed_in_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(allow_null=True)


PAGE = inline_serializer(
    "ClientLoginPage",
    fields={
        "items": ClientLoginOutput(many=True),
        "nextCursor": serializers.CharField(allow_null=True),
    },
)


class ClientLoginsView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ)]

    @extend_schema(responses=PAGE)
    def get(self, request: Request) -> Response:
        """List the MCP clients that are signed in for you."""
        rows = logins.logins_for(principal_in(request))
        page = page_of(rows, PageRequest.read(request.query_params))
        return Response(page.as_json(_output))


class ClientLoginView(APIView):
    permission_classes = [requires_scope(Scope.SERVERS_READ, write=Scope.SERVERS_WRITE)]

    @extend_schema(responses={204: None})
    def delete(self, request: Request, login_id: str) -> Response:
        """Sign an MCP client out: its tokens end at once."""
        login = logins.login_for(principal_in(request), login_id)
        logins.end(login, EndReason.USER)
        return Response(status=204)


def _output(login: ClientLogin) -> dict[str, Any]:
    output: dict[str, Any] = ClientLoginOutput(login).data
    return output


urlpatterns = [
    path("client-logins", ClientLoginsView.as_view()),
    path("client-logins/<str:login_id>", ClientLoginView.as_view()),
]
