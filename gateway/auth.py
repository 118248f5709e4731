"""Who asks at the gateway: any credential as plain Bearer, and metadata that says so (RFC 9728).

A cookie is no credential here: any page could send it. What a stream was opened with is looked up
again on every announced change and from time to time, so that a revoked credential ends it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DatabaseError

from gateway.endpoint import Endpoint
from gateway.http import Answer, HttpRequest
from gateway.login import role
from gateway.login.provider import SCOPES
from mcphub.core.clock import now
from mcphub.core.errors import HubError, NotAuthenticatedError, UnavailableError
from mcphub.core.patience import database_patience
from mcphub.core.types import JSONObject
from mcphub.lean import Receive
from tenants import credentials, invalidation
from tenants.credentials import Shown
from tenants.invalidation import Change
from tenants.principal import Principal

WELL_KNOWN = "/.well-known/oauth-protected-resource"
CHECK_SECONDS = 5.0
TRUST_SECONDS = 30.0
"""How long a look-up is trusted while changes are announced; without Redis it is CHECK_SECONDS."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An HTTP request whose sender is known, with the way to answer it."""

    request: HttpRequest
    answer: Answer
    receive: Receive = field(repr=False)
    endpoint: Endpoint
    shown: Shown
    principal: Principal


def shown_by(request: HttpRequest, endpoint: Endpoint) -> Shown:
    """Read what was shown, and where: the hub's own access tokens are good for one endpoint."""
    return Shown.from_parts(request.headers, {}, resource=settings.BASE_URL + endpoint.path)


async def authenticate(shown: Shown) -> Principal:
    """Return the Principal. Raises as `credentials.resolve`, and UnavailableError."""
    found = credentials.known(shown)
    if found is not None:
        return found
    async with database_patience():
        try:
            return await credentials.aresolve(shown)
        except DatabaseError as exc:
            raise UnavailableError("The database is away.", retry_after=1.0) from exc


def challenge_of(error: NotAuthenticatedError, endpoint: Endpoint) -> str:
    """Return the WWW-Authenticate header: where the metadata is, and what is wrong (RFC 6750)."""
    parts = ['Bearer realm="mcphub"', f'resource_metadata="{metadata_url(endpoint.path)}"']
    if error.problem_code != NotAuthenticatedError.code:
        parts.append('error="invalid_token"')
    return ", ".join(parts)


def metadata_url(path: str) -> str:
    return f"{settings.BASE_URL}{WELL_KNOWN}{path}"


def metadata_of(path: str) -> JSONObject:
    """Return the protected resource metadata of one endpoint (RFC 9728 §2)."""
    metadata: JSONObject = {
        "resource": settings.BASE_URL + path,
        "resource_name": "mcphub",
        "bearer_methods_supported": ["header"],
        "scopes_supported": [*SCOPES],
    }
    servers = role.issuers()
    return {**metadata, "authorization_servers": [*servers]} if servers else metadata


@asynccontextmanager
async def watching(shown: Shown, principal: Principal) -> AsyncIterator[asyncio.Event]:
    """Yield an event that is set when the credential has ended; for streams."""
    loop = asyncio.get_running_loop()
    changed, ended = asyncio.Event(), asyncio.Event()

    def on_change(change: Change) -> None:
        if change.concerns(principal):
            with suppress(RuntimeError):  # the loop has ended, and the stream with it
                loop.call_soon_threadsafe(changed.set)

    unsubscribe = invalidation.subscribe(on_change)
    task = loop.create_task(_watch(shown, principal, changed, ended))
    try:
        yield ended
    finally:
        unsubscribe()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _watch(
    shown: Shown, principal: Principal, changed: asyncio.Event, ended: asyncio.Event
) -> None:
    looked_up = time.monotonic()
    while not ended.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(CHECK_SECONDS):
                await changed.wait()
        is_due = time.monotonic() - looked_up >= TRUST_SECONDS or _has_expired(principal)
        if not changed.is_set() and not is_due and invalidation.is_listening():
            continue
        changed.clear()
        try:
            await authenticate(shown)
        except UnavailableError:
            logger.warning("stream not re-checked")
        except HubError:
            ended.set()
        else:
            looked_up = time.monotonic()


def _has_expired(principal: Principal) -> bool:
    return principal.expires_at is not None and principal.expires_at <= now()
