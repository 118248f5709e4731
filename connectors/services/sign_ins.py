"""SignIns: tokens for the sessions of a host, and the sign-in that a refused opening begins.

Worker side, on the host's loop. A sign-in leaves a row with its address; nothing waits for people.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from weakref import WeakSet

from connectors import events
from connectors.models import Connection
from connectors.selectors import server_of
from connectors.server_spec import AuthType, ServerSpec
from connectors.services import faults
from connectors.services.transitions import Fence, transition
from connectors.states import State
from connectors.upstream.errors import session_closed
from connectors.upstream.host import SessionHost, SessionKey
from connectors.upstream.session import UpstreamRequest
from mcphub.core.crypto import Secret
from mcphub.core.errors import AuthorizationNeededError, HubError
from mcphub.core.offload import DatabaseThreads
from oauth import addresses, bearer, challenge, flows, registration
from oauth.errors import AuthTemporarilyUnavailableError, GrantLostError, NoOAuthMetadataError
from oauth.flows import Start
from oauth.means import Means
from oauth.names import GrantType
from oauth.records import grants
from oauth.records.grants import Snapshot
from oauth.server_auth import ServerAuth
from tenants.principal import Principal

logger = logging.getLogger(__name__)

BEGIN_SECONDS = 30.0
FRESH_SECONDS = 60.0
"""A machine's token that was refused within this time ends it; a person may connect again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Whose sign-in it is and where it leads back to."""

    principal: Principal
    browser_hash: str
    return_url: str
    redirect_uri: str
    is_bare: bool
    """The server has no set way of authentication: it decides with its answer."""


class SignIns:
    """One for a session host."""

    def __init__(
        self,
        worker: str,
        host: SessionHost,
        threads: DatabaseThreads,
        open_again: Callable[[uuid.UUID], Awaitable[None]],
    ) -> None:
        self._worker = worker
        self._open_again = open_again
        self._running: dict[uuid.UUID, asyncio.Task[HubError]] = {}
        self._served: WeakSet[SessionKey] = WeakSet()
        self._host = host
        self._threads = threads
        self.on_token: Callable[[SessionKey], None] = _ignore
        """Called when `key.spec.tokens` has another one, so that traces can hide it."""
        host.tokens = self.token

    async def token(self, key: SessionKey, *, rejected: str | None = None) -> Secret:
        """Return a token for one session's requests. Raises as `bearer.access_token`.

        A new session reads the grant anew: another process may have finished a sign-in.
        """
        if key not in self._served:
            self._served.add(key)
            bearer.forget(key.connection_id)
        token = await bearer.access_token(
            self._means, key.connection_id, server_url=key.spec.url, rejected=rejected
        )
        known = key.spec.tokens
        if token.value not in known:
            known[:] = [*known[-1:], token.value]
            self.on_token(key)
        return token

    async def after_opening(self, spec: ServerSpec | None, error: HubError) -> HubError:
        """Return what an opening has failed with, when its sign-in is begun or is not needed."""
        if spec is None or not isinstance(error, AuthorizationNeededError):
            return error
        return await self._begin(spec, error)

    async def refused(
        self, key: SessionKey, refusal: AuthorizationNeededError, request: UpstreamRequest
    ) -> HubError:
        """Have a sign-in begun for a refused request of an open session; requests share it.

        Return the error for the request.
        """
        task = self._running.get(key.connection_id)
        if task is None:
            operation = f"{request.method} {request.params.get('name', '')}"
            work = self._refused(key, refusal, operation)
            task = self._host.spawn(work, name=f"sign in {key.connection_id}")
            self._running[key.connection_id] = task
            task.add_done_callback(lambda _: self._running.pop(key.connection_id, None))
        return await asyncio.shield(task)

    async def _refused(
        self, key: SessionKey, refusal: AuthorizationNeededError, operation: str
    ) -> HubError:
        if isinstance(refusal, GrantLostError):  # the row was moved to connecting with the loss
            with contextlib.suppress(HubError):
                await self._open_again(key.connection_id)
            return refusal
        error = await self._begin(key.spec, refusal, operation)
        if error is not refusal and isinstance(error, AuthorizationNeededError):
            await self._host.close(key.connection_id)
            await self._threads.run(_require, key, self._worker, error)
        return error

    async def _begin(
        self, spec: ServerSpec, refusal: AuthorizationNeededError, operation: str = ""
    ) -> HubError:
        """Make of a refusal what a member needs to go on; return the error to show."""
        asking = await self._threads.run(_asking, spec.connection_id)
        if asking is None or not _is_about_oauth(spec, asking, refusal):
            return refusal
        held = await self._held(spec.connection_id)
        start = Start(
            subject_key=spec.connection_id,
            auth=spec.oauth or ServerAuth(server_url=spec.url),
            redirect_uri=asking.redirect_uri or registration.own_callback(),
            browser_hash=asking.browser_hash,
            return_url=asking.return_url,
            challenge=refusal.challenge,
            operation=operation,
        )
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                if start.auth.grant_type is GrantType.CLIENT_CREDENTIALS:
                    return await self._as_machine(asking.principal, start, held)
                await flows.begin(self._means, asking.principal, start)
        except NoOAuthMetadataError as exc:
            return refusal if asking.is_bare else exc
        except HubError as exc:
            return exc
        except TimeoutError:
            return AuthTemporarilyUnavailableError("Discovery took too long.")
        if asking.is_bare:
            await self._threads.run(_note_signs_in, spec.connection_id)
        return _needed(refusal, held)

    async def _as_machine(
        self, principal: Principal, start: Start, held: Snapshot | None
    ) -> HubError:
        """Get a token; its receiver asks for another opening, so this one only has to end."""
        age = (held.seen_at - held.issued_at).total_seconds() if held else FRESH_SECONDS
        if held is not None and age < FRESH_SECONDS:
            return GrantLostError(held.lost_reason)
        await flows.client_credentials(self._means, principal, start)
        return session_closed()

    async def _held(self, connection_id: uuid.UUID) -> Snapshot | None:
        try:
            return await self._threads.run(grants.find, connection_id)
        except HubError:  # its tokens cannot be read: as if there were none
            return None

    @property
    def _means(self) -> Means:
        return Means(self._host.http, self._threads)


