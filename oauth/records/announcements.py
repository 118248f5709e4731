"""Tells the packages above what has become of a grant, after the commit of its change."""

from __future__ import annotations

from functools import partial
from typing import Protocol
from uuid import UUID

from django.db import transaction

from oauth import signals
from oauth.models import Grant


class Owned(Protocol):
    """A grant, as a row or as one read saw it."""

    @property
    def id(self) -> UUID: ...
    @property
    def subject_key(self) -> UUID: ...
    @property
    def tenant_id(self) -> UUID: ...
    @property
    def member_id(self) -> UUID: ...


def ids_of(grant: Owned) -> signals.Ids:
    return signals.Ids(
        grant_id=grant.id,
        subject_key=grant.subject_key,
        tenant_id=grant.tenant_id,
        member_id=grant.member_id,
    )


def announce(signal: signals.GrantSignal, ids: signals.Ids, reason: str = "") -> None:
    """Send after the commit; a receiver that fails stops nobody."""
    transaction.on_commit(partial(signal.send_robust, sender=Grant, ids=ids, reason=str(reason)))
