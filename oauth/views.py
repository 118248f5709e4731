"""The callback of authorization servers, and the hub's Client ID Metadata Document.

The page that a person sees repeats nothing of what the other side sent.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_safe

from mcphub.core.errors import HubError
from oauth import browsers, callbacks, flows, registration, return_urls
from oauth.errors import AuthorizationRefusedError, StateInvalidError
from oauth.flows import Callback, Completed
from oauth.means import open_means
from oauth.records import requests
from oauth.records.requests import Visitor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the page says."""

    title: str
    text: str
    status: int = 200


CONNECTED = Result(
    title="You are signed in",
    text="The server can be used now. You can close this window.",
)
REFUSED = Result(
    title="Access was not given",
    text="Nothing has changed. Close this window and start again if you want to.",
    status=400,
)
ELSEWHERE = Result(
    title="This sign-in belongs to another browser",
    text="Nothing was given to anybody. Start it again from where you want to use the server.",
    status=400,
)
FAILED = Result(
    title="Signing in did not work",
    text="Close this window and start again from where you came.",
    status=400,
)


@never_cache
@require_GET
async def callback(request: HttpRequest, subject_key: UUID | None = None) -> HttpResponse:
    try:
        read = callbacks.read(request.META["QUERY_STRING"], subject_key=subject_key)
        user = await request.auser()
        visitor = browsers.visitor(request, user.pk if user.is_authenticated else None)
        completed = await _complete(read, visitor)
    except AuthorizationRefusedError as exc:
        logger.info("sign-in refused reason=%s", exc.reason)
        return _back(exc.return_url, "refused") or _page(request, REFUSED)
    except HubError as exc:
        logger.info("sign-in failed code=%s", exc.problem_code)
        return _page(request, FAILED)
    return _back(completed.return_url, "connected") or _page(request, CONNECTED)


@never_cache
@require_GET
def authorize(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """Lead on to the authorization server, unless the callback would refuse who comes back."""
    user_id = request.user.pk if request.user.is_authenticated else None
    try:
        found = requests.address_of(request_id, browsers.visitor(request, user_id))
    except StateInvalidError:
        return _page(request, ELSEWHERE)
    if found is None:
        return _page(request, FAILED)
    return _private(HttpResponseRedirect(found.value))


@require_safe
def client_document(request: HttpRequest) -> JsonResponse:
    """Answer who the hub is; public, and the same for everybody."""
    response = JsonResponse(registration.document())
    response.headers["Cache-Control"] = "public, max-age=3600"
    return response


async def _complete(read: Callback, visitor: Visitor) -> Completed:
    async with open_means() as means:
        return await flows.complete(means, read, visitor)


def _back(url: str, status: str) -> HttpResponse | None:
    if not url:
        return None
    return _private(HttpResponseRedirect(return_urls.with_status(url, status)))


def _page(request: HttpRequest, result: Result) -> HttpResponse:
    return _private(render(request, "oauth/result.html", {"result": result}, status=result.status))


def _private(response: HttpResponse) -> HttpResponse:
    """Keep the address, which holds the code, out of what the next page is told."""
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
