"""The page on which a person lets an MCP client in, or does not: it says who, what and where to.

Each request is asked about; no earlier consent is ever taken for it (security reference O15).
"""

from __future__ import annotations

import time
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from oauth2_provider.exceptions import FatalClientError, OAuthToolkitError
from oauth2_provider.http import OAuth2ResponseRedirect
from oauth2_provider.views.mixins import OAuthLibMixin
from oauthlib.common import add_params_to_uri

from gateway.login import pending, policy
from gateway.login.logins import Consent, memberships_of
from gateway.login.models import DownstreamClient
from gateway.login.pending import PendingRequest
from gateway.login.provider import SCOPES
from gateway.login.role import is_on
from gateway.login.views import limited
from tenants.rates import Rate

PAGES = Rate(name="client_consents", limit=30, window=60)
STALE = "This request is too old, or it was answered already. Start again in your application."
UNKNOWN_CLIENT = (
    "The application that sent you here is not known, or it wants to be answered at an address "
    "that is not its own. Nobody was let in. Start again in your application."
)
NOT_A_MEMBER = "Your login belongs to no organisation here, so there is nothing to give access to."

NEEDS_S256 = "PKCE needs the method S256."
NEEDS_RESOURCE = "Name the MCP endpoint that the token is for, once, as resource."
DENIED = "The person did not give access."


class SeeOther(OAuth2ResponseRedirect):
    """To the client, as GET whatever the request was (RFC 9700 §4.12)."""

    status_code = 303


class AuthorizeView(OAuthLibMixin, View):
    """The authorization endpoint: GET asks the person, POST is the answer (CSRF is checked)."""

    @method_decorator(never_cache)
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_on():
            raise Http404
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        refusal = limited((PAGES, str(request.user.pk)))
        if refusal is not None:
            return refusal
        try:
            scopes, found = self.validate_authorization_request(request)
        except FatalClientError:
            return problem_page(request, UNKNOWN_CLIENT)
        except OAuthToolkitError as exc:
            error = exc.oauthlib_error  # its redirect URI was checked before what is wrong
            return _refusal(error.redirect_uri, error.state, error.error, error.description)
        client = DownstreamClient.objects.get(client_id=found["client_id"])
        return self._ask(request, client, scopes, found)

    def post(self, request: HttpRequest) -> HttpResponse:
        name = request.POST.get("request", "")
        asked = pending.take(request.session, name, user_id=str(request.user.pk))
        client = DownstreamClient.objects.filter(client_id=asked.client_id if asked else "").first()
        if asked is None or client is None:
            return problem_page(request, STALE)
        if request.POST.get("decision") != "allow":
            return _refusal(asked.redirect_uri, asked.state, "access_denied", DENIED)
        member_id = request.POST.get("member", "")
        member = next(
            (m for m in memberships_of(request.user.pk or 0) if str(m.pk) == member_id), None
        )
        if member is None:
            return problem_page(request, NOT_A_MEMBER)
        return self._grant(
            request,
            asked,
            Consent(
                member=member,
                client=client,
                scopes=tuple(asked.scopes),
                endpoint=policy.endpoint_of(asked.resource, settings.BASE_URL),
            ),
        )

    def _ask(
        self, request: HttpRequest, client: DownstreamClient, scopes: list[str], found: Any
    ) -> HttpResponse:
        asked = PendingRequest(
            client_id=client.client_id,
            redirect_uri=found["redirect_uri"],
            state=found["state"],
            code_challenge=found["code_challenge"],
            scopes=sorted(scopes),
            resource=" ".join(request.GET.getlist("resource")),
            user_id=str(request.user.pk),
            asked_at=time.time(),
        )
        if found["code_challenge_method"] != "S256":
            return _refusal(asked.redirect_uri, asked.state, "invalid_request", NEEDS_S256)
        endpoint = policy.endpoint_of(asked.resource, settings.BASE_URL)
        if not endpoint:
            return _refusal(asked.redirect_uri, asked.state, "invalid_target", NEEDS_RESOURCE)
        members = list(memberships_of(request.user.pk or 0))
        if not members:
            return problem_page(request, NOT_A_MEMBER, status=403)
        page = {
            "client": client,
            "is_local": policy.is_on_this_machine(asked.redirect_uri),
            "goes_to": policy.origin_of(asked.redirect_uri),
            "server": endpoint.removeprefix(policy.SERVER) if endpoint != policy.AGGREGATE else "",
            "scopes": [SCOPES[scope] for scope in asked.scopes],
            "members": members,
            "request_name": pending.keep(request.session, asked),
        }
        response = render(request, "login/consent.html", page)
        response.headers["Content-Security-Policy"] = page_policy(asked.redirect_uri)
        return response

    def _grant(
        self,
        request: HttpRequest,
        asked: PendingRequest,
        consent: Consent,
    ) -> HttpResponse:
        credentials = {
            "client_id": asked.client_id,
            "redirect_uri": asked.redirect_uri,
            "response_type": "code",
            "state": asked.state,
            "code_challenge": asked.code_challenge,
            "code_challenge_method": "S256",
            "resource": [asked.resource],
            "consent": consent,
        }
        try:
            to, _, _, _ = self.create_authorization_response(
                request, " ".join(asked.scopes), credentials, allow=True
            )
        except (
            FatalClientError,
            OAuthToolkitError,
        ):  # the client was changed or switched off in the meantime
            return problem_page(request, UNKNOWN_CLIENT)
        return SeeOther(to, consent.client.get_allowed_schemes())


def problem_page(request: HttpRequest, text: str, *, status: int = 400) -> HttpResponse:
    """Tell the person; nobody is sent anywhere."""
    return render(request, "login/problem.html", {"text": text}, status=status)


def page_policy(redirect_uri: str) -> str:
    """Return the page's policy: no script, no frame; the form leads here, and on to the client."""
    return (
        "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
        f"form-action 'self' {policy.source_of(redirect_uri)}"
    )


def _refusal(redirect_uri: str, state: str | None, error: str, text: str) -> HttpResponse:
    """Send an error to the client, with who sends it (RFC 9207)."""
    values = {"error": error, "error_description": text, "state": state, "iss": settings.BASE_URL}
    given = [(name, value) for name, value in values.items() if value]
    to = add_params_to_uri(redirect_uri, given)
    return SeeOther(to, DownstreamClient().get_allowed_schemes())
