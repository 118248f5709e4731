"""The pages on which people log in: with a password, or by a one-time link."""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth import login
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from mcphub.core.errors import LimitError
from tenants import rates, services
from tenants.rates import Rate

GONE = "This link was used already, or it is too old.\n"
WAIT = "Too many attempts. Wait a minute, then try again.\n"
BY_ADDRESS = Rate(name="logins_by_address", limit=60, window=60)
BY_NAME = Rate(name="logins_by_name", limit=10, window=60)


class LoginPage(LoginView):
    """Log in with a password; the admin site has a page of its own, for operators alone."""

    template_name = "tenants/login.html"
    redirect_authenticated_user = True
    next_page = "/"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            rates.take(BY_ADDRESS, str(request.META.get("REMOTE_ADDR", "")))
            rates.take(BY_NAME, _digest(request.POST.get("username", "")))
        except LimitError:
            return HttpResponse(WAIT, status=429, content_type="text/plain; charset=utf-8")
        return super().post(request, *args, **kwargs)


@never_cache
@require_GET
def login_once(request: HttpRequest, token: str) -> HttpResponse:
    """Log in by the link and lead on; HEAD and prefetching do not spend it."""
    if "prefetch" in request.headers.get("sec-purpose", request.headers.get("purpose", "")):
        return _private(HttpResponse(status=204))
    found = services.redeem_login_link(token)
    if found is None:
        return _private(HttpResponse(GONE, status=410, content_type="text/plain; charset=utf-8"))
    user, to = found
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return _private(HttpResponseRedirect(to))


def _private(response: HttpResponse) -> HttpResponse:
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def _digest(name: str) -> str:
    return hashlib.sha256(name.lower().encode()).hexdigest()[:16]
