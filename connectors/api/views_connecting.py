"""Connecting and diagnosing: plain async views, since they wait for others."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse, JsonResponse

from connectors import selectors
from connectors.api import inputs, threads
from connectors.api.views_servers import consent_of, server_body
from connectors.models import Connection
from connectors.server_spec import Relay, ServerSpec
from connectors.services import connections, consents, diagnose
from connectors.services.settling import settling
from mcphub.api.asynchronous import json_body
from mcphub.api.parsers import body_limit
from mcphub.core.types import JSONObject
from oauth import browsers, callbacks, flows
from oauth.means import open_means
from oauth.records import requests
from oauth.records.requests import Visitor
from tenants.api.asynchronous import async_view
from tenants.principal import Principal, Scope

SETTLE_SECONDS = 2.0


@async_view("POST", scope=Scope.SERVERS_CONNECT)
async def connect(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    """Answer 200 once the state has settled, 202 while it is still on its way."""
    values = inputs.ConnectInput.read(json_body(request, limit=body_limit()))
    bound = HttpResponse()
    redirect_uri = values.get("redirect_uri") or ""
    browser = "" if redirect_uri else _browser(request, principal, bound)
    way = connections.Way(
        redirect_uri=redirect_uri,
        return_url=values.get("return_url") or "",
        browser_hash=requests.digest(browser) if browser else "",
    )
    consent = consent_of(values)
    row = await threads.run(_connect, principal, server, way, consent)
    if "respond-async" not in request.headers.get("Prefer", ""):
        await settling().wait(row.pk, SETTLE_SECONDS)
    selectors.targets.forget(principal, server)
    body = await threads.run(server_body, principal, server)
    is_moving = body["connectionState"] in {"connecting", "authPending"}
    headers = {"Location": f"/api/v1/servers/{server}"} if is_moving else {}
    response = JsonResponse(body, status=202 if is_moving else 200, headers=headers)
    response.cookies = bound.cookies
    return response


@async_view("POST", scope=Scope.SERVERS_CONNECT)
async def complete_auth(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    """Finish a sign-in for an app to which the browser came back; it shows its own credential."""
    row = await threads.run(selectors.connection_for, principal, server)
    values = inputs.CompleteAuthInput.read(json_body(request, limit=body_limit()))
    callback = callbacks.read_url(values["callback_url"], subject_key=row.pk)
    async with open_means() as means:
        await flows.complete(means, callback, Visitor(member_id=principal.member_id))
    await settling().wait(row.pk, SETTLE_SECONDS)
    selectors.targets.forget(principal, server)
    return JsonResponse(await threads.run(server_body, principal, server))


@async_view("POST", scope=Scope.SERVERS_CONNECT)
async def diagnosis(request: HttpRequest, principal: Principal, server: str) -> HttpResponse:
    """Answer an ordered checklist, made by this web process with the stored credentials."""
    json_body(request, limit=body_limit())
    spec = await threads.run(_spec, principal, server)
    steps = await diagnose.diagnose(spec)
    body: JSONObject = {
        "server": server,
        "ok": not any(step.outcome == "failed" for step in steps),
        "steps": [step.as_json for step in steps],
    }
    return JsonResponse(body)


def _browser(request: HttpRequest, principal: Principal, bound: HttpResponse) -> str:
    """Return what binds a sign-in to the browser that asks.

    "" for a server-side app's key: its user has to be logged in where the sign-in ends.
    """
    if principal.credential.startswith("session:"):
        return request.session.session_key or ""
    if principal.credential.startswith("connect_session:"):
        return browsers.bind(bound, request.COOKIES.get(browsers.cookie_name(), ""))
    return ""


def _connect(
    principal: Principal, server: str, way: connections.Way, consent: Mapping[Relay, bool]
) -> Connection:
    row = selectors.connection_for(principal, server)
    if consent:
        row = consents.consent(principal, connections.stored(principal, row), consent)
    return connections.connect(principal, row, way)


def _spec(principal: Principal, server: str) -> ServerSpec:
    return selectors.spec_for(selectors.connection_for(principal, server))
