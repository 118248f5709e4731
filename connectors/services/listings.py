"""Reading a server's lists over an open session, each within its caps and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

from connectors.models import ListingKind
from connectors.services import faults
from connectors.services.catalog import FetchedList
from connectors.upstream import wire
from connectors.upstream.session import Session
from mcphub.core.clock import Deadline
from mcphub.core.errors import AuthorizationNeededError, HubError
from mcphub.core.types import JSONObject

METHODS = {
    ListingKind.TOOLS: "tools/list",
    ListingKind.RESOURCES: "resources/list",
    ListingKind.TEMPLATES: "resources/templates/list",
    ListingKind.PROMPTS: "prompts/list",
}
LIST_SECONDS = 30.0
METHOD_NOT_FOUND = -32601


async def fetch_first(session: Session) -> list[FetchedList]:
    """Read every list that the server declares, for a connection that is being opened.

    Raises what means that the session cannot be used: AuthorizationNeededError, a lost session.
    """
    return await _fetch(session, list(ListingKind), is_first=True)


async def fetch(session: Session, kinds: Iterable[ListingKind]) -> list[FetchedList]:
    """Read lists again; a failure is part of the answer."""
    return await _fetch(session, kinds, is_first=False)


async def _fetch(
    session: Session, kinds: Iterable[ListingKind], *, is_first: bool
) -> list[FetchedList]:
    declared = [
        kind for kind in kinds if wire.advertises(session.opened.capabilities, METHODS[kind])
    ]
    deadline = Deadline.after(LIST_SECONDS)
    return list(
        await asyncio.gather(
            *(_read(session, kind, deadline, is_first=is_first) for kind in declared)
        )
    )


async def _read(
    session: Session, kind: ListingKind, deadline: Deadline, *, is_first: bool
) -> FetchedList:
    try:
        listing = await wire.list_all(session, METHODS[kind], deadline)
    except HubError as exc:
        if is_first and _is_fatal(exc):
            raise
        return _failed(kind, exc)
    problems = [cast("JSONObject", dict(problem)) for problem in listing.problems]
    if listing.is_cut:
        problems.append({"index": len(listing.items), "name": "", "reason": "listing_cut"})
    return FetchedList(
        kind=kind, items=listing.items, problems=problems, is_complete=not listing.is_cut
    )


def _is_fatal(error: HubError) -> bool:
    return isinstance(error, AuthorizationNeededError) or error.problem_code in {
        "session_lost",
        "upstream_unreachable",
    }


def _failed(kind: ListingKind, error: HubError) -> FetchedList:
    """Return the failure; a server without the method has an empty list, whatever it declares."""
    rpc = getattr(error, "rpc", None)
    if rpc is not None and rpc.code == METHOD_NOT_FOUND:
        return FetchedList(kind=kind)
    return FetchedList(kind=kind, error=faults.last_error(error))
