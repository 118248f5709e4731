"""Whose servers and calls may be subscribed to: what the event socket asks of connectors."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from asgiref.sync import sync_to_async

from connectors.models import Connection
from tests.connectors import server_factories
from tests.world import World
from tracing import topics

pytestmark = pytest.mark.django_db(transaction=True)


async def test_own_server_is_known_and_a_foreign_or_unknown_one_is_not(
    world: World, connection: Connection
) -> None:
    assert await topics.is_visible("server", world.alice.principal, connection.slug)
    assert not await topics.is_visible("server", world.bob.principal, "unknown")
    custom = await sync_to_async(server_factories.make_custom)(world.charlie, "own")
    assert not await topics.is_visible("server", world.alice.principal, custom.slug)


async def test_own_call_is_known_and_a_foreign_or_unknown_one_is_not(
    world: World, connection: Connection
) -> None:
    call = await sync_to_async(server_factories.make_call)(world.alice, connection)
    assert await topics.is_visible("call", world.alice.principal, str(call.pk))
    for who, call_id in (
        (world.bob.principal, str(call.pk)),
        (world.charlie.principal, str(call.pk)),
        (world.alice.principal, str(uuid.uuid4())),
        (world.alice.principal, "no-uuid"),
    ):
        assert not await topics.is_visible("call", who, call_id)


def test_limited_principal_sees_the_servers_of_its_connectors(world: World) -> None:
    for slug in ("linear", "github"):
        server_factories.make_connection(world.alice, server_factories.make_connector(slug))
    limited = replace(world.alice.principal, allowed_connectors=frozenset({"linear"}))
    assert topics.visible_servers(limited) == ["linear"]
    assert topics.visible_servers(world.alice.principal) is None
