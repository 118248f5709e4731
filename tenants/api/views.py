"""Endpoints of tenants, members and credentials."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from mcphub.api.pagination import PageRequest, page_of
from mcphub.api.problems import PROBLEMS
from tenants import api_keys, connect_sessions, selectors, services, tickets, usage
from tenants.api import inputs, outputs, throttles
from tenants.api.permissions import principal_in, requires_scope
from tenants.models import Role
from tenants.principal import Scope


def page_schema(name: str, item: type[serializers.BaseSerializer[Any]]) -> Any:
    """Return the schema of `{"items": […], "nextCursor": …}`."""
    fields = {"items": item(many=True), "nextCursor": serializers.CharField(allow_null=True)}
    return inline_serializer(name, fields=fields)


class CurrentTenantView(APIView):
    @extend_schema(responses=outputs.TenantOutput)
    def get(self, request: Request) -> Response:
        """Say who is asking: the tenant, the member and the scopes of the credential."""
        principal = principal_in(request)
        row = selectors.tenant_of(principal)
        member = selectors.own_membership(principal)
        return Response(outputs.tenant(row, member, principal))

    @extend_schema(request=inputs.TenantInput, responses=outputs.TenantOutput)
    def patch(self, request: Request) -> Response:
        """Change the tenant's name or its allowed web origins."""
        principal = principal_in(request)
        principal.require(Scope.MEMBERS_WRITE)
        change = services.TenantChange(**inputs.TenantInput.read(request.data))
        row = services.change_tenant(principal, change=change)
        member = selectors.own_membership(principal)
        return Response(outputs.tenant(row, member, principal))


class MembersView(APIView):
    permission_classes = [requires_scope(Scope.MEMBERS_READ, write=Scope.MEMBERS_WRITE)]
    throttle_classes = [throttles.tenant_rate(throttles.MEMBERS)]

    @extend_schema(responses=page_schema("MemberPage", outputs.MemberOutput))
    def get(self, request: Request) -> Response:
        """List the members of the tenant."""
        rows = selectors.members_for(principal_in(request))
        page = page_of(rows, PageRequest.read(request.query_params))
        return Response(page.as_json(lambda row: outputs.MemberOutput(row).data))

    @extend_schema(request=inputs.NewMemberInput, responses={201: outputs.MemberOutput})
    def post(self, request: Request) -> Response:
        """Add a person by e-mail address, or an app's end user by external id."""
        values = inputs.NewMemberInput.read(request.data)
        role = Role(values.pop("role", Role.MEMBER))
        new = services.NewMember(role=role, **values)
        member = services.add_member(principal_in(request), new=new)
        return Response(outputs.MemberOutput(member).data, status=201)


class MemberView(APIView):
    permission_classes = [requires_scope(Scope.MEMBERS_READ, write=Scope.MEMBERS_WRITE)]

    @extend_schema(responses=outputs.MemberOutput)
    def get(self, request: Request, member_id: str) -> Response:
        """Return one member."""
        member = selectors.member_for(principal_in(request), member_id)
        return Response(outputs.MemberOutput(member).data)

    @extend_schema(request=inputs.MemberInput, responses=outputs.MemberOutput)
    def patch(self, request: Request, member_id: str) -> Response:
        """Change a member; at least one owner stays."""
        principal = principal_in(request)
        selectors.member_for(principal, member_id)
        values = inputs.MemberInput.read(request.data)
        if "role" in values:
            values["role"] = Role(values["role"])
        member = services.change_member(
            principal, member_id=member_id, change=services.MemberChange(**values)
        )
        return Response(outputs.MemberOutput(member).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, member_id: str) -> Response:
        """Switch a member off: keys, sessions and streams end at once."""
        services.deactivate_member(principal_in(request), member_id=member_id)
        return Response(status=204)


