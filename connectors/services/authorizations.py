"""What the end or the loss of an authorization means for its connection; and its revocation.

Web and worker side, synchronous. Receivers of oauth's signals run after the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from django.db import transaction

from connectors import events, queue
from connectors.models import Connection
from connectors.services import reopening
from connectors.services.transitions import transition
from connectors.states import State
from mcphub.core.errors import HubError, UnavailableError
from oauth import flows
from oauth.means import open_means
from oauth.names import Change, LostReason
from oauth.records import requests
from oauth.signals import Ids

logger = logging.getLogger(__name__)

FEW = 3
"""So many grants are revoked at once; more go to the workers."""
CLIENT = ("issuer", "clientId", "grantType")
"""A change of these choices makes the old tokens somebody else's."""


def on_completed(*, ids: Ids, **rest: object) -> None:
    """Connect by itself what a member has signed in for."""
    del rest
    row = Connection.unscoped.filter(pk=ids.subject_key).first()
    if row is None:
        return
    if not row.is_wanted:
        events.announce_server(row)
        return
    transition(row.pk, State.AUTH_PENDING, expect=[State.AUTH_REQUIRED])
    with transaction.atomic():
        reopening.reopen(row)


def on_lost(*, ids: Ids, **rest: object) -> None:
    """Have an open session opened anew: that ends with a fresh address to sign in at.

    One that is being opened finds the loss by itself.
    """
    del rest
    row = Connection.unscoped.filter(pk=ids.subject_key).first()
    if row is None:
        return
    if row.is_wanted and row.state == State.CONNECTED.value:
        with transaction.atomic():
            reopening.reopen(row)
    else:
        events.announce_server(row)


def on_changed(*, ids: Ids, reason: str, **rest: object) -> None:
    """Tell the member what has become of the authorization, and what will."""
    del rest
    row = Connection.unscoped.filter(pk=ids.subject_key).first()
    if row is None:
        return
    events.announce_authorization(row, Change(reason))
    events.announce_server(row)


def is_other_client(before: Any, after: Any) -> bool:
    """Whether tokens of the old choices may not be used with the new ones."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return bool(before != after)
    return any(before.get(name) != after.get(name) for name in CLIENT)


def revoke_after_commit(
    connection_ids: Collection[UUID], reason: LostReason = LostReason.REVOKED
) -> None:
    """End the grants of connections, at the authorization server as well, after the commit."""
    known = requests.known_among(connection_ids)
    if known:
        transaction.on_commit(lambda: _revoke_all(known, reason))


def revoke(connection_id: UUID, reason: LostReason = LostReason.REVOKED) -> None:
    """End one grant; what the authorization server says to it does not matter."""
    try:
        async_to_sync(_revoke)(connection_id, reason)
    except HubError as exc:
        logger.warning("not revoked connection=%s code=%s", connection_id, exc.problem_code)


def _revoke_all(connection_ids: Collection[UUID], reason: LostReason) -> None:
    for number, connection_id in enumerate(connection_ids):
        if number < FEW:
            revoke(connection_id, reason)
            continue
        try:
            queue.send_revoke(connection_id, reason.value)
        except UnavailableError:  # a token is never sent to another address than its own
            logger.warning("not asked to revoke connection=%s", connection_id)


async def _revoke(connection_id: UUID, reason: LostReason) -> None:
    async with open_means() as means:
        await flows.revoke(means, connection_id, reason)
