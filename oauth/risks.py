"""Names the risk of every operator choice that leaves the specification; pure.

For system checks and admin pages: a choice is allowed, but never silently.
"""

from __future__ import annotations

from dataclasses import dataclass

from oauth import addresses
from oauth.names import ClientAuthMethod
from oauth.server_auth import RESOURCE_AUTO, RESOURCE_OMIT, ServerAuth


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """`code` is the part of a check's id that tells the choice."""

    code: str
    text: str
    hint: str


def risks_of(auth: ServerAuth) -> list[Risk]:
    """Return the risks of the choices that were made for one server."""
    found = (_pkce(auth), _legacy(auth), _resource(auth), _plain_http(auth), _unpinned(auth))
    return [risk for risk in found if risk is not None]


def _pkce(auth: ServerAuth) -> Risk | None:
    if not auth.is_pkce_assumed:
        return None
    return Risk(
        code="pkce_assumed",
        text="PKCE is sent, but nobody has said that the authorization server checks it.",
        hint="Set it only where the provider documents PKCE and its metadata omits it.",
    )


def _legacy(auth: ServerAuth) -> Risk | None:
    if not auth.allow_legacy_2025_03_26:
        return None
    return Risk(
        code="legacy_rules",
        text="Without metadata, the server's own origin is taken for its authorization server.",
        hint="Set it only for servers of revision 2025-03-26 that their operator hosts alone.",
    )


def _resource(auth: ServerAuth) -> Risk | None:
    if auth.resource == RESOURCE_AUTO:
        return None
    if auth.resource == RESOURCE_OMIT:
        text = "Tokens are not bound to this server: it could use them elsewhere."
    else:
        text = "Tokens are bound to a resource that the server itself does not name."
    return Risk(
        code="resource",
        text=text,
        hint="Set it only where the provider refuses the `resource` of the metadata.",
    )


def _plain_http(auth: ServerAuth) -> Risk | None:
    if not auth.allow_plain_http:
        return None
    return Risk(
        code="plain_http",
        text="Tokens and secrets of this server may travel in clear.",
        hint="Set it only inside a network that nobody else can read.",
    )


def _unpinned(auth: ServerAuth) -> Risk | None:
    """Look for a secret whose issuer the server itself chooses at the first sign-in."""
    has_secret = auth.client_secret is not None
    if auth.token_endpoint_auth_method is ClientAuthMethod.PRIVATE_KEY_JWT:
        has_secret = False
    if not auth.client_id or not has_secret or auth.issuer:
        return None
    server = addresses.origin_text(auth.server_url) or "the server"
    return Risk(
        code="issuer_not_pinned",
        text=f"At its first sign-in {server} itself names who gets the client secret.",
        hint="Pin the issuer that the client was registered at.",
    )
