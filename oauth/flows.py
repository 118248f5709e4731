"""Signing in at upstream servers: begin, complete, refresh, revoke; any process may do any step.

Decisions are rows; no coroutine ever waits for a person.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from django.conf import settings

from mcphub.core.crypto import Secret
from mcphub.core.errors import HubError, NotFoundError
from oauth import (
    addresses,
    challenge,
    identities,
    refresh_lock,
    return_urls,
    scopes,
    token_requests,
)
from oauth.bearer import forget
from oauth.clients import Client
from oauth.discovery import Discovered, discover
from oauth.errors import (
    AuthorizationRefusedError,
    AuthTemporarilyUnavailableError,
    GrantLostError,
    IssuerMismatchError,
)
from oauth.means import Errand, Means
from oauth.models import AuthorizationRequest
from oauth.names import GrantType, LostReason
from oauth.records import grants, registrations, requests
from oauth.records.grants import NewGrant, Snapshot
from oauth.records.registrations import Place
from oauth.records.requests import Pending, Visitor
from oauth.registration import Wanted, client_for
from oauth.server_auth import ServerAuth
from oauth.tokens import TokenAnswer, TokenRefusal
from tenants import rates
from tenants.principal import Principal

logger = logging.getLogger(__name__)

OWN_PARAMETERS = frozenset(
    {
        *("response_type", "client_id", "redirect_uri", "state", "scope", "resource"),
        *("code_challenge", "code_challenge_method", "request", "request_uri"),
    }
)
KNOWN_REFUSALS = frozenset(
    {
        *("access_denied", "invalid_scope", "invalid_request", "invalid_target"),
        *("unauthorized_client", "invalid_client", "unsupported_response_type", "server_error"),
        *("temporarily_unavailable", "login_required", "consent_required"),
        "interaction_required",
    }
)
FORGOTTEN = frozenset({"invalid_client", "unauthorized_client"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a sign-in begins with."""

    subject_key: UUID
    auth: ServerAuth
    redirect_uri: str
    browser: str = field(default="", repr=False)
    """What the browser will show again at the callback; "" needs the same logged-in user there."""
    browser_hash: str = ""
    """As `browser`, by whoever knows only its `records.requests.digest`."""
    return_url: str = ""
    challenge: str = ""
    """`WWW-Authenticate` of the refusal that led here."""
    operation: str = ""
    """The tool (or method) that wanted more scopes; counts its step-ups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """`authorization_url` holds the state: for the member's own eyes, never for a log."""

    authorization_url: str = field(repr=False)
    expires_at: datetime
    issuer: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """What the browser brought back; `subject_key` when the path names a connection."""

    state: str = field(repr=False)
    code: str = field(default="", repr=False)
    iss: str | None = None
    error: str = ""
    subject_key: UUID | None = None
    redirect_uri: str | None = None
    """Where an app says that the browser came back to; None: to the hub itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    grant_id: UUID
    subject_key: UUID
    return_url: str


async def begin(means: Means, principal: Principal, start: Start) -> Begun:
    """Discover, register, and keep a pending request. No secret of an earlier one is reused.

    Raises the errors of oauth.errors, InvalidInputError (return URL), LimitError and those of
    egress.
    """
    run, auth = means.database.run, start.auth
    await run(return_urls.check, principal, start.return_url)
    asked = challenge.bearer(start.challenge)
    held = await run(grants.find, start.subject_key)
    _check_owner(principal, held)
    scopes.check_step_up(asked, held, cap=start.auth.scope_cap, operation=start.operation)
    await run(rates.take, _rate(), principal.member_id.hex)
    errand = Errand(means.http)
    found = await discover(errand, auth, asked)
    place = Place(
        tenant_id=principal.tenant_id, issuer=found.server.issuer, redirect_uri=start.redirect_uri
    )
    await run(registrations.drop_if_abandoned, place, start.subject_key)
    client = await client_for(means, errand, Wanted(place=place, server=found.server, auth=auth))
    wanted = scopes.wanted(auth, asked, found, held)
    state, verifier = Secret(secrets.token_urlsafe(48)), Secret(secrets.token_urlsafe(64))
    row = _request(principal, start, found, wanted)
    row.registration_id = client.registration_id
    if asked.wants_more_scopes:
        row.operation = scopes.operation_key(start.operation)
    url = _authorization_url(row, auth, client, (state, verifier), found)
    expires_at = await run(requests.add, row, state=state, verifier=verifier, url=Secret(url))
    logger.info("sign-in begun request=%s subject=%s", row.pk, start.subject_key)
    return Begun(authorization_url=url, expires_at=expires_at, issuer=row.issuer, scopes=wanted)


async def complete(means: Means, callback: Callback, visitor: Visitor) -> Completed:
    """Exchange the code for tokens, once per state, and keep them before anything else.

    Raises StateInvalidError (and has changed nothing), IssuerMismatchError,
    AuthorizationRefusedError, AuthTemporarilyUnavailableError: then the request is over.
    """
    run = means.database.run
    pending = await run(
        requests.take,
        callback.state,
        visitor,
        subject_key=callback.subject_key,
        redirect_uri=callback.redirect_uri,
    )
    request = pending.request
    try:
        check_issuer(callback.iss, request)
        if callback.error or not callback.code:
            await _refused(means, pending, callback.error)
        answer = await _exchange(means, pending, callback.code)
    except AuthorizationRefusedError as exc:
        exc.return_url = request.return_url
        raise
    grant_id = await run(grants.put, NewGrant.of_request(request), answer)
    forget(request.subject_key)
    logger.info("sign-in completed request=%s grant=%s", request.pk, grant_id)
    who = await identities.find(Errand(means.http), pending, answer)
    if who:
        await run(grants.name_identity, grant_id, who)
    return Completed(
        grant_id=grant_id, subject_key=request.subject_key, return_url=request.return_url
    )


async def refresh(means: Means, subject_key: UUID, *, min_validity: float = 0.0) -> None:
    """Make the token live at least `min_validity` seconds, if it can be renewed.

    Raises GrantLostError, AuthTemporarilyUnavailableError.
    """
    seen = await means.database.run(grants.find, subject_key)
    if seen is None or not seen.is_active:
        raise GrantLostError(seen.lost_reason if seen else None)
    if seen.can_renew and seen.seconds_left < min_validity:
        await refresh_lock.renew(means, seen)


async def retry(means: Means, subject_key: UUID) -> None:
    """Try a lost grant's refresh token once more; a person asked for it (row C13).

    Raises as `refresh`.
    """
    await means.database.run(grants.revive, subject_key)
    await refresh(means, subject_key, min_validity=float("inf"))


async def revoke(means: Means, subject_key: UUID, reason: LostReason = LostReason.REVOKED) -> None:
    """End the grant at once, tell the authorization server (best effort), erase the secrets."""
    run = means.database.run
    forget(subject_key)
    await run(requests.cancel, subject_key)
    held = await run(grants.end, subject_key, reason)
    if held is None:
        return
    await token_requests.revoke(
        Errand(means.http),
        held.client,
        held.revocation_endpoint,
        held.refresh_token,
        held.access_token,
    )
    await run(grants.erase, held.id)
    logger.info("grant revoked grant=%s reason=%s", held.id, reason.value)


async def client_credentials(means: Means, principal: Principal, start: Start) -> UUID:
    """Get a token for the hub itself (RFC 6749 §4.4) and keep it as a grant; returns its id."""
    auth, errand = start.auth, Errand(means.http)
    _check_owner(principal, await means.database.run(grants.find, start.subject_key))
    asked = challenge.bearer(start.challenge)
    found = await discover(errand, auth, asked)
    place = Place(tenant_id=principal.tenant_id, issuer=found.server.issuer, redirect_uri="")
    client = await client_for(means, errand, Wanted(place=place, server=found.server, auth=auth))
    wanted = scopes.wanted(auth, asked, found, None)
    form = {"grant_type": GrantType.CLIENT_CREDENTIALS.value}
    form |= {"scope": " ".join(wanted)} if wanted else {}
    form |= {"resource": found.resource} if found.resource else {}
    answer = await token_requests.ask(errand, client, found.server.token_endpoint, form)
    if isinstance(answer, TokenRefusal):
        _raise_refusal(answer)
        raise AuthorizationRefusedError(reason=answer.error)
    new = NewGrant(
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        subject_key=start.subject_key,
        kind=GrantType.CLIENT_CREDENTIALS,
        registration_id=client.registration_id,
        server_url=auth.server_url,
        issuer=found.server.issuer,
        token_endpoint=found.server.token_endpoint,
        revocation_endpoint=found.server.revocation_endpoint,
        resource=found.resource,
        scopes=wanted,
    )
    forget(start.subject_key)
    return await means.database.run(grants.put, new, answer)


def check_issuer(iss: str | None, request: AuthorizationRequest) -> None:
    """Apply the table of RFC 9207 §2.4, to success and error alike. Raises IssuerMismatchError."""
    is_right = iss == request.issuer if iss is not None else not request.must_name_issuer
    if not is_right:
        raise IssuerMismatchError(
            "The answer does not come from the authorization server that was asked."
        )


def _check_owner(principal: Principal, held: Snapshot | None) -> None:
    """Raise NotFoundError when the connection is somebody else's, whatever the caller checked."""
    owner = (principal.tenant_id, principal.member_id)
    if held is not None and (held.tenant_id, held.member_id) != owner:
        raise NotFoundError


