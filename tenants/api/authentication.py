"""Authentication of REST, plain async views and sockets: `request.auth` is the Principal."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, parse_cookie
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from mcphub.core.errors import NotPermittedError
from tenants import credentials
from tenants.credentials import Shown
from tenants.principal import Principal


async def principal_of(request: HttpRequest) -> Principal:
    """Return who is asking; CSRF is checked for login sessions. Raises as `credentials.resolve`."""
    shown = shown_by(request)
    principal = await credentials.aresolve(shown)
    if not shown.authorization:
        enforce_csrf(request)
    return principal


def shown_by(request: HttpRequest) -> Shown:
    return Shown.from_parts(request.headers, request.COOKIES)


def shown_by_scope(scope: Any) -> Shown:
    """Read an ASGI scope (HTTP or WebSocket)."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return Shown.from_parts(headers, parse_cookie(headers.get("cookie", "")))


def enforce_csrf(request: HttpRequest) -> None:
    """Raise NotPermittedError unless a write by cookie carries the CSRF token."""
    check = CSRFCheck(_no_response)
    check.process_request(request)
    if check.process_view(request, None, (), {}):  # type: ignore[arg-type]  # as DRF calls it
        raise NotPermittedError("The CSRF token is missing or wrong.", code="csrf_failed")


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer mhk_…` (API key) or `mhs_…` (connect session)."""

    def authenticate(self, request: Request) -> tuple[Any, Principal] | None:
        shown = shown_by(request._request)  # noqa: SLF001  (DRF's documented way to Django's request)
        if not shown.authorization:
            return None
        principal = credentials.resolve(shown)
        return principal, principal

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="mcphub"'


class SessionAuthentication(BaseAuthentication):
    """The login session's cookie, with the CSRF token on every write."""

    def authenticate(self, request: Request) -> tuple[Any, Principal] | None:
        shown = shown_by(request._request)  # noqa: SLF001  (DRF's documented way to Django's request)
        if not shown.session_key or shown.authorization:
            return None
        principal = credentials.resolve(shown)
        enforce_csrf(request._request)  # noqa: SLF001  (see above)
        return principal, principal


def _no_response(request: HttpRequest) -> Any:
    """Stands for the next middleware, which a mere check never calls."""
    raise NotImplementedError
