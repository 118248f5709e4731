"""What the endpoints of the trace take: query parameters."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from mcphub.api.serializers import Input
from tracing.exports import Format
from tracing.models import Direction, MessageType
from tracing.selectors import TraceFilter

PAGING = frozenset({"limit", "cursor"})


class TraceQuery(Input):
    """Filters of `/traces`; each narrows."""

    server = serializers.CharField(max_length=24, required=False)
    call = serializers.UUIDField(required=False)
    direction = serializers.ChoiceField(choices=Direction.values, required=False)
    type = serializers.ChoiceField(choices=MessageType.values, required=False)
    method = serializers.CharField(max_length=120, required=False)
    status = serializers.ChoiceField(choices=["ok", "error"], required=False)
    text = serializers.CharField(max_length=200, required=False, help_text="In the content.")
    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)


class ExportQuery(TraceQuery):
    format = serializers.ChoiceField(
        choices=[kind.value for kind in Format], required=False, default=Format.JSON.value
    )


def trace_filter(query: Any) -> TraceFilter:
    """Read a query string. Raises DRF's ValidationError (a 422 with pointers)."""
    return TraceFilter(**TraceQuery.read(_single(query)))


def export_query(query: Any) -> tuple[Format, TraceFilter]:
    values = ExportQuery.read(_single(query))
    return Format(values.pop("format")), TraceFilter(**values)


def _single(query: Any) -> dict[str, str]:
    return {name: value for name, value in query.items() if name not in PAGING}
