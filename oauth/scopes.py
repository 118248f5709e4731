"""Which scopes a sign-in asks for, and when asking once more is no use; pure."""

from __future__ import annotations

import hashlib

from oauth.challenge import BearerChallenge
from oauth.discovery import Discovered
from oauth.errors import InsufficientScopeError
from oauth.names import GrantType
from oauth.records.grants import Snapshot
from oauth.server_auth import ServerAuth

MOST_STEP_UPS = 3
OFFLINE_ACCESS = "offline_access"


def wanted(
    auth: ServerAuth, asked: BearerChallenge, found: Discovered, held: Snapshot | None
) -> tuple[str, ...]:
    """Return what to ask for: challenge, else metadata, else nothing; never the whole catalogue.

    With a cap "nothing" is its scopes, since a server that is asked for none gives what it likes.
    """
    suggested = asked.scopes or found.scopes or ()
    chosen = list(auth.scopes if auth.scopes is not None else suggested)
    if asked.wants_more_scopes:
        chosen = [*(held.scopes if held else ()), *chosen, *asked.scopes]
    may_add = auth.grant_type is GrantType.AUTHORIZATION_CODE
    if chosen and may_add and OFFLINE_ACCESS in found.server.scopes:
        chosen.append(OFFLINE_ACCESS)
    if auth.scope_cap is not None:
        chosen = [scope for scope in chosen if scope in auth.scope_cap] or sorted(auth.scope_cap)
    return tuple(dict.fromkeys(chosen))


def check_step_up(
    asked: BearerChallenge,
    held: Snapshot | None,
    *,
    cap: frozenset[str] | None,
    operation: str,
) -> None:
    """Raise InsufficientScopeError where one more sign-in would not help."""
    if not asked.wants_more_scopes:
        return
    is_beyond = cap is not None and not cap.issuperset(asked.scopes)
    if not is_beyond and not _was_last(held, operation):
        return
    error = InsufficientScopeError()
    error.extra = {
        "neededScopes": list(asked.scopes),
        "grantedScopes": list(held.scopes) if held else [],
    }
    raise error


def _was_last(held: Snapshot | None, operation: str) -> bool:
    if held is None:
        return False
    # Where not even a session opens, the sign-in before it was the first of three.
    most = MOST_STEP_UPS if operation else MOST_STEP_UPS - 1
    return held.step_ups.get(operation_key(operation), 0) >= most


def operation_key(operation: str) -> str:
    """Return a short name for the operation; the server's own text stays out of the row."""
    return hashlib.sha256(operation.encode("utf-8", "surrogatepass")).hexdigest()[:32]
