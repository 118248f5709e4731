"""Concurrency, cancellation, progress and notifications of calls, in both eras."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from connectors.upstream.session import Session, UpstreamRequest
from mcphub.core.clock import Deadline
from mcphub.core.errors import UpstreamTimeoutError
from mcphub.core.types import JSONObject
from tests.connectors.upstream.support import (
    Listener,
    ask,
    call_of,
    failure_of,
    opened,
    talking_to,
    text_of,
)
from tests.fakes.mcp_servers import Kind, running
from tests.fakes.raw_server import RawServer, Request, Wire, event, note, result, text_result
from tests.waiting import eventually

ERAS = pytest.mark.parametrize(
    "kind", [Kind.MODERN, Kind.LEGACY, Kind.LEGACY_JSON, Kind.SSE], ids=lambda kind: kind.value
)


@ERAS
async def test_calls_of_one_session_do_not_wait_for_each_other(kind: Kind) -> None:
    order: list[str] = []

    async def run(session: Session, ms: int) -> None:
        order.append(text_of(await session.request(call_of("sleep", ms=ms))))

    with running(kind) as server:
        async with opened(server.url) as session, asyncio.TaskGroup() as group:
            for ms in (1500, 700, 1):
                group.create_task(run(session, ms))
    assert order == ["slept 1", "slept 700", "slept 1500"]


@ERAS
async def test_every_part_of_the_protocol_passes_as_the_server_said_it(kind: Kind) -> None:
    reference: JSONObject = {"type": "ref/prompt", "name": "greet"}
    argument: JSONObject = {"name": "who", "value": "a"}
    with running(kind) as server:
        async with opened(server.url) as session:
            resources: Any = await session.request(ask("resources/list"))
            templates: Any = await session.request(ask("resources/templates/list"))
            read: Any = await session.request(ask("resources/read", {"uri": "note://7"}))
            prompts: Any = await session.request(ask("prompts/list"))
            prompt: Any = await session.request(
                ask("prompts/get", {"name": "greet", "arguments": {"who": "é"}})
            )
            completion: Any = await session.request(
                ask("completion/complete", {"ref": reference, "argument": argument})
            )
            failed: Any = await session.request(call_of("fail"))
            big = text_of(await session.request(call_of("big", kb=1024)))
    assert resources["resources"] == [{"name": "one", "uri": "note://1"}]
    assert templates["resourceTemplates"] == [{"name": "note", "uriTemplate": "note://{id}"}]
    assert read["contents"] == [{"uri": "note://7", "text": "text of note://7"}]
    assert prompts["prompts"][0]["name"] == "greet"
    assert prompt["messages"][0]["content"]["text"] == "say hi to é"
    assert completion["completion"]["values"] == ["alice"]
    assert failed["isError"] is True
    assert len(big) == 1 << 20


@ERAS
async def test_progress_reaches_its_call_with_the_callers_meta_kept(kind: Kind) -> None:
    steps: list[object] = []
    call_id = uuid.uuid4()
    listener = Listener()
    request = UpstreamRequest(
        method="tools/call",
        params={"name": "progress", "arguments": {"steps": 3}, "_meta": {"mine": 1}},
        deadline=Deadline.after(5),
        call_id=call_id,
        attempt=2,
        on_progress=lambda params: steps.append(params["progress"]),
    )
    with running(kind) as server:
        async with opened(server.url, listener) as session:
            result_text = text_of(await session.request(request))
    assert result_text == "3 steps"
    sent: Any = next(s.message for s in listener.seen if s.call_id == call_id)
    assert sent["params"]["_meta"]["mine"] == 1
    assert sent["params"]["_meta"]["progressToken"] == sent["id"]
    # JSON answers have no place for progress.
    assert steps == ([] if kind is Kind.LEGACY_JSON else [1, 2, 3])


@pytest.mark.parametrize("kind", [Kind.MODERN, Kind.LEGACY, Kind.SSE], ids=lambda k: k.value)
async def test_e33_cancelled_call_is_cancelled_upstream_and_the_session_stays(kind: Kind) -> None:
    with running(kind) as server:
        async with opened(server.url) as session:
            task = asyncio.create_task(session.request(call_of("sleep", ms=30_000, callId="x")))
            await until(lambda: server.demo.executions["x"] == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: server.demo.cancelled["x"] == 1)
            assert text_of(await session.request(call_of("echo", text="hi"))) == "hi"


@pytest.mark.parametrize("kind", [Kind.MODERN, Kind.LEGACY, Kind.SSE], ids=lambda k: k.value)
async def test_e14_timeout_fails_one_call_and_stops_it_upstream(kind: Kind) -> None:
    with running(kind) as server:
        async with opened(server.url) as session:
            error = await failure_of(session, call_of("sleep", 0.3, ms=30_000, callId="x"))
            assert isinstance(error, UpstreamTimeoutError)
            await until(lambda: server.demo.cancelled["x"] == 1)
            assert text_of(await session.request(call_of("echo", text="hi"))) == "hi"


class Busy(RawServer):
    """Reports progress at once and then, in `forever`, again and again."""

    forever = False

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        step = note("notifications/progress", {"progressToken": request.id, "progress": 1})
        for _ in range(6):
            await wire.event(step)
            await wire.until_gone(0.15)
        while self.forever and not await wire.until_gone(0.05):
            await wire.event(step)
        await wire.event(result(request.id, text_result()))


class EndlesslyBusy(Busy):
    forever = True


def patient(idle: float, deadline: float) -> UpstreamRequest:
    return UpstreamRequest(
        method="tools/call",
        params={"name": "busy"},
        deadline=Deadline.after(deadline),
        idle_timeout=idle,
    )


async def test_progress_extends_the_idle_timeout() -> None:
    async with talking_to(Busy()) as session:
        assert await session.request(patient(0.5, 5.0)) == text_result()


async def test_idle_timeout_ends_a_call_that_shows_no_progress() -> None:
    async with talking_to(Busy()) as session:
        error = await failure_of(session, patient(0.05, 5.0))
    assert error.problem_code == "timeout"


async def test_deadline_wins_over_endless_progress() -> None:
    async with talking_to(EndlesslyBusy()) as session, asyncio.timeout(4):
        error = await failure_of(session, patient(0.5, 1.3))
    assert error.problem_code == "timeout"


class Flooding(RawServer):
    count = 20_000

    async def on_call(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        message = event(note("notifications/message", {"level": "info", "data": 1}))
        for _ in range(self.count // 1000):
            await wire.send(message * 1000)
        await wire.event(result(request.id, text_result()))


async def test_p06_flood_of_notifications_is_passed_on_and_the_result_arrives() -> None:
    listener = Listener()
    async with talking_to(Flooding(), listener) as session, asyncio.timeout(10):
        assert await session.request(call_of("x", 10.0)) == text_result()
    assert len(listener.notifications) == Flooding.count
    assert {found[2] for found in listener.notifications} == {"tools/call"}


async def test_e32_call_takes_as_long_as_its_own_time_allows() -> None:
    """Longer than the five seconds that HTTP clients wait for a reply by default."""
    with running(Kind.LEGACY_JSON) as server:
        async with opened(server.url) as session:
            answer = await session.request(call_of("sleep", 10.0, ms=5300))
    assert text_of(answer) == "slept 5300"


class Mixed(RawServer):
    """Answers two waiting calls in the other order, each on its own stream."""

    def __init__(self) -> None:
        super().__init__()
        self.first: asyncio.Event = asyncio.Event()

    async def on_call(self, request: Request, wire: Wire) -> None:
        name = str(request.params["name"])
        await wire.open_stream()
        if name == "a":
            await self.first.wait()
        await wire.event(result(request.id, text_result(name)))
        self.first.set()


async def test_g12_p08_answers_never_cross() -> None:
    async with talking_to(Mixed()) as session:
        both = await asyncio.gather(session.request(call_of("a")), session.request(call_of("b")))
    assert [text_of(found) for found in both] == ["a", "b"]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the server's thread does."""
    await asyncio.to_thread(eventually, condition, 5.0)
