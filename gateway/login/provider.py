"""What django-oauth-toolkit is told: every gate of RFC 9700 shut, one grant, no secrets. Pure."""

from __future__ import annotations

from mcphub.core import ids

ACCESS_SECONDS = 900
CODE_SECONDS = 60
ACCESS_PREFIX = "mha_"
REFRESH_PREFIX = "mhr_"
SCOPES = {
    "servers:read": "See your connected servers and what they offer",
    "tools:call": "Use them for you: call tools, read resources, get prompts",
}
"""What a client may ask for, in the words of the consent page; names of `tenants.principal.Scope`.

Nothing else is of any use at `/mcp`.
"""
GATES = (
    *("IMPLICIT_GRANT", "PASSWORD_GRANT", "PKCE_METHOD", "PKCE_REQUIRED"),
    *("ACCESS_TOKEN_TRANSPORT", "AUTHZ_RESPONSE_ISS", "TOKEN_STORAGE", "REFRESH_TOKEN"),
    *("REDIRECT_URI_SCHEME", "REDIRECT_URI_MATCHING"),
)


def provider(base_url: str, *, idle_seconds: float) -> dict[str, object]:
    """Return `OAUTH2_PROVIDER`; a login that is idle for `idle_seconds` has to be made again."""
    return {
        **{f"COMPLIANT_BCP_RFC9700_{gate}": True for gate in GATES},
        "OAUTH2_VALIDATOR_CLASS": "gateway.login.validator.LoginValidator",
        "OIDC_ISS_ENDPOINT": base_url,
        "SCOPES": SCOPES,
        "PKCE_REQUIRED": True,
        "ACCESS_TOKEN_GENERATOR": "gateway.login.provider.access_token",
        "REFRESH_TOKEN_GENERATOR": "gateway.login.provider.refresh_token",
        "ACCESS_TOKEN_EXPIRE_SECONDS": ACCESS_SECONDS,
        "AUTHORIZATION_CODE_EXPIRE_SECONDS": CODE_SECONDS,
        "REFRESH_TOKEN_EXPIRE_SECONDS": idle_seconds,
        "ROTATE_REFRESH_TOKEN": True,
        "REFRESH_TOKEN_REUSE_PROTECTION": True,
        "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": 0,
        # Plain http goes to this machine alone, by the client model's own rule (RFC 8252 §7.3).
        "ALLOWED_REDIRECT_URI_SCHEMES": ["https"],
        "ALLOW_LOCALHOST_LOOPBACK": True,
        "ALLOW_URI_WILDCARDS": False,
        "DCR_ENABLED": False,  # registration.py: no secrets, no management tokens
        "CIMD_ENABLED": True,
        "CIMD_METADATA_FETCHER": "gateway.login.documents.EgressFetcher",
        "CIMD_REGISTRATION_PERMISSION_CLASSES": ["gateway.login.documents.AtConsentOnly"],
        "CLEAR_EXPIRED_TOKENS_BATCH_SIZE": 1000,
    }


def access_token(request: object) -> str:
    del request
    return ACCESS_PREFIX + ids.new_secret()


def refresh_token(request: object, refresh_token: bool = False) -> str:  # noqa: FBT001, FBT002  (oauthlib calls it so)
    del request, refresh_token
    return REFRESH_PREFIX + ids.new_secret()