class ApiKeysView(APIView):
    permission_classes = [requires_scope(Scope.API_KEYS_WRITE)]
    throttle_classes = [throttles.tenant_rate(throttles.API_KEYS)]

    @extend_schema(responses=page_schema("ApiKeyPage", outputs.ApiKeyOutput))
    def get(self, request: Request) -> Response:
        """List API keys, without their secrets."""
        rows = selectors.api_keys_for(principal_in(request))
        page = page_of(rows, PageRequest.read(request.query_params))
        return Response(page.as_json(outputs.api_key))

    @extend_schema(request=inputs.NewApiKeyInput, responses={201: outputs.IssuedApiKeyOutput})
    def post(self, request: Request) -> Response:
        """Make an API key; its secret is shown this once."""
        new = api_keys.NewKey(**inputs.NewApiKeyInput.read(request.data))
        issued = api_keys.create(principal_in(request), new=new)
        return Response(outputs.issued_api_key(issued.api_key, issued.secret), status=201)


class ApiKeyView(APIView):
    permission_classes = [requires_scope(Scope.API_KEYS_WRITE)]

    @extend_schema(responses=outputs.ApiKeyOutput)
    def get(self, request: Request, api_key_id: str) -> Response:
        """Return one API key, without its secret."""
        row = selectors.api_key_for(principal_in(request), api_key_id)
        return Response(outputs.api_key(row))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, api_key_id: str) -> Response:
        """Revoke an API key at once."""
        api_keys.revoke(principal_in(request), api_key_id=api_key_id)
        return Response(status=204)


class ApiKeyRotationView(APIView):
    permission_classes = [requires_scope(Scope.API_KEYS_WRITE)]
    throttle_classes = [throttles.tenant_rate(throttles.API_KEYS)]

    @extend_schema(request=None, responses=outputs.IssuedApiKeyOutput)
    def post(self, request: Request, api_key_id: str) -> Response:
        """Give an API key a new secret, shown this once; the old one ends at once."""
        issued = api_keys.rotate(principal_in(request), api_key_id=api_key_id)
        return Response(outputs.issued_api_key(issued.api_key, issued.secret))


class ConnectSessionsView(APIView):
    permission_classes = [requires_scope(Scope.CONNECT_SESSIONS_WRITE)]
    throttle_classes = [throttles.tenant_rate(throttles.CONNECT_SESSIONS)]

    @extend_schema(
        request=inputs.NewConnectSessionInput, responses={201: outputs.ConnectSessionOutput}
    )
    def post(self, request: Request) -> Response:
        """Make a short-lived token for an end user's browser."""
        values = inputs.NewConnectSessionInput.read(request.data)
        end_user = connect_sessions.EndUser(**values.pop("end_user"))
        new = connect_sessions.NewSession(end_user=end_user, **values)
        issued = connect_sessions.create(principal_in(request), new=new)
        answer = {
            "id": outputs.connect_session_id(issued.session.id),
            "token": issued.token,
            "expires_at": issued.session.expires_at,
            "mcp_url": f"{settings.BASE_URL}/mcp",
        }
        return Response(outputs.ConnectSessionOutput(answer).data, status=201)


class ConnectSessionView(APIView):
    permission_classes = [requires_scope(Scope.CONNECT_SESSIONS_WRITE)]

    @extend_schema(responses={204: None})
    def delete(self, request: Request, session_id: str) -> Response:
        """Revoke a connect session at once."""
        connect_sessions.revoke(principal_in(request), session_id=session_id)
        return Response(status=204)


class WsTicketsView(APIView):
    throttle_classes = [throttles.tenant_rate(throttles.TICKETS)]

    @extend_schema(request=None, responses={201: outputs.TicketOutput})
    def post(self, request: Request) -> Response:
        """Make a ticket that opens one WebSocket or event stream, within 30 seconds."""
        ticket = tickets.issue(principal_in(request))
        return Response(outputs.TicketOutput(ticket).data, status=201)


class UsageView(APIView):
    permission_classes = [requires_scope(Scope.MEMBERS_READ)]

    @extend_schema(responses=outputs.UsageOutput)
    def get(self, request: Request) -> Response:
        """Say how much of its limits the tenant uses."""
        return Response(usage.usage(principal_in(request)))


class ProblemsView(APIView):
    """The codes are documentation: anybody may read them."""

    authentication_classes = []
    permission_classes = []

    @extend_schema(responses=outputs.ProblemTypeOutput(many=True), auth=[])
    def get(self, request: Request) -> Response:
        """List every problem code with its meaning; anybody may read them."""
        kinds = sorted(PROBLEMS.values(), key=lambda kind: kind.code)
        return Response(outputs.ProblemTypeOutput(kinds, many=True).data)
