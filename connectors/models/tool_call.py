"""ToolCall: the ledger. One row per request that an app made of an upstream server.

    queued → claimed → sent → succeeded | failed | cancelled | outcome_unknown
    queued | claimed → expired | cancelled | failed
    sent → input_required → sent         a session waits for the answer (handshake era)
    sent → input_required → queued       the answer goes with a new sending (2026-07-28)
    input_required → expired | cancelled | outcome_unknown

Every move is a conditional UPDATE. `sent` is committed before the first byte goes upstream, so
`outcome_unknown` is exactly: sent, and no answer came.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from mcphub.core import ids
from tenants.scoping import TenantScoped


class CallStatus(models.TextChoices):
    QUEUED = "queued"
    CLAIMED = "claimed"
    SENT = "sent"
    INPUT_REQUIRED = "input_required"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    OUTCOME_UNKNOWN = "outcome_unknown"


OPEN_STATUSES = (CallStatus.QUEUED, CallStatus.CLAIMED, CallStatus.SENT, CallStatus.INPUT_REQUIRED)


class ToolCall(TenantScoped):
    """One request; its parameters and its outcome are sealed.

    `sealed_params` opens to the JSON-RPC params, `sealed_outcome` to {"result": …} or {"error": …}.
    `sealed_state` opens to {"requestState": …, "round": …} after a round of questions.
    `stream` says where the answer can be asked for again: {"session", "request", "event"}.
    `task_key` names the task that was started instead of an answer (see connectors.started_tasks).
    `relay` is what the worker has to know of the downstream client, NULL for calls by REST.
    `method` is the MCP method (`tools/call`, `resources/read`, `prompts/get`, …); `target` the
    tool, URI or prompt name.
    """

    id = models.UUIDField(primary_key=True, default=ids.new_uuid, editable=False)
    member_id = models.UUIDField()
    connection_id = models.UUIDField()
    server = models.CharField(max_length=24)
    method = models.CharField(max_length=60, default="tools/call")
    target = models.CharField(max_length=2000, blank=True)
    status = models.CharField(max_length=16, choices=CallStatus.choices, default=CallStatus.QUEUED)
    attempt = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=80, blank=True)
    reply_to = models.CharField(max_length=80, blank=True)
    sealed_params = models.BinaryField()
    sealed_outcome = models.BinaryField(null=True, blank=True)
    sealed_state = models.BinaryField(null=True, blank=True)
    stream = models.JSONField(null=True, blank=True, editable=False)
    relay = models.JSONField(null=True, blank=True, editable=False)
    rounds = models.PositiveSmallIntegerField(default=0)
    task_key = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001  (most have none)
    is_tool_error = models.BooleanField(default=False)
    problem_code = models.CharField(max_length=60, blank=True)
    problem_detail = models.CharField(max_length=500, blank=True)
    progress = models.JSONField(null=True, blank=True)
    timeout_ms = models.PositiveIntegerField()
    deadline_at = models.DateTimeField()
    is_cancel_requested = models.BooleanField(default=False)
    idempotency_key = models.CharField(max_length=255, null=True, blank=True)  # noqa: DJ001  (NULL is not unique, "" is)
    body_hash = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True, blank=True)
    sent_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantScoped.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["tenant", "member_id", "idempotency_key"], name="idempotency_key_once"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["tenant", "member_id", "-id"], name="call_by_member"),
            models.Index(fields=["connection_id", "-id"], name="call_by_connection"),
            models.Index(
                fields=["connection_id", "task_key"],
                condition=models.Q(task_key__isnull=False),
                name="call_by_task",
            ),
            models.Index(
                fields=["status", "deadline_at"],
                condition=models.Q(status__in=["queued", "claimed", "sent", "input_required"]),
                name="call_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.target} ({self.status})"
