"""Tickets for streams: 30 seconds, once, and only while their credential lives."""

from __future__ import annotations

from unittest.mock import ANY

import pytest
from django.test import Client
from redis import Redis

from mcphub.core.errors import NotAuthenticatedError
from tenants import api_keys, rates, tickets
from tenants.api import views
from tenants.api.throttles import tenant_rate
from tenants.models import ApiKey
from tests import factories
from tests.problems import problem
from tests.world import World, bearer

TICKETS = "/api/v1/ws-tickets"


def make(client: Client, headers: dict[str, str]) -> str:
    return str(client.post(TICKETS, headers=headers).json()["ticket"])


def test_ticket_tells_where_and_until_when(client: Client, world: World) -> None:
    answer = client.post(TICKETS, headers=world.bob.headers)
    assert answer.status_code == 201
    assert answer.json() == {
        "ticket": ANY,
        "expiresAt": ANY,
        "url": "ws://127.0.0.1:8000/ws/v1/events",
    }


def test_ticket_works_once_and_is_its_makers(client: Client, world: World) -> None:
    ticket = make(client, bearer(world.bob.key))
    principal = tickets.redeem(ticket)
    assert principal.member_id == world.bob.member.id
    assert principal.scopes == world.bob.principal.scopes
    with pytest.raises(NotAuthenticatedError):
        tickets.redeem(ticket)


def test_ticket_of_a_connect_session_keeps_its_limits(client: Client, world: World) -> None:
    session = factories.make_connect_session(world.alice.member, origins=["https://app.example"])
    principal = tickets.redeem(make(client, bearer(session.token)))
    assert principal.member_id == session.session.member_id
    assert principal.allowed_origins == frozenset({"https://app.example"})
    assert principal.may_add_servers is False


def test_ticket_ends_with_its_credential(client: Client, world: World) -> None:
    ticket = make(client, bearer(world.bob.key))
    api_keys.end(ApiKey.unscoped.get(member=world.bob.member))
    with pytest.raises(NotAuthenticatedError):
        tickets.redeem(ticket)


def test_redis_holds_neither_ticket_nor_key_and_forgets_in_30_seconds(
    client: Client, world: World, redis: Redis
) -> None:
    ticket = make(client, bearer(world.bob.key))
    (name,) = [key for key in redis.scan_iter() if b":ticket:" in key]
    value = redis.getrange(name, 0, -1)
    assert ticket.encode() not in name
    assert world.bob.key.rpartition("_")[2].encode() not in value
    assert 0 < redis.ttl(name) <= 30


def test_too_many_tickets_are_a_429_that_tells_the_wait(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tenant_rate(rates.Rate(name="ws_tickets", limit=2, window=60))
    monkeypatch.setattr(views.WsTicketsView, "throttle_classes", [few])
    answers = [client.post(TICKETS, headers=world.bob.headers) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    last = answers[2]
    assert last["Retry-After"] == "30"
    assert last["RateLimit"] == '"ws_tickets";r=0;t=30'
    assert last["RateLimit-Policy"] == '"ws_tickets";q=2;w=60'
    assert last.json() == problem(
        "rate_limited",
        TICKETS,
        retryable=True,
        retryAfter=30,
        limit="ws_tickets",
        quota=2,
        window=60,
    )
    stranger = client.post(TICKETS, headers=world.charlie.headers)
    assert stranger.status_code == 201
