"""Walks every route below /api/v1: nobody gets in, and strangers see no difference to nothing.

A route that is not in walk_routes.ROUTES fails, so a new endpoint brings its entry along.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.urls import URLPattern, URLResolver, get_resolver
from pytest_django.fixtures import Settings
from redis import Redis

from connectors import selectors
from connectors.api import threads
from connectors.services import tool_calls
from mcphub import asgi
from tenants.models import Membership, Role
from tenants.principal import Principal
from tenants.scoping import TenantScoped
from tests.connectors.call_stack import closing_loop_objects
from tests.house.walk_routes import FIXED, PUBLIC, ROUTES, UNKNOWN, Entry, Theirs, make_theirs
from tests.world import Person, World

pytestmark = pytest.mark.django_db(transaction=True)

PREFIX = "api/v1/"
PARAMETER = re.compile(r"<\w+:(\w+)>")
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@pytest.fixture
async def web(world: World, redis: Redis, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the whole ASGI application, hot paths included."""
    settings.REACT_MCP_STORAGE = True
    selectors.targets.clear()
    async with closing_loop_objects():
        transport = httpx.ASGITransport(app=asgi.http)
        base = "http://127.0.0.1:8000/api/v1/"
        async with httpx.AsyncClient(transport=transport, base_url=base, headers=TRACE) as client:
            yield client
    await asyncio.to_thread(threads.close)
    await asyncio.to_thread(selectors.targets.close)
    await asyncio.to_thread(tool_calls.close)


def routes_below(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[str]:
    for one in patterns:
        whole = prefix + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from routes_below(one.url_patterns, whole)
        elif whole.startswith(PREFIX):
            yield whole.removeprefix(PREFIX)


def parameters_of(route: str) -> list[str]:
    return PARAMETER.findall(route)


def filled(route: str, names: dict[str, str]) -> str:
    return PARAMETER.sub(lambda found: names[found[1]], route)


async def ask(
    web: httpx.AsyncClient, method: str, path: str, entry: Entry, person: Person | None = None
) -> httpx.Response:
    headers = {**entry.headers, **(person.headers if person else {})}
    body = None if method == "GET" else entry.body
    return await web.request(method, path, json=body, headers=headers)


async def make(person: Person) -> Theirs:
    made: Theirs = await sync_to_async(make_theirs)(person)
    return made


def rows_of(principal: Principal) -> dict[str, list[str]]:
    """Return everything that the tenant has, to see that it stays as it is."""
    return {
        model.__name__: sorted(map(repr, model.objects.of(principal).values()))
        for model in apps.get_models()
        if issubclass(model, TenantScoped)
    }


def gated_routes(names: dict[str, str]) -> Iterator[tuple[str, str, Entry]]:
    """Return route, method and entry of all that name one of these objects."""
    for route, entry in ROUTES.items():
        if set(parameters_of(route)) & set(names):
            for method in (entry.gated or entry.methods).split():
                yield route, method, entry


async def differences(web: httpx.AsyncClient, stranger: Person, names: dict[str, str]) -> list[str]:
    """Return where a stranger's answer is no 404, or tells an unknown id from a foreign one."""
    found = []
    for route, method, entry in gated_routes(names):
        answers = []
        for ids in (names, UNKNOWN):
            path = filled(route, {**FIXED, **ids})
            answer = await ask(web, method, path, entry, stranger)
            text = answer.text
            for own in (ids[name] for name in parameters_of(route) if name in ids):
                text = text.replace(own, "<id>")
            answers.append((answer.status_code, text))
        if answers[0][0] != 404 or answers[0] != answers[1]:
            found.append(f"{method} {route}: {answers}")
    return found


def test_every_route_has_an_entry_and_every_entry_a_route() -> None:
    assert set(routes_below(get_resolver().url_patterns)) == set(ROUTES)


def test_every_parameter_of_a_route_is_known_to_the_walk(world: World) -> None:
    known = set(make_theirs(world.charlie).ids) | set(FIXED)
    used = {name for route in ROUTES for name in parameters_of(route)}
    assert used <= known
    assert set(make_theirs(world.charlie).ids) == set(UNKNOWN)


async def test_anonymous_gets_a_401_everywhere_but_at_the_documentation(
    web: httpx.AsyncClient, world: World
) -> None:
    theirs = await make(world.charlie)
    answers = {
        f"{method} {route}": await ask(web, method, filled(route, {**FIXED, **theirs.ids}), entry)
        for route, entry in ROUTES.items()
        for method in entry.methods.split()
    }
    public = {f"GET {route}" for route in PUBLIC}
    open_to_all = {name for name, answer in answers.items() if answer.status_code != 401}
    assert open_to_all == public
    refused = [answer for answer in answers.values() if answer.status_code == 401]
    assert {answer.headers["www-authenticate"] for answer in refused} == {'Bearer realm="mcphub"'}
    assert {answer.headers["content-type"] for answer in refused} == {"application/problem+json"}


async def test_stranger_sees_no_difference_between_foreign_and_unknown(
    web: httpx.AsyncClient, world: World
) -> None:
    theirs = await make(world.charlie)
    before = await sync_to_async(rows_of)(world.charlie.principal)
    assert len(list(gated_routes(theirs.ids))) > 30
    assert await differences(web, world.alice, theirs.ids) == []
    assert await sync_to_async(rows_of)(world.charlie.principal) == before


async def test_owner_of_the_tenant_is_a_stranger_to_what_a_member_has(
    web: httpx.AsyncClient, world: World
) -> None:
    await Membership.unscoped.filter(pk=world.bob.member.pk).aupdate(role=Role.ADMIN)
    await world.bob.member.arefresh_from_db()
    theirs = await make(world.bob)
    assert await differences(web, world.alice, theirs.by_member) == []


async def test_owner_reaches_all_that_is_theirs(web: httpx.AsyncClient, world: World) -> None:
    theirs = await make(world.charlie)
    missing = [
        f"{method} {route}"
        for route, method, entry in gated_routes(theirs.ids)
        if method == "GET"
        and (
            await ask(web, method, filled(route, {**FIXED, **theirs.ids}), entry, world.charlie)
        ).status_code
        == 404
    ]
    assert missing == []


async def test_lists_and_their_filters_show_nothing_of_strangers(
    web: httpx.AsyncClient, world: World
) -> None:
    theirs = await make(world.charlie)
    queries = [{}, {"server": theirs.ids["server"]}, {"call": theirs.ids["call_id"]}]
    lists = [
        route
        for route, entry in ROUTES.items()
        if "GET" in entry.methods and not entry.is_stream and not parameters_of(route)
    ]
    leaks = []
    for route, query in itertools.product(lists, queries):
        answer = await web.get(route, params=query, headers=dict(world.alice.headers))
        asked = set(query.values())
        leaks += [
            f"{route} {query}: {one}"
            for one in set(theirs.ids.values()) - asked
            if one in answer.text
        ]
    assert len(lists) > 10
    assert leaks == []
