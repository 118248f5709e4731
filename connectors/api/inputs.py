"""What the endpoints of connectors take; secrets come in here and never go out again."""

from __future__ import annotations

import re
from typing import Any, get_args
from urllib.parse import urlsplit

from mcp_types import LoggingLevel
from rest_framework import serializers

from connectors import oauth_choices
from connectors.definitions import DefinitionPolicy
from connectors.provider_profiles import Format
from connectors.server_spec import AuthType, Transport
from connectors.services import header_rules, preset_rules
from connectors.services.tool_table import LONGEST_DESCRIPTION
from mcphub.api.serializers import Input, camel
from mcphub.core import ids
from oauth.names import ClientAuthMethod, GrantType

CALL_STATUSES = (
    "queued",
    "running",
    "input_required",
    "succeeded",
    "failed",
    "cancelled",
    "expired",
    "outcome_unknown",
)
DEFINITION_POLICIES = [policy.value for policy in DefinitionPolicy]
AUTH_TYPES = [kind.value for kind in AuthType]
TOKEN = re.compile(r"[\x21-\x7e]{1,8000}")


class SlugField(serializers.CharField):
    """A public server id (API design, decision 2)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=ids.SLUG_MAX, **options)

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if not ids.is_slug(text):
            raise serializers.ValidationError(ids.SLUG_RULE, code="bad_slug")
        return text


class HeadersField(serializers.DictField):
    """HTTP header names to secret values; write-only."""

    child = serializers.CharField(trim_whitespace=True)

    def __init__(self, **options: Any) -> None:
        super().__init__(write_only=True, **options)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        headers: dict[str, str] = super().to_internal_value(data)
        if len(headers) > header_rules.MOST_HEADERS:
            raise serializers.ValidationError(
                f"At most {header_rules.MOST_HEADERS} headers.", code="too_many"
            )
        for name, value in headers.items():
            if not header_rules.NAME.fullmatch(name) or header_rules.is_reserved(name):
                raise serializers.ValidationError(
                    {name: "This header name cannot be used."}, code="bad_header"
                )
            if not header_rules.VALUE.fullmatch(value):
                raise serializers.ValidationError(
                    {name: "A header value is one line of visible characters."}, code="bad_header"
                )
        return headers


class TokenField(serializers.CharField):
    """A secret that travels in a header; write-only."""

    def __init__(self, **options: Any) -> None:
        super().__init__(write_only=True, max_length=8000, **options)

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if not TOKEN.fullmatch(text):
            raise serializers.ValidationError(
                "A token is one word of visible ASCII characters.", code="bad_token"
            )
        return text


class MillisecondsField(serializers.IntegerField):
    """A duration on the wire, seconds inside."""

    def run_validation(self, data: Any = serializers.empty) -> Any:
        value = super().run_validation(data)
        return value / 1000 if isinstance(value, int) else value


class ElicitationsQuery(Input):
    server = serializers.CharField(required=False)
    call = serializers.UUIDField(required=False)


class AnswerInput(Input):
    """An answer to a question of a server; `content` goes with `accept`."""

    action = serializers.ChoiceField(choices=["accept", "decline", "cancel"])
    content = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="The form's values; for sampling a CreateMessageResult, for roots a "
        "ListRootsResult. Nothing for an address.",
    )


class AuthInput(Input):
    """`none`; `bearer` with a token; `headers` with names and values; `oauth`.

    `clientId` and `clientSecret` are of a client that the member registered at the provider.
    """

    type = serializers.ChoiceField(choices=AUTH_TYPES)
    token = TokenField(required=False)
    headers = HeadersField(required=False)
    scopes = serializers.ListField(
        child=serializers.CharField(max_length=200), max_length=100, required=False
    )
    client_id = serializers.CharField(max_length=500, required=False)
    client_secret = TokenField(required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        kind = attrs["type"]
        if "token" in attrs and kind != AuthType.BEARER:
            raise serializers.ValidationError({"token": "Only with the type bearer."})
        if "headers" in attrs and kind != AuthType.HEADERS:
            raise serializers.ValidationError({"headers": "Only with the type headers."})
        for name in ("client_id", "client_secret"):
            if name in attrs and kind != AuthType.OAUTH:
                raise serializers.ValidationError({camel(name): "Only with the type oauth."})
        return attrs


class ServerFieldsInput(Input):
    """What a server has, however it came to be."""

    name = serializers.CharField(max_length=120)
    url = serializers.CharField(max_length=2000)
    auth = AuthInput(required=False)
    transport = serializers.ChoiceField(
        choices=[kind.value for kind in Transport if kind is not Transport.STDIO], required=False
    )
    connection_timeout = MillisecondsField(min_value=500, max_value=60_000, required=False)
    call_timeout = MillisecondsField(min_value=500, max_value=600_000, required=False)
    elicitation = serializers.BooleanField(required=False)
    relay_sampling = serializers.BooleanField(required=False)
    relay_roots = serializers.BooleanField(required=False)
    definition_policy = serializers.ChoiceField(choices=DEFINITION_POLICIES, required=False)
    auto_reconnect = serializers.BooleanField(required=False)

    def validate_url(self, url: str) -> str:
        return absolute_http_url(url)


class ServerInput(ServerFieldsInput):
    """POST /servers; `id` is made of the name when left out."""

    id = SlugField(required=False)


class ConsentInput(Input):
    """Which requests of a server the member lets through; what is left out stays as it is."""

    elicitation = serializers.BooleanField(required=False)
    sampling = serializers.BooleanField(required=False)
    roots = serializers.BooleanField(required=False)


class ServerPatchInput(ServerFieldsInput):
    """PATCH /servers/{id}; of a preset only `name`, `consent` and the member's own `auth`."""

    consent = ConsentInput(required=False)


