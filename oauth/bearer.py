"""The current access token of a connection: refreshed ahead of its end, newer once after a 401.

No flow runs in here: when a person is needed it raises GrantLostError.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass
from uuid import UUID

from mcphub.core.crypto import Secret
from mcphub.core.per_loop import PerLoop
from oauth import refresh_lock
from oauth.errors import AuthTemporarilyUnavailableError, GrantLostError
from oauth.forecast import is_due_on_use
from oauth.means import Means
from oauth.names import LostReason
from oauth.records import grants
from oauth.records.grants import Snapshot

KEPT_SECONDS = 2.0
FRESH_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Kept:
    token: Secret
    server_url: str
    until: float


_kept: PerLoop[dict[UUID, _Kept]] = PerLoop(dict)
MOST_KEPT = 10_000


async def access_token(
    means: Means, subject_key: UUID, *, server_url: str = "", rejected: str | None = None
) -> Secret:
    """Return a token to send; `rejected` is one that the server just answered with 401.

    `server_url` is where it will be sent: a grant that was given for another address is lost.

    Raises GrantLostError (a person is needed, with the reason) and
    AuthTemporarilyUnavailableError (tokens are kept; later). No query for 2 s after the last one.
    """
    kept = _kept().get(subject_key)
    if rejected is None and kept is not None and _may_use(kept, server_url):
        return kept.token
    seen = await means.database.run(grants.find, subject_key)
    if seen is None or not seen.is_active:
        forget(subject_key)
        raise GrantLostError(seen.lost_reason if seen else None)
    if server_url and server_url != seen.server_url:
        await _lose(means, seen, LostReason.SERVER_CHANGED)
    if rejected is not None and _is_same(seen.access_token, rejected):
        return _keep(await _after_rejection(means, seen))
    if not is_due_on_use(seen.seconds_left, seen.lifetime):
        return _keep(seen)
    return _keep(await _ahead(means, seen))


def forget(subject_key: UUID) -> None:
    """Drop what this loop remembers, so that the next use reads the grant."""
    _kept().pop(subject_key, None)


async def _ahead(means: Means, seen: Snapshot) -> Snapshot:
    """Refresh a token that ends soon; while it still works a failure is no reason to stop."""
    if not seen.can_renew:
        if seen.seconds_left > 0:
            return seen
        await _lose(means, seen, LostReason.EXPIRED)
    try:
        return await refresh_lock.renew(means, seen)
    except AuthTemporarilyUnavailableError:
        if seen.seconds_left > 0:
            return seen
        raise


async def _after_rejection(means: Means, seen: Snapshot) -> Snapshot:
    """Get one newer token; when that one is new already, it ends here instead of in a loop."""
    if not seen.can_renew:
        await _lose(means, seen, LostReason.TOKEN_REJECTED)
    age = (seen.seen_at - seen.issued_at).total_seconds()
    if seen.is_forced and age < FRESH_SECONDS:
        await _lose(means, seen, LostReason.FRESH_TOKEN_REJECTED)
    return await refresh_lock.renew(means, seen, is_forced=True)


async def _lose(means: Means, seen: Snapshot, reason: LostReason) -> None:
    """End the grant unless it is newer by now; then the caller's next try uses that."""
    forget(seen.subject_key)
    if await means.database.run(grants.lose, seen, reason):
        raise GrantLostError(reason)
    now = await means.database.run(grants.find, seen.subject_key)
    if now is None or not now.is_active:
        raise GrantLostError(now.lost_reason if now else None)
    raise AuthTemporarilyUnavailableError(retry_after=0.1)


def _keep(seen: Snapshot) -> Secret:
    kept = _kept()
    if len(kept) >= MOST_KEPT:
        kept.clear()
    seconds = min(KEPT_SECONDS, max(0.0, seen.seconds_left / 10))
    until = time.monotonic() + seconds
    kept[seen.subject_key] = _Kept(seen.access_token, seen.server_url, until)
    return seen.access_token


def _may_use(kept: _Kept, server_url: str) -> bool:
    return kept.until > time.monotonic() and server_url in {"", kept.server_url}


def _is_same(token: Secret, rejected: str) -> bool:
    return hmac.compare_digest(token.value.encode(), rejected.encode())
