"""The ways in which this package notifies those above it: ids only, sent after the commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from django.dispatch import Signal

GrantSignal: TypeAlias = Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """Which grant; `subject_key` is the connection's id."""

    grant_id: UUID
    subject_key: UUID
    tenant_id: UUID
    member_id: UUID


authorization_completed = Signal()
"""Receivers get `ids: Ids` and `reason: str` (empty): tokens are stored, connect now."""

authorization_lost = Signal()
"""Receivers get `ids: Ids` and `reason: str` (a LostReason): a person has to sign in again."""

authorization_changed = Signal()
"""Receivers get `ids: Ids` and `reason: str` (a Change): its forecast is another, or comes true."""
