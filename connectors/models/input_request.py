"""InputRequest: a question that a server asks in the course of a call, waiting for its answer."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from connectors.models.connection import Connection
from mcphub.core import ids
from tenants.scoping import TenantScoped


class InputKind(models.TextChoices):
    FORM = "form"
    URL = "url"
    SAMPLING = "sampling"
    ROOTS = "roots"


class InputState(models.TextChoices):
    OPEN = "open"
    ANSWERED = "answered"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class InputRequest(TenantScoped):
    """Moves once, from `open`, by conditional UPDATE; what is asked and answered is sealed.

    `worker` is set while a session in that process waits for the answer (handshake era); without
    one, the answers of a `round` travel with the next sending of the call (2026-07-28), under
    `key`. `call_id` NULL: the server does not say which call it asks for.
    """

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member_id = models.UUIDField()
    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="inputs")
    call_id = models.UUIDField(null=True, blank=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    round = models.PositiveSmallIntegerField(default=0)
    key = models.CharField(max_length=255, blank=True)
    worker = models.CharField(max_length=80, blank=True)
    kind = models.CharField(max_length=8, choices=InputKind.choices)
    state = models.CharField(max_length=9, choices=InputState.choices, default=InputState.OPEN)
    sealed_params = models.BinaryField(editable=False)
    sealed_answer = models.BinaryField(null=True, blank=True, editable=False)
    elicitation_id = models.CharField(max_length=255, blank=True)
    needs_completion = models.BooleanField(
        default=False, help_text="Consent does not answer it: the page has to be finished."
    )
    is_consented = models.BooleanField(default=False)
    error = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantScoped.Meta):
        indexes: ClassVar = [
            models.Index(fields=["tenant", "member_id", "-id"], name="input_by_member"),
            models.Index(fields=["call_id", "round"], name="input_by_call"),
            models.Index(
                fields=["expires_at"], condition=models.Q(state="open"), name="input_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} ({self.state})"
