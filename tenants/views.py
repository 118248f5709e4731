"""The pages on which people log in: with a password, or by a one-time link."""

from __future__ import annotations

from django.contrib.auth import login
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from tenants import services
from tenants.login import MemberLoginForm

GONE = "This link was used already, or it is too old.\n"


class LoginPage(LoginView):
    """Log in with a password; the admin site has a page of its own, for operators alone."""

    template_name = "tenants/login.html"
    redirect_authenticated_user = True
    next_page = "/"
    authentication_form = MemberLoginForm


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
