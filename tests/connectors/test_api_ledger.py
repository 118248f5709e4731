"""REST of the ledger: calls listed in pages, cancelled, and what cannot be asked for yet."""

from __future__ import annotations

from unittest.mock import ANY
from uuid import uuid4

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from connectors.models import ToolCall
from mcphub.core.clock import now
from tenants.principal import Scope
from tests.connectors.rest import send
from tests.connectors.server_factories import make_call, make_connected
from tests.problems import problem
from tests.world import World

CALLS = "/api/v1/calls"


pytestmark = pytest.mark.usefixtures("rest")


def test_calls_are_listed_newest_first_in_pages(
    client: Client, world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    row = make_connected(world.alice, "mine")
    calls = [make_call(world.alice, row, status="queued") for _ in range(3)]
    make_call(world.bob, row)
    client.get(CALLS, headers=world.alice.headers)

    with django_assert_num_queries(1):
        first = client.get(f"{CALLS}?limit=2", headers=world.alice.headers).json()
    second = client.get(
        f"{CALLS}?limit=2&cursor={first['nextCursor']}", headers=world.alice.headers
    ).json()

    ids = [one["id"] for page in (first, second) for one in page["items"]]
    assert ids == [str(call.pk) for call in reversed(calls)]
    assert second["nextCursor"] is None
    assert first["items"][0] == {
        "id": str(calls[2].pk),
        "server": "mine",
        "method": "tools/call",
        "target": "search",
        "status": "queued",
        "attempt": 0,
        "isToolError": False,
        "problem": None,
        "delivery": None,
        "progress": None,
        "timeoutMs": 60000,
        "isCancelRequested": False,
        "createdAt": ANY,
        "sentAt": None,
        "finishedAt": None,
    }


def test_calls_are_narrowed(client: Client, world: World) -> None:
    row = make_connected(world.alice, "mine")
    make_call(world.alice, row, status="sent", attempt=1, sent_at=now())
    make_call(
        world.alice,
        row,
        status="failed",
        method="resources/read",
        problem_code="upstream_unreachable",
        problem_detail="The server could not be reached",
        finished_at=now(),
    )

    def listed(query: str) -> list[tuple[str, str | None]]:
        answer = client.get(f"{CALLS}?{query}", headers=world.alice.headers)
        return [(one["status"], one["delivery"]) for one in answer.json()["items"]]

    assert listed("status=running&server=mine") == [("running", None)]
    assert listed("method=resources/read") == [("failed", "not_sent")]
    assert listed("server=other") == []
    assert listed("since=2999-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("status", "claimed"), ("since", "yesterday"), ("odd", "1"), ("limit", "0")],
)
def test_wrong_filters_are_refused(client: Client, world: World, name: str, value: str) -> None:
    answer = client.get(CALLS, {name: value}, headers=world.alice.headers)

    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["errors"]] == [f"/{name}"]


@pytest.mark.django_db(transaction=True)
def test_a_queued_call_is_cancelled_at_once(client: Client, world: World) -> None:
    call = make_call(world.alice, make_connected(world.alice, "mine"))

    answer = send(client, "post", f"{CALLS}/{call.pk}/cancel", world.alice)

    assert answer.status_code == 200
    assert answer.json() == {
        "id": str(call.pk),
        "server": "mine",
        "method": "tools/call",
        "target": "search",
        "status": "cancelled",
        "attempt": 0,
        "isToolError": False,
        "problem": {"code": "cancelled", "detail": ""},
        "delivery": "not_sent",
        "progress": None,
        "timeoutMs": 60000,
        "isCancelRequested": False,
        "createdAt": ANY,
        "sentAt": None,
        "finishedAt": ANY,
        "outcome": None,
    }


@pytest.mark.django_db(transaction=True)
def test_an_ended_call_is_left_alone_and_keeps_its_outcome(client: Client, world: World) -> None:
    row = make_connected(world.alice, "mine")
    outcome = {"result": {"content": [], "x-odd": [1]}}
    ended = {"status": "succeeded", "sent_at": now(), "finished_at": now(), "outcome": outcome}
    call = make_call(world.alice, row, **ended)

    cancelled = send(client, "post", f"{CALLS}/{call.pk}/cancel", world.alice).json()
    read = client.get(f"{CALLS}/{call.pk}?wait=5", headers=world.alice.headers).json()

    assert cancelled == read
    assert (read["status"], read["delivery"], read["outcome"]) == ("succeeded", "answered", outcome)


@pytest.mark.django_db(transaction=True)
def test_calls_of_others_are_not_there(client: Client, world: World) -> None:
    call = make_call(world.bob, make_connected(world.bob, "bobs"))

    for pk in (call.pk, uuid4(), "no-id"):
        path = f"{CALLS}/{pk}"
        read = client.get(path, headers=world.alice.headers)
        cancelled = send(client, "post", f"{path}/cancel", world.alice)
        answered = send(client, "post", f"{path}/inputs/1", world.alice)
        assert (read.status_code, read.json()) == (404, problem("not_found", path))
        assert cancelled.json() == problem("not_found", f"{path}/cancel")
        assert answered.json() == problem("not_found", f"{path}/inputs/1")
    assert ToolCall.unscoped.get(pk=call.pk).status == "queued"


@pytest.mark.parametrize("wait", ["x", "-1", "nan", "60.5", "99999"])
@pytest.mark.django_db(transaction=True)
def test_a_wait_that_is_no_number_or_too_long_is_refused(
    client: Client, world: World, wait: str
) -> None:
    call = make_call(world.alice, make_connected(world.alice, "mine"), status="failed")

    answer = client.get(f"{CALLS}/{call.pk}?wait={wait}", headers=world.alice.headers)

    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "/wait")


def test_a_read_only_key_cancels_nothing(client: Client, world: World) -> None:
    call = make_call(world.alice, make_connected(world.alice, "mine"))
    headers = world.alice.headers_with(Scope.SERVERS_READ)

    answer = client.post(f"{CALLS}/{call.pk}/cancel", headers=headers)

    assert (answer.status_code, answer.json()["requiredScope"]) == (403, "tools:call")


def test_nothing_waits_for_an_answer_yet(client: Client, world: World) -> None:
    listed = client.get("/api/v1/elicitations", headers=world.alice.headers)
    answered = send(client, "post", "/api/v1/elicitations/e1", world.alice, {"action": "accept"})

    assert (listed.status_code, listed.json()) == (200, [])
    assert answered.json() == problem("not_found", "/api/v1/elicitations/e1")
