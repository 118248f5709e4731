"""Finds out where and how to sign in: RFC 9728, then RFC 8414 or OpenID metadata, all checked.

Nothing is guessed on the server's own origin unless the operator allowed the rules of 2025-03-26.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from mcphub.core.egress import BufferedResponse
from mcphub.core.errors import UpstreamError
from mcphub.core.types import JSONObject, JSONValue
from oauth import addresses, tokens
from oauth.challenge import BearerChallenge, split_scopes
from oauth.errors import (
    AuthTemporarilyUnavailableError,
    BadAuthorizationEndpointError,
    IssuerMismatchError,
    MetadataInvalidError,
    NoOAuthMetadataError,
    PkceUnsupportedError,
    ServerMetadataInvalidError,
)
from oauth.means import Errand
from oauth.names import GrantType
from oauth.server_auth import RESOURCE_AUTO, RESOURCE_OMIT, ServerAuth

S256 = "S256"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationServer:
    """What was found out about one issuer; every address is checked."""

    issuer: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    userinfo_endpoint: str = ""
    scopes: frozenset[str] = frozenset()
    auth_methods: tuple[str, ...] | None = None
    names_issuer: bool = False
    """RFC 9207: answers carry `iss`."""
    takes_metadata_document: bool = False
    has_s256: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """Where to sign in for one server; `resource` "" is not sent."""

    server: AuthorizationServer
    resource: str
    scopes: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] | None


async def discover(errand: Errand, auth: ServerAuth, challenge: BearerChallenge) -> Discovered:
    """Return where to sign in. Raises the errors of oauth.errors and of the egress tree."""
    resource = await _resource(errand, auth, challenge)
    issuer = auth.issuer or (resource.issuers[0] if resource else "")
    if issuer:
        server = await _server(errand, auth, issuer, resource.issuers if resource else ())
    elif auth.allow_legacy_2025_03_26:
        server = await _legacy_server(errand, auth)
    else:
        raise NoOAuthMetadataError(
            "The server wants a sign-in but publishes no OAuth metadata. Use a token if it takes "
            "one."
        )
    _check_server(server, auth)
    if server.authorization_endpoint:
        await errand.http.check(server.authorization_endpoint)
    return Discovered(
        server=server,
        resource=_indicator(auth, resource),
        scopes=resource.scopes if resource else None,
    )


def _indicator(auth: ServerAuth, found: _Resource | None) -> str:
    if auth.resource == RESOURCE_OMIT:
        return ""
    if auth.resource != RESOURCE_AUTO:
        return auth.resource
    return found.resource if found else addresses.canonical(auth.server_url)


async def _resource(
    errand: Errand, auth: ServerAuth, challenge: BearerChallenge
) -> _Resource | None:
    """Return the first usable protected resource metadata, None when there is none anywhere."""
    named = challenge.resource_metadata
    problem: Exception | None = None
    for url in addresses.resource_metadata_urls(auth.server_url, named):
        parts = addresses.split(url)
        if parts is None:
            problem = MetadataInvalidError()
            continue
        addresses.require_secure(parts, allow_plain=auth.allow_plain_http)
        answer = await _document(errand, url)
        if answer is None:
            continue
        try:
            return _read_resource(tokens.json_object(answer.body), auth)
        except MetadataInvalidError as exc:
            problem = exc
    if problem is not None and not auth.issuer:
        raise problem
    return None


async def _document(errand: Errand, url: str) -> BufferedResponse | None:
    """Return a document that is there. Raises AuthTemporarilyUnavailableError for 5xx and 429."""
    try:
        answer = await errand.get(url)
    except UpstreamError as exc:
        if exc.was_answered:  # too large, compressed, redirected: no document
            return None
        raise
    if answer.status >= 500 or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise AuthTemporarilyUnavailableError("The sign-in metadata cannot be read right now.")
    return answer if answer.status == HTTPStatus.OK else None


def _read_resource(document: JSONObject, auth: ServerAuth) -> _Resource:
    resource = document.get("resource")
    parts = addresses.split(resource)
    issuers = document.get("authorization_servers")
    if parts is None or not isinstance(resource, str):
        raise MetadataInvalidError("The resource metadata names no resource.")
    usable = [issuer for issuer in _texts(issuers) if addresses.split(issuer)]
    if not usable and not auth.issuer:
        raise MetadataInvalidError("The resource metadata names no authorization server.")
    for named in (parts, *filter(None, map(addresses.split, usable))):
        addresses.require_secure(named, allow_plain=auth.allow_plain_http)
    if not addresses.covers(resource, auth.server_url):
        raise MetadataInvalidError("The resource metadata is about another resource.")
    listed = _texts(document.get("scopes_supported"))
    return _Resource(
        resource=resource,
        issuers=tuple(usable),
        scopes=split_scopes(" ".join(listed)) if listed else None,
    )


async def _server(
    errand: Errand, auth: ServerAuth, issuer: str, listed: tuple[str, ...]
) -> AuthorizationServer:
    """Return the metadata whose issuer is identical to `issuer`, the first in spec order.

    A pinned issuer may also be described where the server's own list points to.
    """
    parts = addresses.split(issuer)
    if parts is None:
        raise MetadataInvalidError("The issuer is no address that can be used.")
    addresses.require_secure(parts, allow_plain=auth.allow_plain_http)
    places = addresses.issuer_metadata_urls(issuer)
    if auth.issuer:
        places += [url for other in listed[:1] for url in addresses.issuer_metadata_urls(other)]
    found_other, found_bad = "", False
    for url in dict.fromkeys(places):
        answer = await _document(errand, url)
        if answer is None:
            continue
        document = tokens.json_object(answer.body)
        if document.get("issuer") == issuer:
            return _read_server(document, auth)
        named = document.get("issuer")
        found_bad = True
        found_other = found_other or (named if isinstance(named, str) else "")
    if found_other:
        shown = found_other if addresses.split(found_other) else ""
        error = IssuerMismatchError(
            "The issuer in the authorization server's metadata is not identical to the expected "
            "one. If both are right, pin the issuer in the server's settings."
        )
        error.extra = {"expectedIssuer": issuer, "foundIssuer": shown[:200]}
        raise error
    if found_bad:
        raise ServerMetadataInvalidError
    raise NoOAuthMetadataError("The authorization server publishes no metadata.")


async def _legacy_server(errand: Errand, auth: ServerAuth) -> AuthorizationServer:
    """Apply the rules of 2025-03-26: metadata of the server's origin, or the default endpoints."""
    base = addresses.origin_text(auth.server_url)
    if not base:
        raise NoOAuthMetadataError
    answer = await _document(errand, addresses.issuer_metadata_urls(base)[0])
    document = tokens.json_object(answer.body) if answer else {}
    if document:
        if document.get("issuer") not in {base, f"{base}/"}:
            raise IssuerMismatchError
        return _read_server(document, auth)
    return AuthorizationServer(
        issuer=base,
        authorization_endpoint=f"{base}/authorize",
        token_endpoint=f"{base}/token",
        registration_endpoint=f"{base}/register",
        has_s256=True,
    )


