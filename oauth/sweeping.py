"""Refresh ahead of expiry, spread over time, and removal of what is past its time."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from uuid import UUID

from mcphub.core.errors import HubError
from oauth import refresh_lock
from oauth.forecast import AHEAD_MAX, ahead_seconds
from oauth.means import Means, open_means
from oauth.records import grants, journal, notices, registrations, requests

logger = logging.getLogger(__name__)

MOST = 200
AT_ONCE = 8
GRACE = timedelta(days=7)
"""How long the sealed tokens of a lost grant are kept, so that a person can try again."""


async def refresh_due(means: Means) -> int:
    """Refresh every grant whose own moment has come; returns how many were refreshed."""
    due = await means.database.run(grants.due, timedelta(seconds=AHEAD_MAX), MOST)
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(subject_key: UUID) -> bool:
        async with gate:
            return await _refresh(means, subject_key)

    return sum(await asyncio.gather(*map(one, due)))


async def sweep() -> int:
    """As `refresh_due`, with means of its own; then tell of the ends that are near."""
    async with open_means() as means:
        refreshed = await refresh_due(means)
        await means.database.run(notices.give_notice, MOST)
        return refreshed


def prune() -> int:
    """Remove old requests, journal entries, lost grants and unused registrations."""
    count = requests.prune() + journal.prune() + grants.prune(GRACE)
    return count + registrations.prune()


async def _refresh(means: Means, subject_key: UUID) -> bool:
    try:
        seen = await means.database.run(grants.find, subject_key)
        if seen is None or not seen.is_active or not seen.can_renew:
            return False
        if seen.seconds_left > ahead_seconds(seen.id, seen.lifetime):
            return False
        await refresh_lock.renew(means, seen)
    except HubError as exc:
        logger.info("not refreshed subject=%s code=%s", subject_key, exc.problem_code)
        return False
    return True
