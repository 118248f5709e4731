"""Questions of servers in the course of a call: every pair of eras, and never a wrong client."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from connectors.models import CallStatus, InputRequest, ToolCall
from connectors.server_spec import Relay
from mcphub.core import clock
from tests.connectors.rest import send
from tests.fakes.asking_server import PAGE, AskingServer
from tests.fakes.mcp_servers import Kind
from tests.gateway.hub import Hub, Legacy, Modern
from tests.waiting import eventually
from tests.world import Person, World

ERAS = [Kind.MODERN, Kind.LEGACY]
FORM: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
ACCEPT: dict[str, Any] = {"action": "accept", "content": {"name": "Ada", "age": 36}}


def accept(method: str, params: dict[str, Any]) -> dict[str, Any]:
    assert method == "elicitation/create"
    return ACCEPT


@pytest.fixture(params=ERAS, ids=["modern-server", "legacy-server"])
def asking(hub: Hub, request: pytest.FixtureRequest) -> Hub:
    hub.add("demo", request.param, AskingServer())
    return hub


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def client_of(hub: Hub, era: str, path: str = "/mcp", **fields: Any) -> Legacy | Modern:
    fields = {"capabilities": FORM, **fields}
    if era == "modern":
        return Modern(client=hub.client(), path=path, **fields)
    return Legacy(client=hub.client(), path=path, **fields).open()


def said(response: dict[str, Any]) -> Any:
    """Return what the server says it was answered."""
    return json.loads(response["result"]["content"][0]["text"])


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize("path", ["/mcp", "/mcp/s/demo"])
def test_a_question_reaches_the_client_and_its_answer_the_server(
    asking: Hub, era: str, path: str
) -> None:
    asked: list[dict[str, Any]] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        return accept(method, params)

    client = client_of(asking, era, path)
    name = "ask" if path == "/mcp/s/demo" else "demo__ask"
    assert said(client.call_answering(call(name), answer)) == ACCEPT
    assert [each["message"] for each in asked] == ["Who are you?"]
    assert asked[0]["requestedSchema"]["required"] == ["name"]
    assert ToolCall.unscoped.count() == 1


def test_a_server_may_ask_twice_in_one_call(asking: Hub, era: str) -> None:
    client = client_of(asking, era)
    answers = iter([ACCEPT, {"action": "decline"}])
    found = client.call_answering(call("demo__ask_twice"), lambda method, params: next(answers))
    assert said(found)["action"] == "decline"


def test_concurrent_calls_get_each_its_own_answer(asking: Hub, era: str) -> None:
    client = client_of(asking, era)

    def one(number: int) -> Any:
        content = {"name": f"n{number}", "age": 20 + number}
        answer: dict[str, Any] = {"action": "accept", "content": content}
        found = client.call_answering(
            call("demo__ask", callId=str(number)), lambda method, params: answer
        )
        return said(found) == answer

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(8)))
    assert ToolCall.unscoped.filter(status=CallStatus.SUCCEEDED).count() == 8


def test_an_answer_that_does_not_fit_is_not_taken(asking: Hub, era: str) -> None:
    client = client_of(asking, era)
    wrong = {"action": "accept", "content": {"age": 3}}
    tries: list[dict[str, Any]] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        tries.append(params)
        return wrong

    found = client.call_answering(call("demo__ask"), answer)
    if era == "modern":
        assert found["error"]["data"]["code"] == "invalid_answer"
        assert InputRequest.unscoped.get().state == "open"
    else:
        assert len(tries) == 3
        assert said(found) == {"action": "cancel"}


def test_a_page_to_visit_is_shown_where_the_client_can_show_pages(asking: Hub, era: str) -> None:
    pages: list[dict[str, Any]] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        pages.append(params)
        return {"action": "accept"}

    client = client_of(asking, era)
    assert said(client.call_answering(call("demo__visit"), answer)) == {"action": "accept"}
    assert (pages[0]["mode"], pages[0]["url"]) == ("url", PAGE)
    assert ("elicitationId" in pages[0]) is (era == "legacy")


@pytest.mark.parametrize("offered", [{}, {"elicitation": {"url": {}}}])
def test_a_client_that_did_not_offer_to_answer_is_never_asked(
    asking: Hub, world: World, era: str, offered: dict[str, Any]
) -> None:
    client = client_of(asking, era, capabilities=offered)
    error = client.ask("tools/call", call("demo__ask"))["error"]
    row = ToolCall.unscoped.get()
    if row.status == CallStatus.INPUT_REQUIRED:  # a legacy server was told before who may answer
        assert error["data"]["code"] == "input_needed"
        assert error["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}
        assert error["code"] == (-32021 if era == "modern" else -32010)
        assert error["data"]["callId"] == str(row.pk)
        answer_by_rest(world.alice, ACCEPT)
        eventually(lambda: status_of(row) == CallStatus.SUCCEEDED, what="the call goes on")
    else:
        assert error["data"]["code"] == "input_refused"


def test_a_question_answered_elsewhere_is_taken_back(asking: Hub, world: World) -> None:
    client = client_of(asking, "legacy")
    assert isinstance(client, Legacy)

    def answer(method: str, params: dict[str, Any]) -> None:
        answer_by_rest(world.alice, ACCEPT)

    events: list[dict[str, Any]] = []
    found = client.call_answering(call("demo__ask"), answer, events=events)
    assert said(found) == ACCEPT
    question = next(each for each in events if each.get("method") == "elicitation/create")
    taken = [each for each in events if each.get("method") == "notifications/cancelled"]
    assert [each["params"]["requestId"] for each in taken] == [question["id"]]


def test_a_client_that_takes_no_stream_is_not_asked(asking: Hub) -> None:
    client = client_of(asking, "legacy")
    headers = {**client.headers, "accept": "application/json"}  # type: ignore[union-attr]
    body = client.request("tools/call", call("demo__ask"))  # type: ignore[union-attr]
    error = client.client.post("/mcp", json=body, headers=headers).json()["error"]
    assert error["data"]["code"] in {"client_cannot_be_asked", "input_refused"}


def test_an_answer_may_come_to_another_process(two: Hub) -> None:
    two.add("demo", Kind.LEGACY, AskingServer())
    client = Legacy(client=two.client(), capabilities=FORM).open()
    other = Legacy(client=two.client(process=1), session=client.session)
    assert said(client.call_answering(call("demo__ask"), accept, via=other)) == ACCEPT


@pytest.mark.parametrize("kind", ERAS)
def test_a_retry_may_come_to_another_process(two: Hub, kind: Kind) -> None:
    two.add("demo", kind, AskingServer())
    client = Modern(client=two.client(), capabilities=FORM)
    other = Modern(client=two.client(process=1), capabilities=FORM)
    assert said(client.call_answering(call("demo__ask"), accept, via=other)) == ACCEPT


# --- sampling and roots -------------------------------------------------------------------------

MESSAGE: dict[str, Any] = {
    "role": "assistant",
    "content": {"type": "text", "text": "Hello"},
    "model": "of-the-client",
    "stopReason": "endTurn",
}
ROOTS: dict[str, Any] = {"roots": [{"uri": "file:///work", "name": "Work"}]}


@pytest.fixture(params=ERAS, ids=["modern-server", "legacy-server"])
def trusted(hub: Hub, request: pytest.FixtureRequest) -> Hub:
    """A hub whose member lets the server have completions and roots."""
    hub.add("demo", request.param, AskingServer(), consented=[Relay.SAMPLING, Relay.ROOTS])
    return hub


def test_a_server_gets_completions_and_roots_of_a_client_that_offers_them(
    trusted: Hub, era: str
) -> None:
    client = client_of(trusted, era, capabilities={"sampling": {}, "roots": {}})
    asked: list[str] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(method)
        return MESSAGE if method == "sampling/createMessage" else ROOTS

    assert said(client.call_answering(call("demo__sample"), answer)) == MESSAGE
    assert said(client.call_answering(call("demo__roots"), answer)) == ROOTS
    assert asked == ["sampling/createMessage", "roots/list"]


REFUSAL: dict[str, Any] = {"error": {"code": -32042, "message": "no é", "data": {"why": [1]}}}


@pytest.mark.parametrize("tool", ["sample", "roots"])
def test_the_error_of_a_client_is_what_the_server_gets(hub: Hub, tool: str) -> None:
    hub.add_relay("demo", is_modern=False, consented=[Relay.SAMPLING, Relay.ROOTS])
    client = client_of(hub, "legacy", "/mcp/s/demo", capabilities={"sampling": {}, "roots": {}})
    found = client.call_answering(call(tool), lambda method, params: REFUSAL)
    assert list(found["result"]["structuredContent"]["answers"].values()) == [REFUSAL]
    assert InputRequest.unscoped.get().state == "declined"


def test_an_error_that_the_server_cannot_be_told_of_ends_the_call(hub: Hub) -> None:
    hub.add_relay("demo", is_modern=True, consented=[Relay.SAMPLING])
    client = client_of(hub, "legacy", "/mcp/s/demo", capabilities={"sampling": {}})
    found = client.call_answering(call("sample"), lambda method, params: REFUSAL)
    assert found["error"]["data"]["code"] == "input_declined"


def test_a_client_without_completions_is_not_asked_for_any(trusted: Hub, era: str) -> None:
    client = client_of(trusted, era, capabilities={"elicitation": {}})
    error = client.ask("tools/call", call("demo__sample"))["error"]
    assert error["data"]["code"] in {"input_needed", "input_refused"}


def test_without_consent_a_server_is_refused_before_anybody_is_asked(asking: Hub, era: str) -> None:
    client = client_of(asking, era, capabilities={"sampling": {}, "roots": {}})
    found = client.call_answering(call("demo__sample"), lambda method, params: MESSAGE)
    assert "error" in found
    assert not InputRequest.unscoped.exists()


def test_a_completion_of_a_wrong_shape_is_not_taken(trusted: Hub) -> None:
    client = client_of(trusted, "modern", capabilities={"sampling": {}})
    wrong: dict[str, Any] = {"role": "nobody", "content": 7}
    found = client.call_answering(call("demo__sample"), lambda method, params: wrong)
    assert found["error"]["data"]["code"] == "invalid_answer"


# --- the sealed state ---------------------------------------------------------------------------


@pytest.fixture
def required(hub: Hub) -> tuple[Modern, dict[str, Any]]:
    hub.add("demo", Kind.MODERN, AskingServer())
    client = Modern(client=hub.client(), capabilities=FORM)
    return client, client.result("tools/call", call("demo__ask", callId="1"))


def retry_of(required: dict[str, Any], **changes: Any) -> dict[str, Any]:
    responses = dict.fromkeys(required["inputRequests"], ACCEPT)
    given = {"inputResponses": responses, "requestState": required["requestState"]}
    return {**call("demo__ask", callId="1"), **given, **changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"requestState": "x"},
        {"requestState": "é" * 5000},
        {"requestState": 1},
        {"arguments": {"callId": "2"}},
        {"name": "demo__ask_twice"},
    ],
)
def test_a_state_is_good_for_its_own_request_only(
    required: tuple[Modern, dict[str, Any]], changes: dict[str, Any]
) -> None:
    client, asked = required
    error = client.ask("tools/call", retry_of(asked, **changes))["error"]
    assert (error["code"], error["data"]["code"]) == (-32602, "invalid_request_state")
    assert said(client.ask("tools/call", retry_of(asked))) == ACCEPT


def test_a_state_is_good_for_its_own_member_and_endpoint_only(
    required: tuple[Modern, dict[str, Any]], hub: Hub, world: World
) -> None:
    _, asked = required
    hub.person = world.bob
    hub.add("demo", Kind.MODERN, AskingServer())
    for client in (
        Modern(client=hub.client(world.bob), capabilities=FORM),
        Modern(client=hub.client(world.alice), path="/mcp/s/demo", capabilities=FORM),
    ):
        name = "demo__ask" if client.path == "/mcp" else "ask"
        error = client.ask("tools/call", retry_of(asked, name=name))["error"]
        assert error["data"]["code"] == "invalid_request_state"


def test_a_state_expires(
    required: tuple[Modern, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, asked = required
    later = clock.now() + timedelta(seconds=601)
    monkeypatch.setattr(clock, "now", lambda: later)
    error = client.ask("tools/call", retry_of(asked))["error"]
    assert error["data"]["code"] == "invalid_request_state"


def test_a_retry_that_comes_twice_runs_nothing_twice(
    required: tuple[Modern, dict[str, Any]],
) -> None:
    client, asked = required
    first = client.ask("tools/call", retry_of(asked))
    assert client.ask("tools/call", retry_of(asked))["result"] == first["result"]
    assert ToolCall.unscoped.count() == 1


def test_what_is_not_answered_is_asked_again(required: tuple[Modern, dict[str, Any]]) -> None:
    client, asked = required
    again = client.result("tools/call", retry_of(asked, inputResponses={"other": ACCEPT}))
    assert again["inputRequests"] == asked["inputRequests"]
    assert said(client.ask("tools/call", retry_of(again))) == ACCEPT


@pytest.mark.parametrize(("kind", "rounds"), [(Kind.MODERN, 0), (Kind.LEGACY, 1)])
def test_answers_of_a_first_request_are_for_servers_that_can_take_them(
    hub: Hub, kind: Kind, rounds: int
) -> None:
    hub.add("demo", kind, AskingServer())
    asked: list[str] = []

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(method)
        return accept(method, params)

    given = {"inputResponses": {"who": ACCEPT, "nobody asked": {"action": "decline"}}}
    client = client_of(hub, "modern")
    assert said(client.call_answering({**call("demo__ask"), **given}, answer)) == ACCEPT
    assert len(asked) == rounds


def answer_by_rest(person: Person, answer: dict[str, Any]) -> None:
    from django.test import Client  # noqa: PLC0415

    questions = InputRequest.unscoped.filter(state="open").values_list("pk", flat=True)
    question = eventually(questions.first, what="a question is open")
    path = f"/api/v1/elicitations/{question}"
    assert send(Client(), "post", path, person, answer).status_code == 200


def status_of(row: ToolCall) -> str:
    row.refresh_from_db()
    return row.status
