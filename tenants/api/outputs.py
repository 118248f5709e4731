"""What the endpoints of this app answer; hashes of secrets are in none of them."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from mcphub.api.serializers import Output
from tenants.models import (
    ApiKey,
    DeliveryStatus,
    Membership,
    Role,
    Tenant,
    Webhook,
    WebhookDelivery,
)
from tenants.principal import Principal, Scope
from tenants.selectors import CONNECT_SESSION_PREFIX


class MemberOutput(Output):
    id = serializers.UUIDField()
    display_name = serializers.CharField()
    email = serializers.CharField()
    external_id = serializers.CharField(allow_null=True)
    role = serializers.ChoiceField(choices=Role.choices)
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()


class LimitsOutput(Output):
    max_connections = serializers.IntegerField()
    max_custom_servers = serializers.IntegerField()
    max_concurrent_calls = serializers.IntegerField()
    calls_per_minute = serializers.IntegerField()


class TenantOutput(Output):
    """The tenant, and who is asking."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    allowed_origins = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    limits = LimitsOutput()
    member = MemberOutput()
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=[scope.value for scope in Scope])
    )


class ApiKeyOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The key up to its secret, `mhk_…`.")
    member_id = serializers.UUIDField()
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=[scope.value for scope in Scope])
    )
    read_only = serializers.BooleanField(  # type: ignore[assignment]  # a field of this name
        source="is_read_only",
        help_text="Only tools that say they are read-only are listed and callable.",
    )
    tool_search = serializers.BooleanField(
        source="finds_tools", help_text="At /mcp, tools are searched for instead of listed."
    )
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class IssuedApiKeyOutput(ApiKeyOutput):
    secret = serializers.CharField(help_text="The whole key; shown this once.")


class ConnectSessionOutput(Output):
    id = serializers.CharField()
    token = serializers.CharField(help_text="Shown this once.")
    expires_at = serializers.DateTimeField()
    mcp_url = serializers.CharField(
        help_text="Where the hub will be an MCP server; this version answers 501 there."
    )


class TicketOutput(Output):
    ticket = serializers.CharField()
    expires_at = serializers.DateTimeField()
    url = serializers.CharField()


class ProblemTypeOutput(Output):
    type = serializers.CharField(source="urn")
    code = serializers.CharField()
    status = serializers.IntegerField()
    title = serializers.CharField()
    meaning = serializers.CharField()


class UsageOutput(Output):
    """Counts; other parts of the hub add theirs."""

    members = serializers.IntegerField()
    api_keys = serializers.IntegerField()
    connect_sessions = serializers.IntegerField()
    connections = serializers.IntegerField()
    connected = serializers.IntegerField()
    custom_servers = serializers.IntegerField()
    calls_in_flight = serializers.IntegerField()
    calls_last_day = serializers.IntegerField()
    limits = serializers.DictField(child=serializers.IntegerField())


def tenant(row: Tenant, member: Membership, principal: Principal) -> Any:
    parts = {
        "id": row.id,
        "slug": row.slug,
        "name": row.name,
        "allowed_origins": row.allowed_origins,
        "created_at": row.created_at,
        "limits": row,
        "member": member,
        "scopes": sorted(principal.scopes),
    }
    return TenantOutput(parts).data


def api_key(row: ApiKey) -> Any:
    return ApiKeyOutput(key_parts(row)).data


def issued_api_key(row: ApiKey, secret: str) -> Any:
    return IssuedApiKeyOutput({**key_parts(row), "secret": secret}).data


def key_parts(row: ApiKey) -> dict[str, Any]:
    names = ("id", "name", "member_id", "scopes", "expires_at", "last_used_at")
    others = ("is_read_only", "finds_tools", "revoked_at", "created_at")
    parts = {name: getattr(row, name) for name in (*names, *others)}
    return {**parts, "prefix": f"mhk_{row.key_id}"}


def connect_session_id(session_id: Any) -> str:
    return f"{CONNECT_SESSION_PREFIX}{session_id.hex}"


class WebhookOutput(Output):
    url = serializers.CharField()
    is_active = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    secret = serializers.CharField(
        required=False, help_text="`whsec_…`, in the answer that makes it and in no other."
    )


class WebhookDeliveryOutput(Output):
    """`body` is the text that was signed."""

    id = serializers.SerializerMethodField()
    type = serializers.CharField()
    change = serializers.CharField()
    status = serializers.ChoiceField(choices=DeliveryStatus.values)
    attempts = serializers.IntegerField()
    outcome = serializers.CharField(help_text="Of the last attempt: `http_200`, `timeout`, …")
    next_attempt_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    body = serializers.CharField()

    def get_id(self, row: WebhookDelivery) -> str:
        """Return what the receiver gets as `Webhook-Id`."""
        return f"msg_{row.pk.hex}"


def webhook(row: Webhook, *, secret: str = "") -> Any:
    """Return the webhook; with a secret only when it was just made."""
    told = {"url": row.url, "is_active": row.is_active, "created_at": row.created_at}
    return WebhookOutput(told | ({"secret": secret} if secret else {})).data
