"""Which events a subscription wants, and which topics may be subscribed to."""

from __future__ import annotations

import uuid

import pytest

from mcphub.core.errors import InvalidInputError, NotFoundError, NotPermittedError
from mcphub.core.event_stream import Route
from tenants.principal import Principal, Scope
from tracing import topics
from tracing.topics import subscription_for


def principal(*scopes: Scope) -> Principal:
    return Principal(
        tenant_id=uuid.uuid4(), member_id=uuid.uuid4(), scopes=frozenset(scopes or Scope)
    )


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_demo(who: Principal, object_id: str) -> bool:
        return object_id == "demo"

    async def is_c1(who: Principal, object_id: str) -> bool:
        return object_id == "c1"

    monkeypatch.setattr(topics, "_checkers", {"server": is_demo, "call": is_c1})


SERVER = Route("server.state", "demo")
OTHER = Route("tool.changed", "other")
CALL = Route("call.finished", "demo", "c1")
CALL_2 = Route("call.progress", "demo", "c2")
INPUT = Route("elicitation.created", "demo", "c1")
TRACE = Route("trace.message", "demo", "c1")
TRACE_2 = Route("trace.message", "other")
ALL = {SERVER, OTHER, CALL, CALL_2, INPUT, TRACE, TRACE_2}


@pytest.mark.parametrize(
    ("wanted", "accepted"),
    [
        ([], set()),
        (["servers"], {SERVER, OTHER, INPUT}),
        (["calls"], {CALL, CALL_2, INPUT}),
        (["traces"], {TRACE, TRACE_2}),
        (["server:demo"], {SERVER, INPUT}),
        (["call:c1"], {CALL, INPUT}),
        (["trace:demo"], {TRACE}),
        (["servers", "calls", "traces"], ALL),
        (["server:demo", "call:c1"], {SERVER, CALL, INPUT}),
    ],
)
async def test_topics_select_events(wanted: list[str], accepted: set[Route]) -> None:
    subscription = await subscription_for(principal(), wanted)
    assert {route for route in ALL if subscription.accepts(route)} == accepted
    assert subscription.wants_traces is bool(accepted & {TRACE, TRACE_2})


@pytest.mark.parametrize("topic", ["server:x", "call:x", "trace:x"])
async def test_unknown_or_foreign_object_is_not_found(topic: str) -> None:
    with pytest.raises(NotFoundError):
        await subscription_for(principal(), [topic])


async def test_object_of_a_kind_that_nobody_vouches_for_is_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topics, "_checkers", {})
    with pytest.raises(NotFoundError):
        await subscription_for(principal(), ["server:demo"])


@pytest.mark.parametrize("topic", ["", "everything", "server:", "traces:demo", "call:" + "x" * 65])
async def test_what_is_no_topic_is_refused(topic: str) -> None:
    with pytest.raises(InvalidInputError):
        await subscription_for(principal(), [topic])


async def test_too_many_topics_are_refused() -> None:
    with pytest.raises(InvalidInputError):
        await subscription_for(principal(), ["servers"] * 101)


@pytest.mark.parametrize(
    ("topic", "scope"),
    [
        ("traces", Scope.SERVERS_READ),
        ("trace:demo", Scope.SERVERS_READ),
        ("servers", Scope.TRACES_READ),
        ("call:c1", Scope.TRACES_READ),
    ],
)
async def test_topic_needs_its_scope(topic: str, scope: Scope) -> None:
    with pytest.raises(NotPermittedError):
        await subscription_for(principal(scope), [topic])


def test_limited_principal_sees_the_servers_that_are_told_and_none_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited = Principal(
        tenant_id=uuid.uuid4(),
        member_id=uuid.uuid4(),
        scopes=frozenset(Scope),
        allowed_connectors=frozenset({"linear"}),
    )
    monkeypatch.setattr(topics, "_listers", [])
    assert topics.visible_servers(principal()) is None
    assert topics.visible_servers(limited) == ()
    topics.register_visible_servers(lambda who: ["linear-2"])
    assert topics.visible_servers(limited) == ["linear-2"]