class NamedConnectionInput(Input):
    name = serializers.CharField(max_length=120)
    id = SlugField(required=False)
    auth = AuthInput(required=False)


class ConnectInput(Input):
    return_url = serializers.CharField(max_length=2000, required=False, allow_null=True)
    consent = ConsentInput(required=False)
    redirect_uri = serializers.CharField(
        max_length=2000,
        required=False,
        allow_null=True,
        help_text="The app's own, for complete-auth.",
    )


class DisconnectInput(Input):
    forget = serializers.BooleanField(default=False)


class CompleteAuthInput(Input):
    callback_url = serializers.CharField(max_length=8000)


class EmptyInput(Input):
    """A body without members, or none."""


class LoggingLevelInput(Input):
    level = serializers.ChoiceField(choices=get_args(LoggingLevel))


class ToolPatchInput(Input):
    enabled = serializers.BooleanField(required=False)
    description = serializers.CharField(
        max_length=LONGEST_DESCRIPTION,
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="Shown instead of the server's own; null restores that.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse a change of nothing."""
        if not attrs:
            raise serializers.ValidationError({"enabled": "Needed, or `description`."})
        return attrs


class ToolChangesQuery(Input):
    server = serializers.CharField(required=False)


class ApprovalInput(Input):
    digest = serializers.CharField(max_length=64, help_text="Of the definition to approve.")


class CallsQuery(Input):
    """Query of GET /calls, beside the page."""

    server = serializers.CharField(required=False)
    status = serializers.ChoiceField(choices=CALL_STATUSES, required=False)
    since = serializers.DateTimeField(required=False)
    method = serializers.CharField(max_length=60, required=False)


class ToolsQuery(Input):
    """Query of GET /tools; `servers` is a list of ids with commas, `server` one of them."""

    q = serializers.CharField(max_length=200, required=False, default="", allow_blank=True)
    server = serializers.CharField(required=False)
    servers = serializers.CharField(required=False)
    format = serializers.ChoiceField(choices=[kind.value for kind in Format], required=False)


class SecretsInput(Input):
    """Operator or tenant secrets of a preset; write-only, replaced as a whole."""

    headers = HeadersField(required=False)
    client_secret = TokenField(required=False)
    private_key = serializers.CharField(
        write_only=True, max_length=20_000, required=False, help_text="PEM or JWK."
    )


class ConnectorAuthInput(Input):
    """What a member has to bring: nothing, a token, values for these headers, or a sign-in.

    The members after `scopes` are for `oauth` and leave the specification: see docs/oauth.md.
    """

    type = serializers.ChoiceField(choices=AUTH_TYPES)
    header_names = serializers.ListField(
        child=serializers.RegexField(header_rules.NAME),
        max_length=header_rules.MOST_HEADERS,
        required=False,
    )
    scopes = serializers.ListField(
        child=serializers.CharField(max_length=200), max_length=100, required=False
    )
    scope_cap = serializers.ListField(
        child=serializers.CharField(max_length=200),
        max_length=100,
        required=False,
        help_text="Nothing beyond these is ever asked for.",
    )
    client_id = serializers.CharField(max_length=500, required=False)
    issuer = serializers.CharField(max_length=2000, required=False)
    extra_authorize_params = serializers.DictField(
        child=serializers.CharField(max_length=500), required=False
    )
    resource = serializers.CharField(
        max_length=2000, required=False, help_text="`auto`, `omit` or the value to send."
    )
    pkce = serializers.ChoiceField(choices=list(oauth_choices.PKCE), required=False)
    allow_legacy_discovery = serializers.BooleanField(required=False)
    token_endpoint_auth_method = serializers.ChoiceField(
        choices=[method.value for method in ClientAuthMethod], required=False
    )
    grant_type = serializers.ChoiceField(choices=[kind.value for kind in GrantType], required=False)


class ConnectorInput(ServerFieldsInput):
    """A tenant's own preset; never stdio, whose command line comes from the operator alone."""

    id = SlugField()
    auth = ConnectorAuthInput(required=False)  # type: ignore[assignment]  # a template here
    icon = serializers.CharField(max_length=2000, required=False, allow_blank=True)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
    secrets = SecretsInput(required=False, write_only=True)
    order = serializers.IntegerField(min_value=0, max_value=100_000, required=False)
    enabled = serializers.BooleanField(required=False)
    may_replay_reads = serializers.BooleanField(required=False)

    def validate_icon(self, icon: str) -> str:
        if not preset_rules.is_icon(icon):
            raise serializers.ValidationError(preset_rules.ICON_RULE)
        return icon


def absolute_http_url(url: str) -> str:
    """Refuse what is no absolute http(s) URL; whether it may be called is the egress policy's."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise serializers.ValidationError("An absolute http or https address.", code="bad_url")
    return url
