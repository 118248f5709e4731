"""Security headers of every answer: a Content-Security-Policy without any `unsafe-*`.

The stock admin site and our own pages have no inline script or style; the API answers no page at
all. The policy of a view that sets its own stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

POLICY = "Content-Security-Policy"
API_PATHS = ("/api/", "/mcp", "/oauth/", "/livez", "/readyz", "/metrics")
DOCUMENT_POLICY = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"

GetResponse = Callable[[HttpRequest], Any]


class SecurityHeadersMiddleware:
    """Adds what Django's SecurityMiddleware does not; serves sync and async chains."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.page_policy = page_policy(settings.BASE_URL)
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._acall(request)
        response: HttpResponseBase = self.get_response(request)
        return self._secure(request, response)

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await self.get_response(request)
        return self._secure(request, response)

    def _secure(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        is_api = request.path.startswith(API_PATHS)
        is_page = "text/html" in response.headers.get("Content-Type", "")
        response.headers.setdefault(POLICY, self.page_policy if is_page else DOCUMENT_POLICY)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault("Referrer-Policy", settings.SECURE_REFERRER_POLICY)
        response.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        response.headers.setdefault("X-Frame-Options", settings.X_FRAME_OPTIONS)
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
        )
        if is_api:
            response.headers.setdefault("Cache-Control", "no-store")
        return response


def page_policy(base_url: str) -> str:
    """Return the policy of pages; `'self'` does not cover WebSockets in every browser."""
    parts = urlsplit(base_url)
    socket = f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}"
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            f"connect-src 'self' {socket}",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )
