"""What the endpoints of this app take."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from rest_framework import serializers

from mcphub.api.serializers import CamelSerializer, Input
from mcphub.core import ids
from tenants.connect_sessions import DEFAULT_SCOPES
from tenants.models import Role
from tenants.principal import MEMBER_SCOPES, Scope

ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")
MAX_ITEMS = 50
SESSION_SECONDS = 1800


def check_origin(text: str) -> None:
    """Refuse all but a web origin as browsers write it (RFC 6454 §6.2): no path, no wildcard."""
    if not ORIGIN.fullmatch(text):
        raise serializers.ValidationError("A web origin such as https://app.example.")


def check_slug(text: str) -> None:
    if not ids.is_slug(text):
        raise serializers.ValidationError("An id of a connector.")


def check_printable(text: str) -> None:
    if not text.isprintable():
        raise serializers.ValidationError("Printable characters only.")


def check_member_scopes(scopes: frozenset[Scope]) -> None:
    beyond = sorted(scope.value for scope in scopes - MEMBER_SCOPES)
    if beyond:
        raise serializers.ValidationError(f"Not for end users: {', '.join(beyond)}.")


def check_web_url(text: str) -> None:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.netloc or "@" in parts.netloc:
        raise serializers.ValidationError("An http(s) address.")


class OriginsField(serializers.ListField):
    child = serializers.CharField(max_length=200, validators=[check_origin])

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=MAX_ITEMS, **kwargs)


class ScopesField(serializers.MultipleChoiceField):
    """A list without order and repetition; becomes a frozenset of Scope."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=[scope.value for scope in Scope], allow_empty=False, **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        return frozenset(Scope(name) for name in super().to_internal_value(data))


class TenantInput(Input):
    name = serializers.CharField(max_length=120, required=False)
    allowed_origins = OriginsField(required=False)


class WebhookInput(Input):
    url = serializers.CharField(max_length=2000, validators=[check_web_url])
    is_active = serializers.BooleanField(required=False, default=True)


class NewMemberInput(Input):
    email = serializers.EmailField(max_length=150, required=False)
    external_id = serializers.CharField(
        max_length=200, required=False, validators=[check_printable]
    )
    display_name = serializers.CharField(max_length=200, required=False)
    role = serializers.ChoiceField(
        choices=[Role.OWNER.value, Role.ADMIN.value, Role.MEMBER.value], required=False
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse anything but a person (`email`) or an end user of an app (`externalId`)."""
        if "external_id" not in attrs and "email" not in attrs:
            raise serializers.ValidationError({"email": "Needed, or `externalId`."})
        if "external_id" in attrs and "role" in attrs:
            raise serializers.ValidationError({"role": "An end user of an app has no other role."})
        return attrs


class MemberInput(Input):
    display_name = serializers.CharField(max_length=200, required=False, allow_blank=True)
    role = serializers.ChoiceField(choices=Role.values, required=False)
    is_active = serializers.BooleanField(required=False)


class NewApiKeyInput(Input):
    name = serializers.CharField(max_length=120)
    scopes = ScopesField(required=False)
    read_only = serializers.BooleanField(  # type: ignore[assignment]  # a field of this name
        required=False, default=False, source="is_read_only"
    )
    tool_search = serializers.BooleanField(required=False, default=False, source="finds_tools")
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class EndUserInput(CamelSerializer):
    id = serializers.CharField(max_length=200, source="external_id", validators=[check_printable])
    email = serializers.EmailField(max_length=150, required=False, default="")
    display_name = serializers.CharField(max_length=200, required=False, default="")


class NewConnectSessionInput(Input):
    end_user = EndUserInput()
    allowed_connectors = serializers.ListField(
        child=serializers.CharField(max_length=24, validators=[check_slug]),
        max_length=MAX_ITEMS,
        required=False,
        allow_null=True,
    )
    allow_custom_servers = serializers.BooleanField(required=False, default=False)
    allowed_origins = OriginsField(required=False, allow_null=True)
    scopes = ScopesField(
        validators=[check_member_scopes],
        required=False,
        help_text=f"Left out: {', '.join(sorted(s.value for s in DEFAULT_SCOPES))}.",
    )
    return_url = serializers.CharField(
        max_length=2000, required=False, default="", validators=[check_web_url]
    )
    ttl_seconds = serializers.IntegerField(
        min_value=60,
        max_value=int(settings.CONNECT_SESSION_TTL_MAX),
        required=False,
        default=SESSION_SECONDS,
    )
