"""ServerAuth: what an operator chose about signing in at one server; passed in by callers, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcphub.core.crypto import Secret
from oauth.names import ClientAuthMethod, GrantType

RESOURCE_AUTO = "auto"
RESOURCE_OMIT = "omit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAuth:
    """The defaults follow the specification; every other value is an explicit operator choice."""

    server_url: str
    grant_type: GrantType = GrantType.AUTHORIZATION_CODE
    client_id: str = ""
    """A client that was registered beforehand; then `issuer` should be pinned too."""
    client_secret: Secret | None = None
    private_key: Secret | None = None
    """PEM or JWK, for `private_key_jwt` (RFC 7523)."""
    token_endpoint_auth_method: ClientAuthMethod | None = None
    """None: what the authorization server supports, simplest first."""
    scopes: tuple[str, ...] | None = None
    """Asked for instead of what the server suggests; a challenge still adds to it."""
    scope_cap: frozenset[str] | None = None
    """Never asked for beyond these."""
    issuer: str = ""
    """Pinned issuer: used instead of the list in the server's own metadata."""
    extra_authorize_params: Mapping[str, str] = field(default_factory=dict)
    resource: str = RESOURCE_AUTO
    """`auto` (RFC 8707 value of the metadata), `omit`, or the literal value to send."""
    is_pkce_assumed: bool = False
    """Go on although the metadata does not say S256; S256 is sent all the same."""
    allow_legacy_2025_03_26: bool = False
    """Without any metadata, use /authorize, /token and /register of the server's own origin."""
    allow_plain_http: bool = False
    """Accept http beyond loopback, as far as the egress policy does."""
    client_name: str = "mcphub"
