"""The lean way for hot routes: plain async views behind a chain of three middlewares.

Django's stock chain costs 2 to 5 CPU-ms per request (a thread per request, sync hops, sessions);
this one a tenth. It serves exactly the routes it is given and only those; everything else goes to
the application behind it. Sessions, messages and CSRF middleware are not here: the views
authenticate, and check CSRF, themselves (`tenants.api.authentication.principal_of`).
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, cast

from asgiref.sync import markcoroutinefunction
from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver
from django.urls.exceptions import Resolver404
from django.urls.resolvers import RegexPattern, ResolverMatch

from mcphub.api.errors import BodyTooLargeError, MalformedRequestError, problem_response
from mcphub.api.headers import SecurityHeadersMiddleware
from mcphub.api.parsers import body_limit
from mcphub.core.errors import UnavailableError
from tenants.cors import TenantCorsMiddleware

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]

BODY_SECONDS = 30.0

logger = logging.getLogger(__name__)


class ClientGoneError(Exception):
    """The client went away before its request was read."""


class LeanApplication:
    """ASGI: hot routes are answered here, everything else by `behind`.

    `prefixes` is the cheap test that spares other requests the resolver.
    """

    def __init__(
        self,
        behind: Application,
        patterns: Sequence[URLPattern | URLResolver],
        *,
        prefixes: tuple[str, ...],
    ) -> None:
        self._behind = behind
        self._prefixes = prefixes
        self._resolver = URLResolver(RegexPattern(r"^/"), list(patterns))
        # MiddlewareMixin's bridge to threads is what costs; these three have an async path.
        self._chain = SecurityHeadersMiddleware(TenantCorsMiddleware(cast("Any", _view)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self._match(scope)
        if match is None:
            await self._behind(scope, receive, send)
            return
        body = await take_body(scope, receive, send, body_limit())
        if body is None:
            return
        request = ASGIRequest(scope, io.BytesIO(body))
        request.resolver_match = match
        response = await self._answer(request)
        await _send(response, send, is_head=request.method == "HEAD")

    def _match(self, scope: Scope) -> ResolverMatch | None:
        if scope["type"] != "http" or not scope["path"].startswith(self._prefixes):
            return None
        try:
            return self._resolver.resolve(scope["path"])
        except Resolver404:
            return None

    async def _answer(self, request: ASGIRequest) -> HttpResponseBase:
        try:
            request.get_host()  # refuses hosts that are not ours (security reference W06)
            response = await cast("Awaitable[HttpResponseBase]", self._chain(request))
        except SuspiciousOperation:
            response = problem_response(MalformedRequestError(), request)
        if settings.SECURE_HSTS_SECONDS and request.is_secure():
            response.headers.setdefault(
                "Strict-Transport-Security", f"max-age={settings.SECURE_HSTS_SECONDS}"
            )
        return response


@markcoroutinefunction
async def _view(request: HttpRequest) -> HttpResponseBase:
    match = request.resolver_match
    if match is None:
        raise SuspiciousOperation
    response = await match.func(request, *match.args, **match.kwargs)
    return cast("HttpResponseBase", response)


async def take_body(scope: Scope, receive: Receive, send: Send, limit: int) -> bytes | None:
    """Return the whole body; None when the client has left, or was told that it cannot be taken."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await read_body(receive, limit)
    except ClientGoneError:
        return None
    except (BodyTooLargeError, TimeoutError) as exc:
        request = ASGIRequest(scope, io.BytesIO())
        known = exc if isinstance(exc, BodyTooLargeError) else UnavailableError()
        await _send(problem_response(known, request), send, is_head=False)
        return None


async def read_body(receive: Receive, limit: int) -> bytes:
    """Return the whole body. Raises ClientGoneError, BodyTooLargeError."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise BodyTooLargeError(f"The body may have {limit} bytes.")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _send(response: HttpResponseBase, send: Send, *, is_head: bool) -> None:
    """Send a whole answer; hot routes neither stream nor set cookies."""
    content = response.content if isinstance(response, HttpResponse) else b""
    headers = [
        (name.encode("ascii").lower(), value.encode("latin-1"))
        for name, value in response.headers.items()
    ]
    if "Content-Length" not in response.headers:
        headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if is_head else content})