def _is_about_oauth(spec: ServerSpec, asking: Asking, refusal: AuthorizationNeededError) -> bool:
    """Whether signing in can help: not where other credentials are set, nor for a plain 403."""
    if refusal.http_status == 403:
        return spec.oauth is not None and challenge.bearer(refusal.challenge).wants_more_scopes
    return spec.oauth is not None or asking.is_bare


def _needed(refusal: AuthorizationNeededError, held: Snapshot | None) -> HubError:
    if refusal.http_status == 403:
        return AuthorizationNeededError("The server wants more permissions than it was given.")
    if isinstance(refusal, GrantLostError):
        return refusal
    return GrantLostError(held.lost_reason if held else None)


def _asking(connection_id: uuid.UUID) -> Asking | None:
    rows = Connection.unscoped.select_related("connector", "custom_server")
    row = rows.filter(pk=connection_id, is_wanted=True).first()
    if row is None:
        return None
    owner = events.owner_of(row)
    if row.return_url:  # checked against the credential when it was given
        owner = replace(owner, allowed_origins=frozenset({addresses.origin_text(row.return_url)}))
    return Asking(
        principal=owner,
        browser_hash=row.browser_hash,
        return_url=row.return_url,
        redirect_uri=row.redirect_uri,
        is_bare=server_of(row).auth_type == AuthType.NONE,
    )


def _require(key: SessionKey, worker: str, error: HubError) -> bool:
    return transition(
        key.connection_id,
        State.AUTH_REQUIRED,
        expect=[State.CONNECTED],
        fence=Fence(worker=worker, epoch=key.epoch),
        held_by="",
        last_error=faults.last_error(error),
        connected_at=None,
        sealed_session=None,
    )


def _note_signs_in(connection_id: uuid.UUID) -> None:
    Connection.unscoped.filter(pk=connection_id).update(signs_in=True)


def _ignore(key: SessionKey) -> None:
    del key
