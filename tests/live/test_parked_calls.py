"""Calls that ask back on the running hub: answered by REST, while its processes are killed."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.factories import unique
from tests.fakes.asking_server import AskingServer
from tests.fakes.mcp_servers import Kind
from tests.fakes.mcp_servers import running as serving
from tests.live.api import Api
from tests.live.chaos import Chaos, chaos_hub
from tests.live.reference import everything
from tests.live.stack import RunningHub
from tests.waiting import eventually

pytestmark = pytest.mark.live
ANSWER = {"action": "accept", "content": {"name": "Ada"}}
ERAS = pytest.mark.parametrize(
    "kind", [Kind.LEGACY, Kind.MODERN], ids=["handshake era", "2026-07-28"]
)


@pytest.fixture(scope="module")
def chaos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chaos]:
    with chaos_hub(tmp_path_factory.mktemp("parked")) as found:
        yield found


@pytest.fixture
def stack(chaos: Chaos) -> RunningHub:
    """In place of the shared one, whose processes are left alone."""
    return chaos.hub


@contextmanager
def asking(chaos: Chaos, kind: Kind) -> Iterator[tuple[Api, str, AskingServer]]:
    eventually(chaos.hub.is_ready, 60.0, "the hub is ready")
    demo, slug, api = AskingServer(), unique("ask")[:24], chaos.api()
    with serving(kind, demo=demo) as server:
        api.connected(slug, server.url)
        yield api, slug, demo
        api.http.delete(f"/api/v1/servers/{slug}")


def parked(api: Api, slug: str, tool: str) -> str:
    """Call a tool that asks; the waiting request is told so. Returns the call's id."""
    response = api.call(slug, tool)
    assert (response.status_code, response.json()["status"]) == (202, "input_required")
    call: str = response.json()["id"]
    return call


def question(api: Api, call: str) -> Mapping[str, Any]:
    found: list[dict[str, Any]] = api.get("/elicitations", call=call)
    assert len(found) == 1
    return found[0]


def answer(api: Api, call: str, body: Mapping[str, Any]) -> None:
    response = api.http.post(f"/api/v1/calls/{call}/inputs/{question(api, call)['id']}", json=body)
    assert response.status_code == 200, response.text


def ended(api: Api, call: str) -> Mapping[str, Any]:
    """Wait for the end of a call, whatever happens to the web process that waits along."""

    def end() -> Mapping[str, Any] | None:
        try:
            row: dict[str, Any] = api.get(f"/calls/{call}", wait=5)
        except (httpx.TransportError, AssertionError):
            return None
        return row if row["finishedAt"] else None

    found = eventually(end, 40.0, "the call has ended")
    assert found is not None
    return found


def said(row: Mapping[str, Any]) -> str:
    text: str = row["outcome"]["result"]["content"][0]["text"]
    return text


@ERAS
def test_a_parked_call_outlives_the_web_process(chaos: Chaos, kind: Kind) -> None:
    with asking(chaos, kind) as (api, slug, demo):
        call = parked(api, slug, "ask")
        chaos.hub.kill("web1")
        eventually(chaos.hub.is_ready, 60.0, "the hub is ready again")
        answer(api, call, ANSWER)
        row = ended(api, call)
        assert row["status"] == "succeeded"
        assert "Ada" in said(row)
        assert demo.executions["ask"] == (1 if kind is Kind.LEGACY else 2)


def test_a_call_of_a_session_ends_with_the_worker_that_held_it(chaos: Chaos) -> None:
    with asking(chaos, Kind.LEGACY) as (api, slug, demo):
        call = parked(api, slug, "ask")
        chaos.hub.kill(chaos.holder(slug))
        row = ended(api, call)
        assert (row["status"], row["problem"]["code"]) == ("outcome_unknown", "outcome_unknown")
        eventually(
            lambda: api.get("/elicitations", call=call) == [], 10.0, "its question is closed"
        )
        assert demo.executions["ask"] == 1


def test_a_call_without_a_session_goes_on_after_its_worker_was_killed(chaos: Chaos) -> None:
    with asking(chaos, Kind.MODERN) as (api, slug, demo):
        call = parked(api, slug, "ask")
        chaos.hub.kill(chaos.holder(slug))
        answer(api, call, ANSWER)
        row = ended(api, call)
        assert row["status"] == "succeeded", row
        assert "Ada" in said(row)
        assert demo.executions["ask"] == 2


def test_a_session_is_taken_over_after_its_worker_was_killed(chaos: Chaos) -> None:
    with asking(chaos, Kind.LEGACY) as (api, slug, _):
        chaos.hub.kill(chaos.holder(slug))
        eventually(
            lambda: api.call(slug, "echo", {"text": "on"}, timeoutMs=5000).status_code == 200,
            40.0,
            "a new call succeeds",
        )
        kinds = [step["kind"] for step in api.get(f"/servers/{slug}/timeline")]
        assert "session_adopted" in kinds
        assert kinds.count("initialized") == 1


def test_a_running_call_is_resumed_by_the_worker_that_takes_over(chaos: Chaos) -> None:
    with asking(chaos, Kind.RESUMABLE) as (api, slug, demo):
        queued = api.call(
            slug, "sleep", {"ms": 6000, "callId": "slow"}, headers={"Prefer": "respond-async"}
        ).json()
        eventually(lambda: demo.executions["slow"], 20.0, "the call runs")
        eventually(lambda: chaos.has_position(queued["id"]), 10.0, "its stream is noted")
        chaos.hub.kill(chaos.holder(slug))
        row = ended(api, queued["id"])
        assert (row["status"], row["attempt"]) == ("succeeded", 2), row
        assert said(row) == "slept 6000"
        assert demo.executions["slow"] == 1


def test_a_running_call_is_left_to_the_next_worker_by_one_that_is_stopped(chaos: Chaos) -> None:
    with asking(chaos, Kind.RESUMABLE) as (api, slug, demo):
        queued = api.call(
            slug, "sleep", {"ms": 15_000, "callId": "long"}, headers={"Prefer": "respond-async"}
        ).json()
        eventually(lambda: demo.executions["long"], 20.0, "the call runs")
        eventually(lambda: chaos.has_position(queued["id"]), 10.0, "its stream is noted")
        chaos.hub.kill(chaos.holder(slug), signal.SIGTERM)
        row = ended(api, queued["id"])
        assert (row["status"], row["attempt"]) == ("succeeded", 2), row
        assert said(row) == "slept 15000"
        assert demo.executions["long"] == 1


@pytest.mark.node
@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
def test_the_reference_server_asks_and_is_answered(chaos: Chaos, transport: str) -> None:
    eventually(chaos.hub.is_ready, 60.0, "the hub is ready")
    api, slug = chaos.api(), unique("ev")[:24]
    with everything(transport) as url:
        api.connected(slug, url)
        call = parked(api, slug, "trigger-elicitation-request")
        asked = question(api, call)
        assert "name" in asked["requestedSchema"]["properties"]
        wrong = {"action": "accept", "content": {"name": 3}}
        refused = api.http.post(f"/api/v1/elicitations/{asked['id']}", json=wrong)
        assert refused.status_code == 422
        assert "name" in {each["property"] for each in refused.json()["errors"]}
        answer(api, call, ANSWER)
        row = ended(api, call)
        assert row["status"] == "succeeded"
        assert "Ada" in str(row["outcome"])
        api.http.delete(f"/api/v1/servers/{slug}")
