"""TraceEvent: one JSON-RPC message that was seen, redacted.

Connection and call are plain ids: rows of packages above are not referenced from here.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from mcphub.core import ids
from tenants.scoping import TenantScoped


class Direction(models.TextChoices):
    SENT = "sent"
    RECEIVED = "received"


class MessageType(models.TextChoices):
    REQUEST = "request"
    RESPONSE = "response"
    ERROR = "error"
    NOTIFICATION = "notification"
    INVALID = "invalid"


class TraceEvent(TenantScoped):
    """One message; the id is time-ordered (UUIDv7), `seq` counts the messages of one session."""

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    seq = models.BigIntegerField()
    at = models.DateTimeField()
    member_id = models.UUIDField()
    connection_id = models.UUIDField()
    server = models.CharField(max_length=24)
    call_id = models.UUIDField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(default=1)
    direction = models.CharField(max_length=8, choices=Direction.choices)
    type = models.CharField(max_length=12, choices=MessageType.choices)
    method = models.CharField(max_length=120, blank=True)
    rpc_id = models.CharField(max_length=80, blank=True)
    content = models.TextField()
    is_error = models.BooleanField(default=False)
    error_code = models.IntegerField(null=True, blank=True)
    size = models.PositiveIntegerField()
    truncated = models.BooleanField(default=False)
    redacted = models.BooleanField(default=False)
    synthetic = models.BooleanField(default=False)
    duration_ms = models.FloatField(null=True, blank=True)
    http = models.TextField(blank=True)

    class Meta(TenantScoped.Meta):
        indexes: ClassVar = [
            models.Index(fields=["tenant", "member_id", "-id"], name="trace_by_member"),
            models.Index(fields=["connection_id", "-id"], name="trace_by_connection"),
            models.Index(fields=["call_id"], name="trace_by_call"),
            models.Index(fields=["at"], name="trace_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.direction} {self.type} {self.method}"