def _read_server(document: JSONObject, auth: ServerAuth) -> AuthorizationServer:
    def endpoint(name: str) -> str:
        value = document.get(name)
        if value is None:
            return ""
        parts = addresses.split(value)
        if parts is None or not isinstance(value, str):
            if name == "authorization_endpoint":
                raise BadAuthorizationEndpointError
            raise ServerMetadataInvalidError(f"The metadata has an unusable {name}.")
        addresses.require_secure(parts, allow_plain=auth.allow_plain_http)
        return value

    def optional(name: str) -> str:
        """Return an address that signing in does not need; a bad one is as good as none."""
        return endpoint(name) if addresses.split(document.get(name)) else ""

    methods = document.get("token_endpoint_auth_methods_supported")
    return AuthorizationServer(
        issuer=str(document["issuer"]),
        authorization_endpoint=endpoint("authorization_endpoint"),
        token_endpoint=endpoint("token_endpoint"),
        registration_endpoint=endpoint("registration_endpoint"),
        revocation_endpoint=optional("revocation_endpoint"),
        userinfo_endpoint=optional("userinfo_endpoint"),
        scopes=frozenset(_texts(document.get("scopes_supported"))),
        auth_methods=tuple(_texts(methods)) if isinstance(methods, list) else None,
        names_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        takes_metadata_document=document.get("client_id_metadata_document_supported") is True,
        has_s256=S256 in _texts(document.get("code_challenge_methods_supported")),
    )


def _check_server(server: AuthorizationServer, auth: ServerAuth) -> None:
    if not server.token_endpoint:
        raise ServerMetadataInvalidError("The metadata has no token endpoint.")
    if auth.grant_type is GrantType.CLIENT_CREDENTIALS:
        return
    if not server.authorization_endpoint:
        raise BadAuthorizationEndpointError
    if not (server.has_s256 or auth.is_pkce_assumed):
        raise PkceUnsupportedError(
            "The authorization server does not say that it supports PKCE with S256. An operator "
            "can set this for the server when it is known to work."
        )


def _texts(value: JSONValue) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