def _rate() -> rates.Rate:
    return rates.Rate(name="sign_ins", limit=settings.SIGN_INS_PER_MINUTE)


def _request(
    principal: Principal, start: Start, found: Discovered, wanted: tuple[str, ...]
) -> AuthorizationRequest:
    server = found.server
    return AuthorizationRequest(
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        subject_key=start.subject_key,
        browser_hash=requests.digest(start.browser) if start.browser else start.browser_hash,
        issuer=server.issuer,
        must_name_issuer=server.names_issuer,
        token_endpoint=server.token_endpoint,
        revocation_endpoint=server.revocation_endpoint,
        userinfo_endpoint=server.userinfo_endpoint,
        server_url=start.auth.server_url,
        resource=found.resource,
        scopes=list(wanted),
        redirect_uri=start.redirect_uri,
        return_url=start.return_url,
    )


def _authorization_url(
    row: AuthorizationRequest,
    auth: ServerAuth,
    client: Client,
    proof: tuple[Secret, Secret],
    found: Discovered,
) -> str:
    """Return the address for the browser; a query of the endpoint is kept (RFC 6749 §3.1)."""
    state, verifier = proof
    digest = hashlib.sha256(verifier.value.encode()).digest()
    extra = {k: v for k, v in auth.extra_authorize_params.items() if k not in OWN_PARAMETERS}
    fields = {
        **extra,
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": row.redirect_uri,
        "state": state.value,
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
    }
    fields |= {"scope": " ".join(row.scopes)} if row.scopes else {}
    fields |= {"resource": row.resource} if row.resource else {}
    parts = urlsplit(found.server.authorization_endpoint)
    added = urlencode(fields)
    return parts._replace(query=f"{parts.query}&{added}" if parts.query else added).geturl()


