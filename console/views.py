"""The page at `/`: the console, with a policy that lets it show what servers return."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from console.assets import module_names
from mcphub import __version__

POLICY = "Content-Security-Policy"


@require_safe
@ensure_csrf_cookie
def console(request: HttpRequest) -> HttpResponse:
    context = {
        "version": __version__,
        "csrf_cookie": settings.CSRF_COOKIE_NAME,
        "modules": [static(f"console/{name}") for name in module_names()],
    }
    response = render(request, "console/console.html", context)
    response.headers[POLICY] = console_policy(settings.BASE_URL)
    return response


def console_policy(base_url: str) -> str:
    """Return the site's policy plus pictures and sounds that a server returned as data."""
    parts = urlsplit(base_url)
    socket = f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}"
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            f"connect-src 'self' {socket}",
            "img-src 'self' data: blob:",
            "media-src data: blob:",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )
