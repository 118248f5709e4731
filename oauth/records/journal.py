"""The refresh lease and its journal: what is about to be spent is written down before it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from oauth.models import Grant, GrantStatus, Outcome, RefreshJournal
from oauth.records.grants import Snapshot
from oauth.records.time import database_now

KEPT = timedelta(days=7)
UNCLEAR = (Outcome.STARTED, Outcome.UNANSWERED)
"""Outcomes after which the token may have been spent without anybody knowing its successor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to refresh one version; `is_repeat`: the token may have been spent before."""

    entry_id: UUID
    holder: str
    is_repeat: bool


def acquire(seen: Snapshot, holder: str, *, seconds: float) -> Lease | None:
    """Take the lease and write the journal entry, in one transaction; None: somebody else has it.

    A database that is away raises instead: "held" and "cannot tell" are different answers.
    """
    with transaction.atomic():
        now = database_now()
        free = Q(refresh_until__isnull=True) | Q(refresh_until__lte=now)
        rows = Grant.unscoped.filter(
            free, pk=seen.id, version=seen.version, status=GrantStatus.ACTIVE
        )
        taken = rows.update(refresh_holder=holder, refresh_until=now + timedelta(seconds=seconds))
        if not taken:
            return None
        earlier = RefreshJournal.unscoped.filter(grant_id=seen.id, version=seen.version)
        is_repeat = earlier.filter(outcome__in=UNCLEAR).exists()
        entry = RefreshJournal.unscoped.create(
            tenant_id=seen.tenant_id,
            grant_id=seen.id,
            version=seen.version,
            holder=holder,
            started_at=now,
        )
    return Lease(entry_id=entry.pk, holder=holder, is_repeat=is_repeat)


def close(lease: Lease, outcome: Outcome, detail: str = "") -> None:
    RefreshJournal.unscoped.filter(pk=lease.entry_id).update(
        outcome=outcome, detail=detail[:40], ended_at=database_now()
    )


def prune() -> int:
    oldest = database_now() - KEPT
    return RefreshJournal.unscoped.filter(started_at__lt=oldest).delete()[0]