async def _exchange(means: Means, pending: Pending, code: str) -> TokenAnswer:
    request = pending.request
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": request.redirect_uri,
        "code_verifier": pending.verifier.value,
    }
    form |= {"resource": request.resource} if request.resource else {}
    try:
        answer = await token_requests.ask(
            Errand(means.http), pending.client, request.token_endpoint, form
        )
    except HubError as exc:
        raise AuthTemporarilyUnavailableError(
            "The authorization server gave no usable answer. Sign in once more."
        ) from exc
    if isinstance(answer, TokenAnswer):
        return answer
    if answer.forgot_client:
        await means.database.run(registrations.drop, pending.client.registration_id)
    _raise_refusal(answer)
    raise AuthorizationRefusedError(reason=answer.error)


async def _refused(means: Means, pending: Pending, error: str) -> None:
    """Raise for an error answer; the server's text is not repeated."""
    if error in FORGOTTEN:
        await means.database.run(registrations.drop, pending.client.registration_id)
    raise AuthorizationRefusedError(reason=error if error in KNOWN_REFUSALS else "other")


def _raise_refusal(answer: TokenRefusal) -> None:
    """Raise when the answer is about the server's own state."""
    if answer.is_passing:
        raise AuthTemporarilyUnavailableError(
            "The authorization server gave no usable answer. Sign in once more.",
            retry_after=answer.retry_after,
        )


def authorization_host(url: str) -> str:
    """Return the origin that a person will see, to name it before they go there."""
    return addresses.origin_text(url)
