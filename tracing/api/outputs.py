"""What the endpoints of the trace answer; the shape itself is made by `tracing.rows.wire`."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from mcphub.api.serializers import Output
from tracing.models import Direction, MessageType


class AnyJSONField(serializers.JSONField):
    """A value of any JSON type."""


class TraceErrorOutput(Output):
    plane = serializers.ChoiceField(
        choices=["protocol", "tool", "hub", "invalid"],
        help_text="Whose: the peer's JSON-RPC error, an `isError` result, ours, or no JSON-RPC.",
    )
    code = serializers.IntegerField(allow_null=True)


class TraceHttpOutput(Output):
    method = serializers.CharField()
    status = serializers.IntegerField()
    duration_ms = serializers.FloatField(help_text="Until the head of the answer was there.")
    request_headers = serializers.DictField(
        child=serializers.CharField(), help_text="Values of harmless headers, names of all."
    )
    response_headers = serializers.DictField(child=serializers.CharField())


class TraceOutput(Output):
    """One JSON-RPC message that was seen, redacted."""

    id = serializers.UUIDField()
    seq = serializers.IntegerField(help_text="Counts the messages of one upstream session.")
    at = serializers.DateTimeField()
    server = serializers.CharField()
    call = serializers.UUIDField(allow_null=True)
    attempt = serializers.IntegerField()
    direction = serializers.ChoiceField(choices=Direction.values)
    type = serializers.ChoiceField(choices=MessageType.values)
    method = serializers.CharField(allow_null=True, help_text="Of a response: its request's.")
    rpc_id = serializers.CharField(allow_null=True)
    content: Any = AnyJSONField(
        allow_null=True, help_text="The message; a text when it was no JSON-RPC message."
    )
    content_omitted = serializers.BooleanField(
        required=False, help_text="The content is too large for a list: read the message by its id."
    )
    error = TraceErrorOutput(allow_null=True)
    size = serializers.IntegerField(help_text="Bytes on the wire.")
    truncated = serializers.BooleanField()
    redacted = serializers.BooleanField()
    synthetic = serializers.BooleanField(help_text="Made by the hub; it was never on the wire.")
    duration_ms = serializers.FloatField(allow_null=True)
    http = TraceHttpOutput(
        allow_null=True, help_text="The HTTP exchange that carried an answer, if one did."
    )
