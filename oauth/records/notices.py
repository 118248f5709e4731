"""Tells beforehand of grants that end soon and that nothing but a person can renew."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, When

from oauth import signals
from oauth.forecast import NOTICE_MAX, notice_seconds
from oauth.models import Grant, GrantStatus
from oauth.names import Change, GrantType
from oauth.records.announcements import announce, ids_of
from oauth.records.time import database_now

SAME_END = timedelta(minutes=1)
"""A provider that counts the rest of a life in seconds names the same end a little differently."""


def give_notice(limit: int) -> int:
    """Announce `ending` once for each end that has come near; returns how many."""
    now = database_now()
    given = 0
    for row in _ending().filter(end__gt=now, end__lt=now + timedelta(seconds=NOTICE_MAX))[:limit]:
        left, lifetime = row.end - now, row.end - row.issued_at
        if left.total_seconds() > notice_seconds(lifetime.total_seconds()):
            continue
        with transaction.atomic():
            same = Grant.unscoped.filter(pk=row.pk, version=row.version, status=GrantStatus.ACTIVE)
            if same.filter(noticed_end=row.noticed_end).update(noticed_end=row.end):
                announce(signals.authorization_changed, ids_of(row), Change.ENDING)
                given += 1
    return given


def _ending() -> QuerySet[Any]:
    """Return grants with the `end` that a person is needed at, if nobody was told of it."""
    rows = Grant.unscoped.filter(status=GrantStatus.ACTIVE, kind=GrantType.AUTHORIZATION_CODE)
    end = Case(
        When(sealed_refresh_token__isnull=True, then=F("expires_at")),
        default=F("refresh_expires_at"),
    )
    untold = Q(noticed_end__isnull=True) | Q(end__gt=F("noticed_end") + SAME_END)
    return rows.annotate(end=end).filter(untold).order_by("end")
