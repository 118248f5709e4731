"""Where a browser may be sent after signing in: the hub, and origins that the tenant lists."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from django.conf import settings

from mcphub.core.errors import FieldProblem, InvalidInputError
from oauth import addresses
from tenants.models import Tenant
from tenants.principal import Principal


def check(principal: Principal, url: str, *, path: str = "/returnUrl") -> None:
    """Raise InvalidInputError unless the browser may be sent to `url`. One query."""
    if not url:
        return
    origin = addresses.origin_text(url)
    if origin and origin in allowed_origins(principal):
        return
    problem = FieldProblem(
        path=path, message="Its origin is not listed for the tenant.", code="not_allowed"
    )
    raise InvalidInputError("The browser may not be sent there.", problems=[problem])


def check_redirect_uri(principal: Principal, uri: str) -> None:
    """As `check`, for a redirect URI of an app: https, or http on loopback (RFC 8252 §8.3)."""
    check(principal, uri, path="/redirectUri")
    parts = addresses.split(uri)
    if parts is not None and parts.scheme == "http" and not addresses.is_loopback(parts):
        problem = FieldProblem(path="/redirectUri", message="This has to be an https address.")
        raise InvalidInputError("The browser may not be sent there.", problems=[problem])


def allowed_origins(principal: Principal) -> frozenset[str]:
    """Return the origins that the credential or the tenant lists, and the hub's own."""
    own = addresses.origin_text(settings.BASE_URL)
    if principal.allowed_origins is not None:
        return principal.allowed_origins | {own}
    listed = Tenant.objects.values_list("allowed_origins", flat=True).get(pk=principal.tenant_id)
    return frozenset(map(str, listed)) | {own}


def with_status(url: str, status: str) -> str:
    """Return `url` with `mcphub=<status>` added to its query; nothing else is told."""
    parts = urlsplit(url)
    added = urlencode({"mcphub": status})
    return parts._replace(query=f"{parts.query}&{added}" if parts.query else added).geturl()
