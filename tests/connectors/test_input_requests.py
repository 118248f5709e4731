"""Questions of servers: what is believed of them, who sees them, what an answer has to be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from connectors import selectors
from connectors.models import InputKind, InputRequest, InputState
from connectors.services import input_answers, input_rounds, input_store, input_sweep
from connectors.services.input_answers import Action, Answer, InvalidAnswerError
from connectors.services.input_rounds import (
    InputRefusedError,
    TooManyRoundsError,
    next_params,
    read_error,
    read_request,
    read_result,
)
from mcphub.core import clock
from mcphub.core.crypto import CredentialUnreadableError
from mcphub.core.errors import LimitError, ProtocolError
from mcphub.core.types import JSONObject
from tests.connectors.rest import send
from tests.connectors.server_factories import make_call, make_connected, make_input
from tests.world import World

DECLARED: JSONObject = {"elicitation": {"form": {}, "url": {}}, "roots": {}}
FORM: JSONObject = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
PAGE: JSONObject = {"mode": "url", "message": "Pay", "url": "https://pay.example/?t=secret"}
ASKED: JSONObject = {"who": {"method": "elicitation/create", "params": FORM}}
OPEN = "/api/v1/elicitations"


def asking(**fields: Any) -> JSONObject:
    return {"resultType": "input_required", **fields}


# --- what is read from the wire -------------------------------------------------------------------


def test_a_result_that_asks_nothing_is_a_result() -> None:
    assert read_result({"content": []}, "tools/call", DECLARED, 0) is None


def test_questions_and_state_of_a_round_are_kept_as_they_came() -> None:
    state = '{"a":  1.0}\u0000\ud83d'
    found = read_result(asking(inputRequests=ASKED, requestState=state), "tools/call", DECLARED, 3)
    assert found is not None
    assert [(each.key, each.kind, each.params) for each in found.asked] == [
        ("who", InputKind.FORM, FORM)
    ]
    assert next_params({"name": "t"}, found.request_state, {"who": {"action": "cancel"}}) == {
        "name": "t",
        "inputResponses": {"who": {"action": "cancel"}},
        "requestState": state,
    }


@pytest.mark.parametrize(
    "result",
    [
        asking(),
        asking(requestState=7),
        asking(requestState="x" * (input_rounds.STATE_BYTES + 1)),
        asking(inputRequests=["q"]),
        asking(inputRequests={"q": "who?"}),
        asking(inputRequests={"k" * 256: ASKED["who"]}),
        asking(inputRequests={str(number): ASKED["who"] for number in range(17)}),
        asking(inputRequests={"q": {"method": "sampling/createMessage", "params": {}}}),
        asking(inputRequests={"q": {"method": "tools/call", "params": {}}}),
        asking(inputRequests={"q": {"method": "elicitation/create", "params": {}}}),
    ],
)
def test_p14_rounds_that_cannot_be_answered_are_refused(result: JSONObject) -> None:
    with pytest.raises(InputRefusedError):
        read_result(result, "tools/call", DECLARED, 0)


def test_p14_an_eleventh_round_and_rounds_of_other_methods_are_refused() -> None:
    with pytest.raises(TooManyRoundsError):
        read_result(asking(requestState="s"), "tools/call", DECLARED, 10)
    with pytest.raises(InputRefusedError):
        read_result(asking(requestState="s"), "completion/complete", DECLARED, 0)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", {"messages": []}),
        ("elicitation/create", {"message": "no schema"}),
        ("elicitation/create", {**FORM, "requestedSchema": {"type": "array"}}),
        ("elicitation/create", {**FORM, "mode": "voice"}),
        ("elicitation/create", {**PAGE, "url": "javascript:alert(1)"}),
        ("elicitation/create", {**PAGE, "url": "https://[::"}),
        ("elicitation/create", {**PAGE, "url": None}),
        ("elicitation/create", {**FORM, "padding": "x" * input_rounds.PARAMS_BYTES}),
    ],
)
def test_p15_requests_that_were_not_declared_or_have_no_form_are_refused(
    method: str, params: JSONObject
) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_request(method, params, DECLARED)
    assert caught.value.rpc.code == -32602


def test_only_the_error_for_pages_is_read_as_pages() -> None:
    pages: JSONObject = {"elicitations": [{**PAGE, "elicitationId": "e1"}]}
    found = read_error(ProtocolError(rpc_code=-32042, rpc_message="", rpc_data=pages), DECLARED, 0)
    assert found is not None
    assert (found.asked[0].elicitation_id, found.asked[0].needs_completion) == ("e1", True)
    other = ProtocolError(rpc_code=-32603, rpc_message="", rpc_data=pages)
    assert read_error(other, DECLARED, 0) is None
    assert read_error(ProtocolError(rpc_code=-32042, rpc_message=""), DECLARED, 0) is None


# --- who sees them --------------------------------------------------------------------------------


@pytest.mark.django_db
def test_questions_are_the_members_own(world: World) -> None:
    row = make_input(world.alice, make_connected(world.alice, "linear"))
    assert [each.id for each in selectors.inputs_for(world.alice.principal)] == [row.pk]
    for stranger in (world.bob, world.charlie):
        assert selectors.inputs_for(stranger.principal) == []


@pytest.mark.django_db
def test_what_events_tell_holds_no_address_and_no_prompt(world: World) -> None:
    connection = make_connected(world.alice, "linear")
    page = make_input(world.alice, connection, kind=InputKind.URL, params=PAGE)
    prompt = make_input(
        world.alice, connection, kind=InputKind.SAMPLING, params={"messages": ["secret"]}
    )
    told = [selectors.input_view(row).told for row in (page, prompt)]
    assert "secret" not in str(told)
    assert told[0]["host"] == "pay.example"


@pytest.mark.django_db
def test_o16_a_look_alike_host_is_shown_as_it_is_looked_up(world: World) -> None:
    params = {**PAGE, "url": "https://p\u0430ypal.example/"}
    row = make_input(
        world.alice, make_connected(world.alice, "x"), kind=InputKind.URL, params=params
    )
    assert selectors.input_view(row).wire["host"] == "xn--pypal-4ve.example"


@pytest.mark.django_db
def test_a_question_is_sealed_to_its_row_and_an_unreadable_one_spoils_no_list(
    world: World,
) -> None:
    connection = make_connected(world.alice, "linear")
    first, second = (make_input(world.alice, connection) for _ in range(2))
    assert b"Who?" not in bytes(first.sealed_params)
    InputRequest.unscoped.filter(pk=first.pk).update(sealed_params=second.sealed_params)
    found = selectors.inputs_for(world.alice.principal)
    assert [each.params for each in found][1] != {}
    assert found[0].params == {}
    first.refresh_from_db()
    with pytest.raises(CredentialUnreadableError):
        input_answers.answer(first, Answer(action=Action.ACCEPT, content={}))


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ({}, "name"),
        ({"name": 3}, "name"),
        ({"name": "Ada", "pet": {"kind": "cat"}}, "pet"),
        (None, ""),
        (["Ada"], ""),
    ],
)
def test_the_values_of_a_form_have_to_fit_its_schema(
    world: World, content: Any, wrong: str
) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    row = make_input(
        world.alice,
        make_connected(world.alice, "linear"),
        params={"message": "Who?", "requestedSchema": schema},
    )
    with pytest.raises(InvalidAnswerError) as caught:
        input_answers.answer(row, Answer(action=Action.ACCEPT, content=content))
    assert {each.property for each in caught.value.problems} == {wrong}
    row.refresh_from_db()
    assert row.error is not None
    assert (row.state, set(row.error["properties"])) == ("open", {wrong})


@pytest.mark.django_db
def test_an_unknown_action_or_member_is_refused(client: Client, world: World, rest: None) -> None:
    row = make_input(world.alice, make_connected(world.alice, "linear"))
    for body in ({"action": "maybe"}, {}, {"action": "cancel", "extra": 1}):
        assert send(client, "post", f"{OPEN}/{row.pk}", world.alice, body).status_code == 422
    assert send(client, "post", f"{OPEN}/nonsense", world.alice, {}).status_code == 404


@pytest.mark.django_db
def test_a_question_of_another_call_is_not_found(client: Client, world: World, rest: None) -> None:
    connection = make_connected(world.alice, "linear")
    one, two = (make_call(world.alice, connection) for _ in range(2))
    row = make_input(world.alice, connection, call_id=one.pk)
    body = {"action": "cancel"}
    path = "/api/v1/calls/{}/inputs/{}"
    assert send(client, "post", path.format(two.pk, row.pk), world.alice, body).status_code == 404
    assert send(client, "post", path.format(one.pk, row.pk), world.alice, body).status_code == 200


# --- rows that nobody closes ----------------------------------------------------------------------


@pytest.mark.django_db
def test_the_sweep_closes_late_questions_and_those_of_ended_calls(world: World) -> None:
    connection = make_connected(world.alice, "linear")
    ended = make_call(world.alice, connection, status="failed")
    late = make_input(world.alice, connection, expires_at=clock.now() - timedelta(seconds=1))
    orphan = make_input(world.alice, connection, call_id=ended.pk)
    of_dead = make_input(world.alice, connection, worker="dead")
    kept = make_input(world.alice, connection, worker="alive")
    input_sweep.sweep({"dead"})
    states = dict(InputRequest.unscoped.values_list("pk", "state"))
    assert states == {
        late.pk: InputState.EXPIRED,
        orphan.pk: InputState.CANCELLED,
        of_dead.pk: InputState.CANCELLED,
        kept.pk: InputState.OPEN,
    }


@pytest.mark.django_db
def test_an_answered_call_that_nobody_queued_is_queued_by_the_sweep(world: World) -> None:
    connection = make_connected(world.alice, "linear")
    call = make_call(world.alice, connection, status="input_required", rounds=1)
    make_input(world.alice, connection, call_id=call.pk, round=1, state=InputState.ANSWERED)
    assert input_sweep.sweep() == 1
    call.refresh_from_db()
    assert call.status == "queued"
    assert input_sweep.sweep() == 0


@pytest.mark.django_db
def test_a_secret_that_a_server_repeats_is_not_in_its_question(world: World) -> None:
    connection = make_connected(
        world.alice, "linear", auth_type="bearer", credentials={"token": "tok-1234567890abcdef"}
    )
    asker = input_store.Asker(
        tenant_id=world.alice.tenant.pk,
        member_id=world.alice.member.pk,
        connection_id=connection.pk,
        worker="w1",
    )
    asked = read_request(
        "elicitation/create", {**FORM, "message": "Is tok-1234567890abcdef yours?"}, DECLARED
    )
    view = selectors.input_view(input_store.open_in_session(asker, asked))
    assert "tok-1234567890abcdef" not in str(view.params)


@pytest.mark.django_db
def test_a_server_cannot_fill_the_list_of_questions(world: World, settings: Any) -> None:
    settings.CONNECTION_MAX_INPUTS = 2
    connection = make_connected(world.alice, "linear")
    asker = input_store.Asker(
        tenant_id=world.alice.tenant.pk,
        member_id=world.alice.member.pk,
        connection_id=connection.pk,
        worker="w1",
    )
    asked = read_request("elicitation/create", FORM, DECLARED)
    for _ in range(2):
        input_store.open_in_session(asker, asked)
    with pytest.raises(LimitError):
        input_store.open_in_session(asker, asked)
