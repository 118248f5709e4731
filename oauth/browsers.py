"""Binds a sign-in to the browser that began it: the login session, or a cookie of its own."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from mcphub.core import ids
from oauth.records.requests import Visitor

COOKIE = "mcphub-oauth"
COOKIE_SECONDS = 600


def cookie_name() -> str:
    return f"__Host-{COOKIE}" if settings.IS_HTTPS else COOKIE


def bind(response: HttpResponseBase, known: str = "") -> str:
    """Give the browser a secret, or `known` again; returns it for `flows.Start.browser`."""
    secret = known or ids.new_secret()
    response.set_cookie(
        cookie_name(),
        secret,
        max_age=COOKIE_SECONDS,
        secure=settings.IS_HTTPS,
        httponly=True,
        samesite="Lax",
        path="/",
    )
    return secret


def visitor(request: HttpRequest, user_id: int | None) -> Visitor:
    """Return who stands before a callback."""
    keys = (request.session.session_key, request.COOKIES.get(cookie_name()))
    return Visitor(user_id=user_id, browser_keys=tuple(key for key in keys if key))
