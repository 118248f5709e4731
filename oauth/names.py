"""Closed sets of words that the package's modules share; no Django, no network."""

from __future__ import annotations

from enum import StrEnum


class GrantType(StrEnum):
    AUTHORIZATION_CODE = "authorization_code"
    CLIENT_CREDENTIALS = "client_credentials"


class ClientAuthMethod(StrEnum):
    """How the hub proves that it is the client (RFC 7591 §2)."""

    NONE = "none"
    BASIC = "client_secret_basic"
    POST = "client_secret_post"
    PRIVATE_KEY_JWT = "private_key_jwt"


class LostReason(StrEnum):
    """Why a person has to sign in again; public, stable."""

    EXPIRED = "expired"
    """The access token ended and there is no refresh token."""
    REFRESH_REFUSED = "refresh_refused"
    """The authorization server no longer takes the refresh token."""
    REFRESH_INTERRUPTED = "refresh_interrupted"
    """A refresh got no answer, and the token that it spent is refused since."""
    CLIENT_FORGOTTEN = "client_forgotten"
    """The authorization server does not know the hub's registration any more."""
    TOKEN_REJECTED = "token_rejected"  # noqa: S105  (a word, no password)
    """The server refuses the token and there is no refresh token."""
    FRESH_TOKEN_REJECTED = "fresh_token_rejected"  # noqa: S105  (a word, no password)
    """The server refuses tokens that were just issued."""
    SERVER_CHANGED = "server_changed"
    """The address or issuer of the server is another one now."""
    REVOKED = "revoked"
    """The member or an admin revoked it."""


class Change(StrEnum):
    """What has become of an authorization that is still good, or is about to."""

    REFRESHED = "refreshed"
    REFRESH_DELAYED = "refresh_delayed"
    ENDING = "ending"
