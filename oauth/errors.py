"""Errors of signing in: each names what to do next, and none repeats what a server wrote."""

from __future__ import annotations

from mcphub.core.errors import AuthorizationNeededError, HubError, NotPermittedError
from oauth.names import LostReason


class NoOAuthMetadataError(HubError):
    code = "no_oauth_metadata"
    status = 502
    title = "The server does not say where to sign in"


class MetadataInvalidError(HubError):
    """The protected resource metadata of the server (RFC 9728) cannot be used."""

    code = "prm_invalid"
    status = 502
    title = "The server's description of its authorization cannot be used"


class ServerMetadataInvalidError(HubError):
    """The metadata of the authorization server (RFC 8414) cannot be used."""

    code = "as_metadata_invalid"
    status = 502
    title = "The authorization server's description of itself cannot be used"


class IssuerMismatchError(HubError):
    code = "issuer_mismatch"
    status = 502
    title = "The authorization server gives another issuer than the expected one"


class PkceUnsupportedError(HubError):
    code = "pkce_unsupported"
    status = 502
    title = "The authorization server does not offer PKCE with S256"


class BadAuthorizationEndpointError(HubError):
    code = "bad_authorization_endpoint"
    status = 502
    title = "The authorization server's sign-in address cannot be used"


class InsecureOAuthUrlError(HubError):
    code = "insecure_oauth_url"
    status = 502
    title = "An address of the authorization is not https"


class RegistrationUnusableError(HubError):
    code = "registration_unusable"
    status = 502
    title = "The hub could not register as a client of the authorization server"


class InsufficientScopeError(NotPermittedError):
    code = "insufficient_scope"
    status = 403
    title = "The server wants more permissions than it was given, again and again"


class AuthTemporarilyUnavailableError(HubError):
    """The tokens are kept; the same request may succeed later."""

    code = "auth_temporarily_unavailable"
    status = 503
    retryable = True
    title = "The authorization server cannot be used right now"


class StateInvalidError(HubError):
    """The same answer for unknown, used, expired and somebody else's."""

    code = "authorization_state_invalid"
    status = 400
    title = "This sign-in is unknown, too old, already finished, or not yours"


class AuthorizationRefusedError(HubError):
    code = "authorization_refused"
    status = 409
    title = "The authorization server did not give access"

    def __init__(self, detail: str = "", *, reason: str = "") -> None:
        super().__init__(detail, extra={"reason": reason} if reason else None)
        self.reason = reason
        self.return_url = ""


class GrantLostError(AuthorizationNeededError):
    """A person has to sign in again; `reason` says why."""

    code = "authorization_needed"
    status = 409

    def __init__(self, reason: LostReason | None) -> None:
        super().__init__()
        self.reason = reason
        self.extra = {"reason": reason.value if reason else "never_authorized"}
