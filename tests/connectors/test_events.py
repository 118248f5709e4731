"""Events of connectors: whole payloads, to the one principal concerned, after the commit."""

from __future__ import annotations

import uuid
from typing import Any
from unittest.mock import ANY

import pytest
from django.db import transaction

from connectors import events, selectors
from connectors.events import CallNotice, ToolChanges
from connectors.models import Connection
from mcphub.core import broadcast
from mcphub.core.event_stream import EventGroup
from mcphub.core.types import JSONObject
from tests.connectors.rest import server_json
from tests.connectors.server_factories import SEARCH, make_call, make_connected
from tests.world import Person, World


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[tuple[EventGroup, JSONObject]]:
    """What was announced, in order."""
    seen: list[tuple[EventGroup, JSONObject]] = []
    monkeypatch.setattr(broadcast, "publish", lambda group, event: seen.append((group, event)))
    return seen


Published = list[tuple[EventGroup, JSONObject]]


def group_of(person: Person) -> EventGroup:
    return EventGroup.of(person.principal)


def notice(world: World, **more: Any) -> CallNotice:
    return CallNotice(
        **{
            "id": uuid.UUID(int=1),
            "tenant_id": world.alice.tenant.pk,
            "member_id": world.alice.member.pk,
            "server": "mine",
            "method": "tools/call",
            "target": "search",
            "status": "sent",
            "attempt": 1,
            **more,
        }
    )


def test_a_server_is_announced_as_it_is_after_the_commit(
    world: World, published: Published, django_capture_on_commit_callbacks: Any
) -> None:
    row = make_connected(world.alice, "mine")
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        events.announce_server(row)
        Connection.unscoped.filter(pk=row.pk).update(name="Renamed")
        assert published == []

    tool = selectors.tools_for(world.alice.principal, row)[0].wire
    server = server_json(
        "mine",
        name="Renamed",
        connectionState="connected",
        connectedAt=ANY,
        protocolVersion="2025-11-25",
        catalogVersion=1,
        tools=[tool],
    )
    del server["seq"]
    assert published == [
        (group_of(world.alice), {"type": "server.state", "server": server}),
    ]


def test_tools_are_left_out_when_they_are_large_or_not_there(
    world: World, published: Published, django_capture_on_commit_callbacks: Any
) -> None:
    large = make_connected(world.alice, "large", tools=[{**SEARCH, "description": "x" * 70_000}])
    away = make_connected(world.alice, "away", state="error")

    with django_capture_on_commit_callbacks(execute=True):
        events.announce_server(large)
        events.announce_server(away)

    servers: list[Any] = [event["server"] for _, event in published]
    assert [(one["id"], one["tools"]) for one in servers] == [("large", None), ("away", None)]


def test_calls_are_announced_without_arguments_and_results(
    world: World, published: Published, django_capture_on_commit_callbacks: Any
) -> None:
    row = make_connected(world.alice, "mine")
    ended = make_call(world.alice, row, status="failed", problem_code="timeout", outcome={"a": 1})

    with django_capture_on_commit_callbacks(execute=True):
        events.announce_call_started(notice(world))
        events.announce_call_finished(CallNotice.of(ended))

    call = {
        "id": str(uuid.UUID(int=1)),
        "server": "mine",
        "method": "tools/call",
        "target": "search",
        "status": "running",
        "attempt": 1,
        "isToolError": False,
        "problem": None,
    }
    failed = {
        **call,
        "id": str(ended.pk),
        "status": "failed",
        "attempt": 0,
        "problem": {"code": "timeout", "detail": ""},
    }
    assert [event for _, event in published] == [
        {"type": "call.started", "call": call},
        {"type": "call.finished", "call": failed},
    ]


def test_progress_and_logs_of_a_server_are_bounded(
    world: World, published: Published, django_capture_on_commit_callbacks: Any
) -> None:
    view = selectors.connection_view(make_connected(world.alice, "mine"))

    with django_capture_on_commit_callbacks(execute=True):
        events.announce_call_progress(
            notice(world), {"progress": 1, "total": "odd", "message": "m" * 9000}
        )
        events.announce_call_log(view, {"level": "error", "logger": 7, "data": ["x" * 9000]})

    assert [event for _, event in published] == [
        {
            "type": "call.progress",
            "id": str(uuid.UUID(int=1)),
            "server": "mine",
            "progress": 1.0,
            "total": None,
            "message": "m" * 2000,
        },
        {
            "type": "call.log",
            "id": None,
            "server": "mine",
            "level": "error",
            "logger": None,
            "data": ('["' + "x" * 9000)[:2000],
        },
    ]


def test_changed_tools_and_removed_servers_are_named(
    world: World, published: Published, django_capture_on_commit_callbacks: Any
) -> None:
    row = make_connected(world.bob, "mine")

    with django_capture_on_commit_callbacks(execute=True):
        events.announce_tools_changed(row, ToolChanges(added=["a"], removed=["b" * 500]))
        events.announce_server_removed(world.bob.principal, "gone")

    changed = {
        "type": "tool.changed",
        "id": "mine",
        "added": ["a"],
        "changed": [],
        "removed": ["b" * 200],
        "blocked": [],
        "catalogVersion": 1,
    }
    group = group_of(world.bob)
    assert published == [(group, changed), (group, {"type": "server.removed", "id": "gone"})]


def test_what_is_rolled_back_is_not_announced(world: World, published: Published) -> None:
    row = make_connected(world.alice, "mine")

    with transaction.atomic():
        events.announce_tools_changed(row, ToolChanges())
        transaction.set_rollback(True)

    assert published == []
