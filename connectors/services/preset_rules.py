"""What the columns of a preset may hold: one set of rules for the API and the admin site (pure)."""

from __future__ import annotations

from typing import TypeGuard

from connectors.services import header_rules
from mcphub.core.errors import FieldProblem
from mcphub.core.types import JSONValue

ICONS = ("https://", "/static/", "data:image/")
ICON_RULE = "An https address, /static/… or data:image/…."
MOST_SCOPES = 100
LONGEST_SCOPE = 200
SIGN_IN_NAMES = frozenset(
    {
        "clientId",
        "issuer",
        "extraAuthorizeParams",
        "resource",
        "pkce",
        "allowLegacyDiscovery",
        "tokenEndpointAuthMethod",
        "grantType",
        "scopeCap",
    }
)
"""Of OAuth; their values are checked by what reads them."""


def is_icon(icon: str) -> bool:
    """Whether a page may show this as an image; nothing at all is no icon, which is fine."""
    return not icon or icon.startswith(ICONS)


def problems_of(icon: str, auth_config: JSONValue) -> list[FieldProblem]:
    """Return what is wrong with these columns, by the paths of the API."""
    problems = [] if is_icon(icon) else [FieldProblem(path="/icon", message=ICON_RULE)]
    if not isinstance(auth_config, dict):
        return [*problems, FieldProblem(path="/auth", message="This has to be an object.")]
    known = {"headerNames", "scopes", *SIGN_IN_NAMES}
    problems += [
        FieldProblem(
            path=f"/auth/{name[:100]}", message="There is no such member.", code="unknown_member"
        )
        for name in sorted(auth_config.keys() - known)
    ]
    names, scopes = auth_config.get("headerNames", []), auth_config.get("scopes", [])
    if not _is_list(names, header_rules.MOST_HEADERS) or not all(map(_is_header_name, names)):
        message = f"A list of at most {header_rules.MOST_HEADERS} header names."
        problems.append(FieldProblem(path="/auth/headerNames", message=message))
    if not _is_list(scopes, MOST_SCOPES) or not all(map(_is_scope, scopes)):
        message = f"A list of at most {MOST_SCOPES} scopes."
        problems.append(FieldProblem(path="/auth/scopes", message=message))
    cap = auth_config.get("scopeCap", [])
    if not _is_list(cap, MOST_SCOPES) or not all(map(_is_scope, cap)):
        message = f"A list of at most {MOST_SCOPES} scopes."
        problems.append(FieldProblem(path="/auth/scopeCap", message=message))
    return problems


def _is_list(value: JSONValue, longest: int) -> TypeGuard[list[JSONValue]]:
    return isinstance(value, list) and len(value) <= longest


def _is_header_name(name: JSONValue) -> bool:
    return isinstance(name, str) and header_rules.NAME.fullmatch(name) is not None


def _is_scope(scope: JSONValue) -> bool:
    return isinstance(scope, str) and bool(scope.strip()) and len(scope) <= LONGEST_SCOPE
