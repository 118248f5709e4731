"""One refresh per grant over all processes: lease, journal, compare-and-set; the loser re-reads.

Nothing here decides by what one process remembers: after every step the grant is read again, and
what the row says is the outcome. A refresh that a process had begun when it died is repeated once
by the next caller, and the authorization server's answer to that ends it either way.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
from uuid import UUID

from django.db import transaction

from mcphub.core.clock import Deadline
from mcphub.core.errors import HubError, UpstreamError
from mcphub.core.per_loop import PerLoop
from oauth import token_requests
from oauth.errors import AuthTemporarilyUnavailableError, GrantLostError
from oauth.means import ANSWER_SECONDS, Errand, Means
from oauth.models import Outcome, Source
from oauth.names import GrantType, LostReason
from oauth.records import grants, journal, registrations
from oauth.records.grants import Snapshot
from oauth.records.journal import Lease
from oauth.tokens import TokenAnswer, TokenRefusal

logger = logging.getLogger(__name__)

LEASE_SECONDS = 25.0
SEND_WITHIN = LEASE_SECONDS - ANSWER_SECONDS
WAIT_SECONDS = 2 * LEASE_SECONDS
POLL_SECONDS = 0.05
PAUSE_MAX = 300.0
RETRY_AFTER_MAX = 3600.0

Flight = asyncio.Task[Snapshot]
_flights: PerLoop[dict[tuple[UUID, int], Flight]] = PerLoop(dict)


async def renew(means: Means, seen: Snapshot, *, is_forced: bool = False) -> Snapshot:
    """Return the grant at a later version than `seen`; callers of one loop share one flight.

    Raises GrantLostError, AuthTemporarilyUnavailableError. A cancelled caller stops nothing.
    """
    flights, key = _flights(), (seen.id, seen.version)
    flight = flights.get(key)
    if flight is None:
        flight = flights[key] = asyncio.create_task(_renew(means, seen, is_forced=is_forced))
        flight.add_done_callback(lambda done: _landed(flights, key, done))
    return await asyncio.shield(flight)


def _landed(flights: dict[tuple[UUID, int], Flight], key: tuple[UUID, int], flight: Flight) -> None:
    flights.pop(key, None)
    if not flight.cancelled():
        flight.exception()  # callers have it; without one it must not be reported as forgotten


async def _renew(means: Means, first: Snapshot, *, is_forced: bool) -> Snapshot:
    seen, deadline = first, Deadline.after(WAIT_SECONDS)
    while True:
        if not seen.is_active:
            raise GrantLostError(seen.lost_reason)
        if seen.version != first.version:
            return seen
        if seen.pause_left:
            raise AuthTemporarilyUnavailableError(retry_after=seen.pause_left)
        if deadline.is_over:
            raise AuthTemporarilyUnavailableError(
                "Another process is refreshing the authorization.", retry_after=1.0
            )
        if not await _attempt(means, seen, is_forced=is_forced):
            await asyncio.sleep(POLL_SECONDS)
        read = await means.database.run(grants.find, first.subject_key)
        if read is None:
            raise GrantLostError(LostReason.REVOKED)
        seen = read


async def _attempt(means: Means, seen: Snapshot, *, is_forced: bool) -> bool:
    """Refresh if the lease is free; whatever comes of it is in the database afterwards."""
    if seen.is_leased:
        return False
    holder = f"{os.getpid()}-{secrets.token_hex(8)}"
    send_within = Deadline.after(SEND_WITHIN)
    lease = await means.database.run(journal.acquire, seen, holder, seconds=LEASE_SECONDS)
    if lease is None:
        return False
    if send_within.is_over:
        # This process stood still meanwhile; the lease may be somebody else's by now.
        await means.database.run(_record_failure, seen, lease, Outcome.NOT_SENT, "late")
        return True
    try:
        answer = await _ask(means, seen)
    except UpstreamError as exc:
        outcome = _outcome_of(exc)
        await means.database.run(_record_failure, seen, lease, outcome, exc.problem_code)
    except HubError as exc:  # nothing was sent: egress policy, unusable key
        await means.database.run(_record_failure, seen, lease, Outcome.NOT_SENT, exc.problem_code)
    else:
        await _settle(means, seen, lease, answer, is_forced=is_forced)
    return True


async def _ask(means: Means, seen: Snapshot) -> TokenAnswer | TokenRefusal:
    form = {"grant_type": seen.kind.value}
    if seen.kind is GrantType.CLIENT_CREDENTIALS:
        form |= {"scope": " ".join(seen.scopes)} if seen.scopes else {}
    else:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": seen.refresh_token.value if seen.refresh_token else "",
        }
    if seen.resource:
        form["resource"] = seen.resource
    return await token_requests.ask(Errand(means.http), seen.client, seen.token_endpoint, form)


async def _settle(
    means: Means,
    seen: Snapshot,
    lease: Lease,
    answer: TokenAnswer | TokenRefusal,
    *,
    is_forced: bool,
) -> None:
    run = means.database.run
    if isinstance(answer, TokenRefusal):
        await run(_record_refusal, seen, lease, answer)
    elif not await run(_record_tokens, seen, lease, answer, is_forced=is_forced):
        await _discard(means, seen, answer)


async def _discard(means: Means, seen: Snapshot, answer: TokenAnswer) -> None:
    """Revoke tokens that came after the member had disconnected.

    When the grant lives on with newer tokens nothing is revoked: many servers would end those too.
    """
    now = await means.database.run(grants.find, seen.subject_key)
    if now is not None and now.is_active:
        return
    await token_requests.revoke(
        Errand(means.http),
        seen.client,
        seen.revocation_endpoint,
        answer.refresh_token,
        answer.access_token,
    )


def _record_tokens(seen: Snapshot, lease: Lease, answer: TokenAnswer, *, is_forced: bool) -> bool:
    """Store the tokens before anything else is looked at."""
    with transaction.atomic():
        is_stored = grants.advance(seen, answer, is_forced=is_forced)
        journal.close(lease, Outcome.STORED if is_stored else Outcome.DISCARDED)
    logger.info("refreshed grant=%s stored=%s forced=%s", seen.id, is_stored, is_forced)
    return is_stored


def _record_refusal(seen: Snapshot, lease: Lease, refusal: TokenRefusal) -> None:
    reason = _end_of(seen, lease, refusal)
    if reason is None:
        detail = refusal.error or f"http_{refusal.http_status}"
        pause = min(refusal.retry_after or 0.0, RETRY_AFTER_MAX)
        _record_failure(seen, lease, Outcome.FAILED, detail, pause=pause)
        return
    with transaction.atomic():
        journal.close(lease, Outcome.REFUSED, refusal.error)
        is_lost = grants.lose(seen, reason)
        if is_lost and reason is LostReason.CLIENT_FORGOTTEN:
            registrations.drop(seen.client.registration_id)
    logger.warning("refresh refused grant=%s reason=%s lost=%s", seen.id, reason.value, is_lost)


def _end_of(seen: Snapshot, lease: Lease, refusal: TokenRefusal) -> LostReason | None:
    """Return why the grant is over; None: the tokens are kept and tried again."""
    if refusal.is_passing:
        return None
    if refusal.ends_grant and seen.kind is GrantType.AUTHORIZATION_CODE:
        is_interrupted = lease.is_repeat
        return LostReason.REFRESH_INTERRUPTED if is_interrupted else LostReason.REFRESH_REFUSED
    is_own_client = registrations.source_of(seen.client.registration_id) == Source.DCR
    if refusal.forgot_client and is_own_client:
        return LostReason.CLIENT_FORGOTTEN
    return None  # the operator's client, an invalid scope: settings can be put right


def _record_failure(
    seen: Snapshot, lease: Lease, outcome: Outcome, detail: str, *, pause: float = 0.0
) -> None:
    seconds = max(pause, pause_after(seen.failures))
    with transaction.atomic():
        journal.close(lease, outcome, detail)
        grants.postpone(seen, lease.holder, seconds=seconds, failure=detail)
    logger.warning(
        "refresh failed grant=%s outcome=%s code=%s pause=%.1f", seen.id, outcome, detail, seconds
    )


def _outcome_of(exc: UpstreamError) -> Outcome:
    if not exc.was_sent:
        return Outcome.NOT_SENT
    return Outcome.FAILED if exc.was_answered else Outcome.UNANSWERED


def pause_after(failures: int) -> float:
    """Return the pause after one more failure: 1, 2, 4 … 300 s, the last half of it random."""
    longest = min(PAUSE_MAX, 2.0 ** min(failures, 10))
    return longest * (0.5 + random.random() / 2)  # noqa: S311  (spreads load, guards nothing)
