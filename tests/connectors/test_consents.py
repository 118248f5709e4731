"""What a server may ask: the server's switch, and what the member lets through."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from redis import Redis

from connectors import selectors
from connectors.queue import workers
from connectors.server_spec import Relay
from tests.connectors.rest import send
from tests.connectors.server_factories import make_connector
from tests.connectors.session_stack import add_server, running_worker
from tests.fakes.raw_server import RawServer, serving_in_thread
from tests.world import World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rest")]
NO, YES = {"offered": True, "consented": False}, {"offered": True, "consented": True}
OFF = {"offered": False, "consented": False}


def declared(world: World, server: str) -> set[Relay]:
    row = selectors.connection_for(world.alice.principal, server)
    return set(selectors.spec_for(row).relays)


def test_only_questions_are_consented_to_before_anybody_says_so(
    world: World, client: Client, redis: Redis
) -> None:
    custom = add_server(world.alice.principal, "https://mcp.example/mcp").slug
    preset = make_connector().slug
    relays = send(client, "get", f"/api/v1/servers/{custom}", world.alice).json()["relays"]
    assert relays == {"elicitation": YES, "sampling": NO, "roots": NO}
    relays = send(client, "get", f"/api/v1/servers/{preset}", world.alice).json()["relays"]
    assert relays == {"elicitation": YES, "sampling": OFF, "roots": OFF}
    assert declared(world, custom) == declared(world, preset) == {Relay.ELICITATION}


def test_a_request_is_declared_where_it_is_offered_and_consented(
    world: World, client: Client, redis: Redis
) -> None:
    slug = make_connector(relay_sampling=True).slug
    path = f"/api/v1/servers/{slug}"
    wish = {"consent": {"elicitation": False, "sampling": True, "roots": True}}
    changed = send(client, "patch", path, world.alice, wish).json()["relays"]
    assert changed["elicitation"] == NO
    assert changed["roots"] == {"offered": False, "consented": True}
    assert declared(world, slug) == {Relay.SAMPLING}
    send(client, "patch", path, world.alice, {"consent": {"elicitation": True}})
    assert declared(world, slug) == {Relay.ELICITATION, Relay.SAMPLING}
    theirs = send(client, "get", path, world.bob).json()["relays"]
    assert theirs["sampling"] == NO


def test_consent_is_given_while_connecting_and_reaches_the_server(
    world: World, client: Client, redis: Redis, ledger_threads: None
) -> None:
    workers.forget_known()
    with serving_in_thread(RawServer()) as server, running_worker() as stack:
        row = add_server(world.alice.principal, server.url)
        path = f"/api/v1/servers/{row.slug}"
        body: dict[str, Any] = {"consent": {"sampling": True}}
        send(client, "post", f"{path}/connect", world.alice, body)
        stack.open(row)
        assert told(server) == {"elicitation", "sampling"}
        send(client, "patch", path, world.alice, {"consent": {"sampling": False}})
        stack.open(row)
        assert told(server) == {"elicitation"}


def told(server: RawServer) -> set[str]:
    """Return what the newest session declares."""
    capabilities = server.of("initialize")[-1].params["capabilities"]
    assert isinstance(capabilities, dict)
    return set(capabilities)


def test_an_unknown_kind_of_consent_is_refused(world: World, client: Client, redis: Redis) -> None:
    slug = add_server(world.alice.principal, "https://mcp.example/mcp").slug
    answer = send(
        client, "patch", f"/api/v1/servers/{slug}", world.alice, {"consent": {"files": True}}
    )
    assert answer.status_code == 422
