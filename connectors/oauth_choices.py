"""What an operator or member chose about signing in at a server: from JSON to ServerAuth (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcphub.core.crypto import Secret
from mcphub.core.errors import FieldProblem, InvalidInputError
from mcphub.core.types import JSONObject
from oauth.names import ClientAuthMethod, GrantType
from oauth.server_auth import ServerAuth

PKCE = {"required": False, "assumed": True}
"""What a preset says of PKCE → whether its support is taken for granted."""


def read(config: Any, secrets: JSONObject, *, url: str) -> ServerAuth:
    """Return the choices of `auth_config` with the sealed ones. Raises InvalidInputError."""
    problems: list[FieldProblem] = []
    if not isinstance(config, Mapping):
        config, problem = {}, FieldProblem(path="/auth", message="This has to be an object.")
        problems.append(problem)

    def take(name: str, parse: Callable[[Any], Any], default: Any) -> Any:
        if config.get(name) in (None, ""):
            return default
        try:
            return parse(config[name])
        except (TypeError, ValueError, KeyError):
            problems.append(FieldProblem(path=f"/auth/{name}", message="This cannot be used."))
            return default

    auth = ServerAuth(
        server_url=url,
        grant_type=take("grantType", GrantType, GrantType.AUTHORIZATION_CODE),
        client_id=take("clientId", _text, ""),
        client_secret=_secret(secrets.get("clientSecret")),
        private_key=_secret(secrets.get("privateKey")),
        token_endpoint_auth_method=take("tokenEndpointAuthMethod", ClientAuthMethod, None),
        scopes=take("scopes", _scopes, None),
        scope_cap=take("scopeCap", _cap, None),
        issuer=take("issuer", _text, ""),
        extra_authorize_params=take("extraAuthorizeParams", _texts, {}),
        resource=take("resource", _text, "auto"),
        is_pkce_assumed=take("pkce", PKCE.__getitem__, None) or False,
        allow_legacy_2025_03_26=take("allowLegacyDiscovery", _flag, None) or False,
    )
    if auth.grant_type is GrantType.CLIENT_CREDENTIALS and not auth.client_id:
        problems.append(FieldProblem(path="/auth/clientId", message="A machine needs its id."))
    if problems:
        raise InvalidInputError("The way of signing in cannot be used.", problems=problems)
    return auth


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 2000:
        raise TypeError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _scopes(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        raise TypeError
    return tuple(_text(one) for one in value) or None


def _cap(value: Any) -> frozenset[str] | None:
    scopes = _scopes(value)
    return frozenset(scopes) if scopes else None


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise TypeError
    return {_text(name): _text(text) for name, text in value.items()}


def _secret(value: Any) -> Secret | None:
    return Secret(value) if isinstance(value, str) and value else None
