"""Outcomes: how a call ended, as it is stored (sealed) and as it travels to who waits for it."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field

from connectors.models import CallStatus, ToolCall
from connectors.models.tool_call import OPEN_STATUSES
from mcphub.core import redis as hub_redis
from mcphub.core.keys import key_ring
from mcphub.core.types import JSONObject

REPLY_BYTES = 256 << 10
"""A larger outcome is not sent through Redis: who waits reads the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """`outcome_json` is {"result": …} or {"error": …} as the peer gave it; None: there is none."""

    id: uuid.UUID
    status: CallStatus
    outcome_json: bytes | None = field(default=None, repr=False)
    is_tool_error: bool = False
    problem_code: str = ""
    problem_detail: str = ""


def is_open(status: str) -> bool:
    return status in OPEN_STATUSES


def seal_params(call_id: uuid.UUID, params: bytes) -> bytes:
    return key_ring().seal(params, owner=f"tool_call:{call_id}:params")


def open_params(call_id: uuid.UUID, sealed: bytes) -> JSONObject:
    """Return the JSON-RPC params of a call. Raises CredentialUnreadableError."""
    params: JSONObject = json.loads(key_ring().unseal(sealed, owner=f"tool_call:{call_id}:params"))
    return params


def seal_outcome(call_id: uuid.UUID, outcome: bytes) -> bytes:
    return key_ring().seal(outcome, owner=f"tool_call:{call_id}:outcome")


def outcome_of(row: ToolCall) -> CallOutcome:
    """Return how a stored call stands, with its result. Raises CredentialUnreadableError."""
    opened = None
    if row.sealed_outcome is not None:
        owner = f"tool_call:{row.pk}:outcome"
        opened = key_ring().unseal(bytes(row.sealed_outcome), owner=owner)
    return CallOutcome(
        id=row.pk,
        status=CallStatus(row.status),
        outcome_json=opened,
        is_tool_error=row.is_tool_error,
        problem_code=row.problem_code,
        problem_detail=row.problem_detail,
    )


def reply_channel(address: str) -> str:
    """Return where the process with this address hears of its calls."""
    return hub_redis.key("reply", address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What travels: a line of JSON, then the outcome's bytes as they are."""

    outcome: CallOutcome
    is_in_row: bool = False
    """The outcome itself is too large to travel."""

    def encode(self) -> bytes:
        told = self.outcome
        is_in_row = told.outcome_json is not None and len(told.outcome_json) > REPLY_BYTES
        head = {
            "id": told.id.hex,
            "status": told.status.value,
            "toolError": told.is_tool_error,
            "code": told.problem_code,
            "detail": told.problem_detail,
            "inRow": is_in_row,
            "hasOutcome": told.outcome_json is not None and not is_in_row,
        }
        body = b"" if is_in_row or told.outcome_json is None else told.outcome_json
        return json.dumps(head).encode() + b"\n" + body

    @classmethod
    def decode(cls, message: bytes) -> Reply:
        """Read what `encode` wrote. Raises ValueError, KeyError."""
        line, _, body = message.partition(b"\n")
        head = json.loads(line)
        outcome = CallOutcome(
            id=uuid.UUID(hex=head["id"]),
            status=CallStatus(head["status"]),
            outcome_json=body if head["hasOutcome"] else None,
            is_tool_error=head["toolError"],
            problem_code=head["code"],
            problem_detail=head["detail"],
        )
        return cls(outcome=outcome, is_in_row=head["inRow"])
