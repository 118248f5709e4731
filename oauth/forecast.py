"""What will happen to a grant, and when it is refreshed; pure.

Refreshes are spread: each grant has its own share of the time before the end, so that grants that
were made together are not refreshed together.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

AHEAD_MAX = 300.0
"""The sweep refreshes at most this many seconds before the end."""
AHEAD_SHARE = 0.25
NOTICE_MAX = 86400.0
"""Of an end that only a person can put off, members hear at most this many seconds before."""
NOTICE_SHARE = 0.25
ON_USE_MAX = 30.0
"""A token that is used is refreshed at the latest this many seconds before its end."""
ON_USE_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a forecast is made from."""

    grant_id: UUID
    issued_at: datetime
    expires_at: datetime | None
    refresh_expires_at: datetime | None
    has_refresh: bool
    lost_reason: str
    is_lost: bool
    last_failure: str
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`reason` says why it cannot refresh, or why it waits; "" when all is well.

    `expires_at` is the token's end, `ends_at` when a person is needed as far as is known.
    """

    expires_at: datetime | None
    ends_at: datetime | None
    will_refresh_at: datetime | None
    can_refresh: bool
    reason: str


def forecast(known: Known, now: datetime) -> Forecast:
    """Return what will happen if nobody does anything."""
    if known.is_lost:
        return Forecast(
            expires_at=None,
            ends_at=None,
            will_refresh_at=None,
            can_refresh=False,
            reason=known.lost_reason,
        )
    ends = known.refresh_expires_at
    reason = ""
    if known.expires_at is not None and not known.has_refresh:
        reason = "no_refresh_token"
    elif known.has_refresh and ends is not None and ends <= now:
        reason = "refresh_token_expired"
    can_refresh = known.has_refresh and not reason
    return Forecast(
        expires_at=known.expires_at,
        ends_at=ends if can_refresh else known.expires_at,
        will_refresh_at=_refresh_at(known, now) if can_refresh else None,
        can_refresh=can_refresh,
        reason=reason or known.last_failure,
    )


def ahead_seconds(grant_id: UUID, lifetime: float) -> float:
    """Return how long before its end the sweep refreshes this grant."""
    share = 0.5 + (grant_id.int & 0xFFFF) / 0x1FFFE
    return min(AHEAD_MAX, AHEAD_SHARE * lifetime) * share


def notice_seconds(lifetime: float) -> float:
    """Return how long before its end a member hears of it."""
    return min(NOTICE_MAX, NOTICE_SHARE * lifetime)


def is_due_on_use(seconds_left: float, lifetime: float) -> bool:
    """Whether a token that is about to be used has to be refreshed first."""
    return seconds_left <= min(ON_USE_MAX, ON_USE_SHARE * lifetime)


def _refresh_at(known: Known, now: datetime) -> datetime | None:
    if known.expires_at is None:
        return None
    lifetime = (known.expires_at - known.issued_at).total_seconds()
    planned = known.expires_at - timedelta(seconds=ahead_seconds(known.grant_id, lifetime))
    return max(filter(None, (planned, known.next_attempt_at)), default=now)
