"""Finds the client to sign in with: pre-registered, then metadata document, then registration."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from mcphub.core.crypto import Secret
from mcphub.core.types import JSONObject
from oauth import addresses, tokens
from oauth.clients import Client
from oauth.discovery import AuthorizationServer
from oauth.errors import IssuerMismatchError, RegistrationUnusableError
from oauth.means import Errand, Means
from oauth.models import Source
from oauth.names import ClientAuthMethod, GrantType
from oauth.records import registrations
from oauth.records.registrations import NewClient, Place
from oauth.server_auth import ServerAuth

DOCUMENT_PATH = "/oauth/client.json"
CALLBACK_PATH = "/oauth/callback"
PRINTABLE = re.compile(r"[\x20-\x7e]{1,1000}")
SECRET_METHODS = (ClientAuthMethod.BASIC, ClientAuthMethod.POST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which client a flow needs."""

    place: Place
    server: AuthorizationServer
    auth: ServerAuth


async def client_for(means: Means, errand: Errand, wanted: Wanted) -> Client:
    """Return the client; registers when there is none. Raises RegistrationUnusableError."""
    auth, server, place = wanted.auth, wanted.server, wanted.place
    run = means.database.run
    if auth.client_id:
        return await run(_keep_preregistered, wanted)
    if auth.grant_type is GrantType.CLIENT_CREDENTIALS:
        raise RegistrationUnusableError("client_credentials needs a client id and a secret.")
    if server.takes_metadata_document and may_use_document(place.redirect_uri):
        new = NewClient(
            source=Source.CIMD, client_id=document_url(), auth_method=ClientAuthMethod.NONE
        )
        return await run(registrations.keep, place, new)
    known = await run(registrations.current, place)
    if known is not None:
        return known
    if not server.registration_endpoint:
        raise RegistrationUnusableError(
            "The authorization server registers no clients by itself. Register the hub there and "
            "enter the client id."
        )
    return await run(registrations.replace, place, await _register(errand, wanted))


def may_use_document(redirect_uri: str) -> bool:
    """Whether an authorization server can read the hub's own document: https, own redirect."""
    return bool(settings.IS_HTTPS) and redirect_uri == own_callback()


def own_callback() -> str:
    """Return the redirect URI that all members share."""
    return f"{settings.BASE_URL}{CALLBACK_PATH}"


def document_url() -> str:
    return f"{settings.BASE_URL}{DOCUMENT_PATH}"


def document() -> JSONObject:
    """Return the hub's Client ID Metadata Document; `client_id` is its own address."""
    return {
        "client_id": document_url(),
        "client_name": "mcphub",
        "client_uri": settings.BASE_URL,
        "redirect_uris": [own_callback()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": ClientAuthMethod.NONE.value,
        "application_type": "web",
    }


def _keep_preregistered(wanted: Wanted) -> Client:
    """Keep the operator's client for this issuer only: it was made for one server."""
    auth, place = wanted.auth, wanted.place
    preset = registrations.preset_of(auth.client_id, addresses.origin_text(auth.server_url))
    if not auth.issuer and registrations.is_bound_elsewhere(place, preset):
        raise IssuerMismatchError(
            "The server names another authorization server than the one that the client id was "
            "used at. Pin the issuer if this is right."
        )
    method = auth.token_endpoint_auth_method or _method_for(auth, wanted.server)
    secret = auth.private_key if method is ClientAuthMethod.PRIVATE_KEY_JWT else auth.client_secret
    if method is not ClientAuthMethod.NONE and secret is None:
        raise RegistrationUnusableError("The client's secret or key is missing.")
    new = NewClient(
        source=Source.PREREGISTERED,
        client_id=auth.client_id,
        auth_method=method,
        secret=None if method is ClientAuthMethod.NONE else secret,
        preset=preset,
    )
    return registrations.keep(place, new)


def _method_for(auth: ServerAuth, server: AuthorizationServer) -> ClientAuthMethod:
    if auth.private_key is not None:
        return ClientAuthMethod.PRIVATE_KEY_JWT
    if auth.client_secret is None:
        return ClientAuthMethod.NONE
    methods = server.auth_methods
    if methods is not None and "client_secret_basic" not in methods:
        return ClientAuthMethod.POST
    return ClientAuthMethod.BASIC


def _method_to_ask(server: AuthorizationServer) -> ClientAuthMethod:
    """Return what to register with; without a list, a public client with PKCE is the simplest."""
    methods = server.auth_methods
    if methods is None:
        return ClientAuthMethod.NONE
    for method in (ClientAuthMethod.NONE, *SECRET_METHODS):
        if method in methods:
            return method
    raise RegistrationUnusableError(
        "The authorization server takes no kind of client authentication that can be registered "
        "by itself."
    )


async def _register(errand: Errand, wanted: Wanted) -> NewClient:
    """Register as RFC 7591 has it."""
    asked = _method_to_ask(wanted.server)
    redirect_uri = wanted.place.redirect_uri
    is_local = addresses.is_loopback(urlsplit(redirect_uri))
    body: JSONObject = {
        "client_name": wanted.auth.client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": asked.value,
        # OpenID Connect Registration §2: a web client may not redirect to loopback.
        "application_type": "native" if is_local else "web",
    }
    answer = await errand.post(
        wanted.server.registration_endpoint,
        json.dumps(body).encode(),
        headers={},
        kind="application/json",
    )
    if answer.status not in {200, 201}:
        raise RegistrationUnusableError("The authorization server refused to register the hub.")
    return _read(tokens.json_object(answer.body), asked)


def _read(answer: JSONObject, asked: ClientAuthMethod) -> NewClient:
    """Read a registration; what the answer says governs, an `issuer` in it does not."""
    client_id = answer.get("client_id")
    if not isinstance(client_id, str) or PRINTABLE.fullmatch(client_id) is None:
        raise RegistrationUnusableError("The registration has no usable client id.")
    secret = answer.get("client_secret")
    if secret is not None and not (isinstance(secret, str) and PRINTABLE.fullmatch(secret)):
        raise RegistrationUnusableError("The registration has no usable client secret.")
    # RFC 7591 §2: without a word about it, a client with a secret uses Basic.
    silent = asked if asked in SECRET_METHODS or not secret else ClientAuthMethod.BASIC
    named = answer.get("token_endpoint_auth_method", silent.value)
    usable = {ClientAuthMethod.NONE.value, *(m.value for m in SECRET_METHODS if secret)}
    if not isinstance(named, str) or named not in usable:
        raise RegistrationUnusableError(
            "The registration asks for a client authentication that it gives no secret for."
        )
    method = ClientAuthMethod(named)
    return NewClient(
        source=Source.DCR,
        client_id=client_id,
        auth_method=method,
        secret=Secret(secret) if secret and method is not ClientAuthMethod.NONE else None,
        registration_token=tokens.secret(answer.get("registration_access_token")),
        secret_lasts=_lasts(answer),
    )


def _lasts(answer: JSONObject) -> float | None:
    """Return how long the secret is good; missing, null and 0 all mean for ever (row B01)."""
    value = answer.get("client_secret_expires_at")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        ends = float(value)
    except (ValueError, OverflowError):
        return None
    if not ends > 0 or ends == float("inf"):
        return None
    return min(max(0.0, ends - time.time()), tokens.LONGEST_LIFE)
