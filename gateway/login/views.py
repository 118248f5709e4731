"""Endpoints that MCP clients call: metadata, registration, tokens, revocation.

They read no cookie and are open to every web origin, as the MCP specification's browser clients
need; the page that a person sees is in consent.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods
from oauth2_provider.views.mixins import OAuthLibMixin

from gateway.login import registration
from gateway.login.provider import SCOPES
from gateway.login.registration import GRANTS, RegistrationRefusedError
from gateway.login.role import is_on
from mcphub.core.errors import LimitError
from mcphub.core.types import JSONObject
from tenants import rates
from tenants.rates import Rate

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponse]

REGISTRATIONS = Rate(name="client_registrations", limit=20, window=60)
REGISTRATIONS_OF_ALL = Rate(name="client_registrations_of_all", limit=300, window=3600)
TOKENS = Rate(name="client_tokens", limit=600, window=60)
OPEN = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "authorization, content-type, mcp-protocol-version",
    "Access-Control-Max-Age": "3600",
}


def while_on(view: View[P]) -> View[P]:
    """Answer 404, as for an unknown address, while the role is off."""

    @wraps(view)
    def route(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not is_on():
            raise Http404
        return view(request, *args, **kwargs)

    return route


def open_to_browsers(method: str) -> Callable[[View[P]], View[P]]:
    """Let pages of any origin call the view; cookies are neither sent nor read."""

    def decorate(view: View[P]) -> View[P]:
        @wraps(view)
        def route(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            is_preflight = request.method == "OPTIONS"
            response = HttpResponse(status=204) if is_preflight else view(request, *args, **kwargs)
            for name, value in OPEN.items():
                response.headers[name] = value
            return response

        return csrf_exempt(require_http_methods([method, "OPTIONS"])(route))

    return decorate


def limited(*limits: tuple[Rate, str]) -> HttpResponse | None:
    """Return the refusal when one of the rates is used up."""
    try:
        for rate, whose in limits:
            rates.take(rate, whose)
    except LimitError as exc:
        return too_many(exc)
    return None


def too_many(error: LimitError) -> HttpResponse:
    response = refused("temporarily_unavailable", "Too many requests; wait a little.", status=429)
    response.headers["Retry-After"] = str(round(error.retry_after or 1) or 1)
    return response


def refused(error: str, description: str, *, status: int = 400) -> HttpResponse:
    """Answer as RFC 6749 §5.2 and RFC 7591 §3.2.2 say."""
    return JsonResponse({"error": error, "error_description": description}, status=status)


def address_of(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))


@while_on
@open_to_browsers("GET")
def metadata(request: HttpRequest) -> HttpResponse:
    """Say what this authorization server does (RFC 8414)."""
    return JsonResponse(server_metadata())


def server_metadata() -> JSONObject:
    base = settings.BASE_URL
    return {
        "issuer": base,
        "authorization_endpoint": base + reverse("client-login-authorize"),
        "token_endpoint": base + reverse("client-login-token"),
        "registration_endpoint": base + reverse("client-login-register"),
        "revocation_endpoint": base + reverse("client-login-revoke"),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [*GRANTS],
        "scopes_supported": [*SCOPES],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
        "service_documentation": f"{base}/api/docs",
    }


@while_on
@open_to_browsers("POST")
def register(request: HttpRequest) -> HttpResponse:
    """Register a client (RFC 7591)."""
    refusal = limited((REGISTRATIONS, address_of(request)), (REGISTRATIONS_OF_ALL, ""))
    if refusal is not None:
        return refusal
    try:
        told = registration.register(registration.read(request.body))
    except RegistrationRefusedError as exc:
        return refused(exc.error, exc.description)
    except LimitError as exc:
        return too_many(exc)
    return JsonResponse(told, status=201)


@while_on
@open_to_browsers("POST")
def token(request: HttpRequest) -> HttpResponse:
    """Exchange a code, or a refresh token, for tokens (RFC 6749 §4.1.3, §6)."""
    refusal = limited((TOKENS, address_of(request)))
    if refusal is not None:
        return refusal
    if request.POST.get("grant_type") not in GRANTS:
        return refused("unsupported_grant_type", f"Offered are {' and '.join(GRANTS)}.")
    return _answer(*_server().create_token_response(request))


@while_on
@open_to_browsers("POST")
def revoke(request: HttpRequest) -> HttpResponse:
    """End the login of a token (RFC 7009); an unknown token is answered alike."""
    refusal = limited((TOKENS, address_of(request)))
    if refusal is not None:
        return refusal
    return _answer(*_server().create_revocation_response(request))


def _server() -> Any:
    return OAuthLibMixin.get_oauthlib_core()


def _answer(
    url: str | None, headers: dict[str, str], body: str | None, status: int
) -> HttpResponse:
    del url
    response = HttpResponse(body or "", status=status, content_type="application/json")
    for name, value in headers.items():
        response.headers[name] = value
    return response
