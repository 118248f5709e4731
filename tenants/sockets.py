"""TenantConsumer: a WebSocket whose client is known, and stays so.

Wrong origins get 403 before the accept; everything else is told after it, by close codes that
browsers can read (API design §7): 4401 not (or no longer) authenticated, 4403 not permitted,
1013 try again later.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from channels.exceptions import DenyConnection
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.http.request import split_domain_port, validate_host

from mcphub.core.clock import now
from mcphub.core.errors import (
    HubError,
    InvalidInputError,
    NotAuthenticatedError,
    NotPermittedError,
    UnavailableError,
)
from mcphub.core.offload import in_thread
from tenants import credentials, invalidation, tickets
from tenants.api.authentication import shown_by_scope
from tenants.cors import allowed_origins
from tenants.credentials import Shown
from tenants.invalidation import Change
from tenants.principal import Principal

logger = logging.getLogger(__name__)

PROTOCOL = "mcphub.v1"
TICKET_PREFIX = "mcphub.ticket."
NOT_AUTHENTICATED = 4401
NOT_PERMITTED = 4403
TRY_AGAIN = 1013
CHECK_SECONDS = 5.0
TRUST_SECONDS = 30.0
"""How long a look-up is trusted while changes are announced; without Redis it is CHECK_SECONDS."""


class TenantConsumer(AsyncWebsocketConsumer):
    """Subclasses implement `opened`, `closed` and perhaps `principal_changed`."""

    check_seconds: ClassVar[float] = CHECK_SECONDS
    principal: Principal

    async def opened(self) -> None:
        """Begin: the socket is accepted and `self.principal` is set."""

    async def closed(self, code: int) -> None:
        """End what `opened` began."""

    async def principal_changed(self) -> None:
        """Take note that `self.principal` has other scopes than before."""

    async def connect(self) -> None:
        self._watch: _Watch | None = None
        offered = list(self.scope["subprotocols"])
        try:
            shown, self.principal = await authenticate(self.scope)
        except NotPermittedError as exc:
            if exc.problem_code == "origin_not_allowed":
                raise DenyConnection from exc
            await self._refuse(offered, NOT_PERMITTED, exc)
        except InvalidInputError as exc:
            await self._refuse(offered, NOT_PERMITTED, exc)
        except NotAuthenticatedError as exc:
            await self._refuse(offered, NOT_AUTHENTICATED, exc)
        except UnavailableError as exc:
            await self._refuse(offered, TRY_AGAIN, exc)
        else:
            await self.accept(PROTOCOL if PROTOCOL in offered else None)
            self._watch = _Watch(self, shown)
            self._watch.start()
            await self.opened()

    async def disconnect(self, code: int) -> None:
        if self._watch is not None:
            self._watch.stop()
            await self.closed(code)

    async def _refuse(self, offered: list[str], close_code: int, exc: HubError) -> None:
        await self.accept(PROTOCOL if PROTOCOL in offered else None)
        await self.close(close_code, exc.problem_code)


async def authenticate(scope: Any) -> tuple[Shown | None, Principal]:
    """Return who opens the socket: by ticket, by Authorization (no browser), or by login session.

    Raises NotPermittedError (`origin_not_allowed` and others), NotAuthenticatedError and
    UnavailableError. The first item is what to look up again; None: by the credential's public id.
    """
    shown = shown_by_scope(scope)
    host = _header(scope, b"host")
    _check_host(host)
    is_own = _is_own(shown.origin, host)
    if shown.origin and not is_own:
        await _check_known(shown.origin)
    ticket = _ticket_in(scope["subprotocols"])
    if ticket is not None:
        principal = await in_thread(tickets.redeem, ticket)
        if not is_own:
            credentials.check_origin(principal, shown.origin)
        return None, principal
    if not shown.authorization and not is_own:
        # A cookie is sent by any page: only the hub's own pages may open a socket with it.
        raise _origin_refused()
    principal = await credentials.aresolve(shown)
    return (None if shown.authorization else shown), principal


@dataclass(slots=True)
class _Watch:
    """Looks the principal up again: on each announced change, and from time to time."""

    consumer: TenantConsumer
    shown: Shown | None
    _changed: asyncio.Event | None = None
    _task: asyncio.Task[None] | None = None
    _unsubscribe: Callable[[], None] | None = None
    _has_ended: bool = False

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        changed = self._changed = asyncio.Event()

        def on_change(change: Change) -> None:
            if change.concerns(self.consumer.principal):
                self._has_ended |= bool(change.credential)
                with suppress(RuntimeError):  # the loop has ended, and the socket with it
                    loop.call_soon_threadsafe(changed.set)

        self._unsubscribe = invalidation.subscribe(on_change)
        self._task = loop.create_task(self._run(changed))

    def stop(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _run(self, changed: asyncio.Event) -> None:
        looked_up = time.monotonic()
        while True:
            try:
                await asyncio.wait_for(changed.wait(), self.consumer.check_seconds)
            except TimeoutError:
                age = time.monotonic() - looked_up
                if invalidation.is_listening() and age < TRUST_SECONDS and not self._has_expired():
                    continue
            changed.clear()
            try:
                await self._look_up()
            except DatabaseError as exc:
                logger.warning("socket not re-checked error=%s", type(exc).__name__)
                continue
            except HubError as exc:
                is_known = isinstance(exc, NotPermittedError | InvalidInputError)
                code = NOT_PERMITTED if is_known else NOT_AUTHENTICATED
                await self.consumer.close(code, exc.problem_code)
                return
            looked_up = time.monotonic()

    async def _look_up(self) -> None:
        before = self.consumer.principal
        if self._has_ended:
            raise NotAuthenticatedError(code="credential_revoked")
        if self.shown is not None:
            after = await credentials.aresolve(self.shown)
        else:
            after = await in_thread(credentials.confirm, before)
        self.consumer.principal = after
        if after.scopes != before.scopes:
            await self.consumer.principal_changed()

    def _has_expired(self) -> bool:
        ends = self.consumer.principal.expires_at
        return ends is not None and ends <= now()


async def _check_known(origin: str) -> None:
    if origin in settings.CORS_ALLOWED_ORIGINS:
        return
    if not allowed_origins.is_fresh:
        await in_thread(allowed_origins.refresh)
    if origin not in allowed_origins:
        raise _origin_refused()


def _check_host(host: str) -> None:
    """Refuse a foreign Host header: it is how DNS rebinding arrives."""
    domain, _ = split_domain_port(host)
    if not validate_host(domain, settings.ALLOWED_HOSTS):
        raise _origin_refused()


def _is_own(origin: str, host: str) -> bool:
    is_same_host = origin in {f"http://{host}", f"https://{host}"}
    return is_same_host or credentials.is_own_origin(origin)


def _ticket_in(subprotocols: list[str]) -> str | None:
    found = [name for name in subprotocols if name.startswith(TICKET_PREFIX)]
    return found[0].removeprefix(TICKET_PREFIX) if found else None


def _header(scope: Any, name: bytes) -> str:
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if found else ""


def _origin_refused() -> NotPermittedError:
    return NotPermittedError("This origin may not connect.", code="origin_not_allowed")
