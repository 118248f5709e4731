"""Calls whose server asks back: parked, answered from anywhere, the same in both eras."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from redis import Redis

from connectors.models import CallStatus
from connectors.queue import workers
from connectors.server_spec import Relay
from connectors.services import reaper
from mcphub.core import clock
from mcphub.core import redis as hub_redis
from tests.connectors.asking_stack import ACCEPT, Asking, asking
from tests.connectors.rest import send
from tests.connectors.session_stack import running_worker
from tests.fakes.asking_server import PAGE, STATE
from tests.fakes.mcp_servers import Kind
from tests.waiting import eventually
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
    assert hub.demo.states == ([STATE] if hub.is_modern else [])


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_reaches_the_server_which_decides(hub: Asking, action: str) -> None:
    call = hub.call("ask")
    assert hub.answer(hub.question(call), {"action": action}).json()["state"].startswith(action)
    assert hub.text(call) == {"action": action}


def test_an_answer_that_does_not_fit_is_refused_and_may_be_repeated(hub: Asking) -> None:
    call = hub.call("ask")
    question = hub.question(call)
    wrong = {"action": "accept", "content": {"name": "", "age": 3}}
    refused = hub.answer(question, wrong)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_answer")
    assert {error["property"] for error in refused.json()["errors"]} == {"name", "age"}
    kept = hub.question(call)["error"]
    assert set(kept["properties"]) == {"name", "age"}
    assert hub.answer(question).status_code == 200
    assert hub.text(call) == ACCEPT


def test_the_second_answer_to_a_question_is_refused(hub: Asking) -> None:
    call = hub.call("ask")
    question = hub.question(call)
    assert hub.answer(question).status_code == 200
    assert hub.answer(question).json()["code"] == "input_closed"


def test_a_call_may_ask_again(hub: Asking) -> None:
    call = hub.call("ask_twice")
    first = hub.question(call)
    hub.answer(first)
    eventually(lambda: {q["id"] for q in hub.questions(call)} - {first["id"]}, what="it asks")
    hub.answer(hub.question(call))
    assert hub.text(call) == ACCEPT


def test_answers_of_concurrent_calls_are_not_confused(hub: Asking) -> None:
    calls = [hub.call("ask") for _ in range(6)]
    questions = [hub.question(call) for call in calls]
    for number in (3, 0, 5, 1, 4, 2):
        content = {"name": f"member {number}"}
        hub.answer(questions[number], {"action": "accept", "content": content})
    for number, call in enumerate(calls):
        assert hub.text(call)["content"] == {"name": f"member {number}"}


def test_an_address_is_shown_whole_and_never_opened_by_the_hub(hub: Asking) -> None:
    call = hub.call("visit")
    question = hub.question(call)
    assert (question["url"], question["host"]) == (PAGE, "pay.example")
    assert hub.answer(question, {"action": "accept"}).status_code == 200
    assert hub.text(call) == {"action": "accept"}


def test_the_server_object_has_the_open_questions(hub: Asking) -> None:
    question = hub.question(hub.call("ask"))
    server = hub.get(f"/api/v1/servers/{hub.connection.slug}").json()
    assert server["nextAction"] == "answer_input"
    assert [each["id"] for each in server["pendingElicitations"]] == [question["id"]]


def test_a_cancelled_call_takes_its_questions_along(hub: Asking) -> None:
    call = hub.call("ask")
    hub.question(call)
    response = send(hub.client, "post", f"/api/v1/calls/{call}/cancel", hub.person)
    assert response.status_code == 200
    hub.until(call, CallStatus.CANCELLED)
    eventually(lambda: not hub.questions(), what="the question is closed")


def test_a_question_that_nobody_answers_ends_its_call(
    hub: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = hub.call("ask")
    question = hub.question(call)
    later = clock.now() + timedelta(seconds=601)
    monkeypatch.setattr(clock, "now", lambda: later)
    hub.sweep()
    row = hub.until(call, CallStatus.EXPIRED)
    assert row.problem_code == "input_expired"
    assert hub.answer(question).json()["code"] == "input_expired"


def test_the_time_of_a_call_stands_still_while_somebody_is_asked(hub: Asking) -> None:
    call = hub.call("ask", seconds=1.0)
    question = hub.question(call)
    asked = time.monotonic()
    eventually(lambda: time.monotonic() - asked > 1.5, what="the call's own time is over")
    hub.answer(question)
    assert hub.text(call) == ACCEPT


def test_a_worker_that_ends_takes_only_calls_of_sessions_along(hub: Asking) -> None:
    call = hub.call("ask")
    question = hub.question(call)
    reaper.end_worker(hub.stack.worker.id)
    if not hub.is_modern:
        assert hub.row(call).status == "outcome_unknown"
        assert hub.questions() == []
        return
    assert hub.row(call).status == "input_required"
    hub.stack.worker.stop()
    hub.answer(question)
    assert hub.row(call).status == "queued"
    with running_worker() as other:
        other.open(hub.connection)
        assert hub.text(call) == ACCEPT


def test_a_worker_that_is_asked_to_end_does_not_wait_for_a_person(legacy: Asking) -> None:
    call = legacy.call("ask")
    legacy.question(call)
    started = time.monotonic()
    legacy.stack.worker.stop()
    assert time.monotonic() - started < 10
    assert legacy.row(call).status == "outcome_unknown"
    assert legacy.questions() == []


def test_a_call_keeps_its_place_while_somebody_is_asked(hub: Asking, redis: Redis) -> None:
    call = hub.call("ask", seconds=5)
    hub.question(call)
    place = hub_redis.key("calls", "tenant", hub.person.tenant.pk.hex)

    def is_kept() -> bool:
        kept = redis.zscore(place, call.hex)
        return kept is not None and float(kept) / 1000 > time.time() + settings.INPUT_EXPIRY

    eventually(is_kept, what="the place outlasts the question")
    hub.answer(hub.question(call))
    assert hub.text(call) == ACCEPT
    eventually(lambda: redis.zscore(place, call.hex) is None, what="the place is free")


def test_what_is_not_switched_on_is_not_declared_and_refused(hub: Asking) -> None:
    call = hub.call("sample")
    eventually(lambda: hub.row(call).finished_at, what="the call has ended")
    assert hub.questions() == []
    assert hub.row(call).problem_code == ("input_refused" if hub.is_modern else "protocol_error")


# --- one era ------------------------------------------------------------------------------------


@pytest.fixture
def modern(world: World, ledger_threads: None, redis: Redis) -> Iterator[Asking]:
    workers.forget_known()
    with asking(world.alice, Kind.MODERN) as found:
        yield found


@pytest.fixture
def legacy(world: World, ledger_threads: None, redis: Redis) -> Iterator[Asking]:
    workers.forget_known()
    with asking(world.alice, Kind.LEGACY) as found:
        yield found


def test_a_server_that_always_asks_again_is_stopped_after_ten_rounds(modern: Asking) -> None:
    row = modern.until(modern.call("endless"), CallStatus.FAILED)
    assert row.problem_code == "too_many_input_rounds"
    assert modern.demo.executions["endless"] == 11


def test_a_state_without_questions_is_sent_again_at_once(modern: Asking) -> None:
    modern.text(modern.call("later"))
    assert modern.demo.states == ["1", "2"]


def test_pages_to_finish_before_a_call_are_parked_and_the_call_is_sent_again(
    legacy: Asking,
) -> None:
    call = legacy.call("page")
    question = legacy.question(call)
    assert question["url"] == PAGE
    assert legacy.answer(question, {"action": "accept"}).json()["isConsented"] is True
    assert legacy.row(call).status == "input_required"
    legacy.finish_page()
    assert legacy.text(call) == {"action": "accept"}
    assert legacy.demo.executions["page"] == 2


def test_a_page_that_is_declined_ends_the_call(legacy: Asking) -> None:
    call = legacy.call("page")
    legacy.answer(legacy.question(call), {"action": "decline"})
    assert legacy.until(call, CallStatus.CANCELLED).problem_code == "input_declined"


def test_the_end_of_an_interaction_answers_the_question_of_a_running_call(legacy: Asking) -> None:
    call = legacy.call("visit")
    legacy.question(call)
    legacy.finish_page()
    assert legacy.text(call) == {"action": "accept"}


@pytest.mark.parametrize("kind", ERAS)
def test_an_app_answers_sampling_and_roots_where_the_preset_relays_them(
    world: World, ledger_threads: None, redis: Redis, kind: Kind
) -> None:
    said = {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"}
    roots = {"roots": [{"uri": "file:///home", "name": "home"}]}
    workers.forget_known()
    consented = [Relay.SAMPLING, Relay.ROOTS]
    switches = {"relay_sampling": True, "relay_roots": True}
    with asking(world.alice, kind, consented=consented, **switches) as hub:
        call = hub.call("sample")
        question = hub.question(call)
        assert question["params"]["messages"][0]["content"]["text"] == "Hi"
        assert hub.answer(question, {"action": "accept", "content": {}}).status_code == 422
        hub.answer(question, {"action": "accept", "content": said})
        assert hub.text(call)["content"]["text"] == "Hello"
        call = hub.call("roots")
        hub.answer(hub.question(call), {"action": "accept", "content": roots})
        assert hub.text(call)["roots"][0]["uri"] == "file:///home"
        call = hub.call("sample")
        hub.answer(hub.question(call), {"action": "decline"})
        eventually(lambda: hub.row(call).finished_at, what="the call has ended")
        assert hub.row(call).status == ("cancelled" if hub.is_modern else "failed")
