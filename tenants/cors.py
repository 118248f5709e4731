"""CORS by the origins of tenants and of running connect sessions; closed for all others.

A preflight carries no credential, so any allowed origin passes it; the credential of the request
itself is bound to its own origins (see credentials.py). Cookies never travel across origins.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable
from itertools import chain

from corsheaders.middleware import CorsMiddleware
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from mcphub.core.clock import now
from mcphub.core.offload import in_thread
from tenants.models import ConnectSession, Tenant

SECONDS = 5.0
MAX_LISTS = 5000


class AllowedOrigins:
    """All origins that some tenant or session allows, at most five seconds old."""

    def __init__(self) -> None:
        self._origins: frozenset[str] = frozenset()
        self._read_at = float("-inf")

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._read_at < SECONDS

    def refresh(self) -> None:
        """Read them again when it is time; two queries."""
        if self.is_fresh:
            return
        moment = time.monotonic()
        tenants = Tenant.objects.filter(is_active=True).exclude(allowed_origins=[])
        sessions = ConnectSession.unscoped.filter(
            revoked_at__isnull=True, expires_at__gt=now()
        ).exclude(allowed_origins=[])
        lists = chain(
            tenants.values_list("allowed_origins", flat=True)[:MAX_LISTS],
            sessions.order_by("-pk").values_list("allowed_origins", flat=True)[:MAX_LISTS],
        )
        self._origins = frozenset(chain.from_iterable(lists))
        self._read_at = moment

    def forget(self) -> None:
        self._read_at = float("-inf")

    def __contains__(self, origin: str) -> bool:
        return origin in self._origins


allowed_origins = AllowedOrigins()


class TenantCorsMiddleware(CorsMiddleware):
    """django-cors-headers with our origins; it never queries on an event loop."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if not self.async_mode and "origin" in request.headers:
            allowed_origins.refresh()
        return super().__call__(request)

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        if "origin" in request.headers and not allowed_origins.is_fresh:
            await in_thread(allowed_origins.refresh)
        return await super().__acall__(request)

    def check_signal(self, request: HttpRequest) -> bool:
        """Say whether the origin is allowed beyond the operator's own list."""
        if not re.match(settings.CORS_URLS_REGEX, request.path_info):
            return False
        return request.headers.get("origin", "") in allowed_origins
