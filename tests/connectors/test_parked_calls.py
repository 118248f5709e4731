"""Calls whose server asks back: parked, answered from anywhere, the same in both eras."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from connectors.models import CallStatus
from connectors.queue import workers
from tests.connectors.asking_stack import ACCEPT, Asking, asking
from tests.fakes.asking_server import STATE
from tests.fakes.mcp_servers import Kind
from tests.world import World

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rest")]
ERAS = [Kind.LEGACY, Kind.MODERN]


@pytest.fixture(params=ERAS, ids=["handshake era", "2026-07-28"])
def hub(
    request: pytest.FixtureRequest, world: World, ledger_threads: None, redis: Redis
) -> Iterator[Asking]:
    workers.forget_known()
    with asking(world.alice, request.param) as found:
        yield found


def test_a_call_that_asks_is_parked_and_goes_on_with_the_answer(hub: Asking) -> None:
    call = hub.call("ask")
    question = hub.question(call)
    assert question["message"] == "Who are you?"
    assert question["requestedSchema"]["required"] == ["name"]
    assert hub.row(call).status == "input_required"
    assert hub.answer(question).status_code == 200
    assert hub.text(call) == ACCEPT
    assert hub.questions() == []


def test_the_request_state_comes_back_byte_for_byte(hub: Asking) -> None:
    call = hub.call("ask")
    hub.answer(hub.question(call))
    hub.until(call, CallStatus.SUCCEEDED)
    assert hub.demo.states in ([], [STATE])
