"""While a store is away: what the API answers, and that broken connections are replaced."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test import RequestFactory

from mcphub import outage
from mcphub.api import pages
from mcphub.api.errors import problem_response
from mcphub.core.database_watch import DatabaseWatch, watch
from mcphub.core.errors import UnavailableError
from mcphub.core.offload import in_thread
from mcphub.core.patience import database_patience
from tests.waiting import eventually


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_a_503_that_says_when_to_come_back(
    kind: type[Exception], rf: RequestFactory
) -> None:
    response = problem_response(kind("server closed the connection"), rf.get("/api/v1/servers"))
    body = json.loads(response.content)
    assert (response.status_code, body["code"], response["Retry-After"]) == (
        503,
        "unavailable",
        "1",
    )
    assert "server closed" not in response.content.decode()


def test_outside_of_the_views_it_is_a_503_too(rf: RequestFactory) -> None:
    try:
        raise OperationalError("gone")  # noqa: TRY301  (the page looks at what is being handled)
    except OperationalError:
        api = pages.server_error(rf.get("/api/v1/servers"))
        page = pages.server_error(rf.get("/admin/"))
    assert (api.status_code, page.status_code) == (503, 503)
    assert pages.server_error(rf.get("/admin/")).status_code == 500


async def test_patience_ends_when_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphub.core.patience.DATABASE_SECONDS", 0.01)
    monkeypatch.setattr(watch, "has_seen_it_away", lambda: True)
    with pytest.raises(UnavailableError) as caught:
        async with database_patience():
            await asyncio.Event().wait()
    assert (caught.value.problem_code, caught.value.retry_after) == ("unavailable", 1.0)


async def test_an_outage_that_begins_while_a_request_waits_ends_its_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcphub.core.patience.DATABASE_SECONDS", 0.01)
    monkeypatch.setattr("mcphub.core.patience.LOOK_SECONDS", 0.01)
    looks = iter([False, False])
    monkeypatch.setattr(watch, "has_seen_it_away", lambda: next(looks, True))
    with pytest.raises(UnavailableError) as caught:
        async with database_patience():
            await asyncio.Event().wait()
    assert caught.value.problem_code == "unavailable"


async def test_a_turn_that_comes_late_comes_while_the_database_is_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcphub.core.patience.DATABASE_SECONDS", 0.01)
    monkeypatch.setattr("mcphub.core.patience.LOOK_SECONDS", 0.01)
    looked, turn = 0, asyncio.Event()

    def look() -> bool:
        nonlocal looked
        looked += 1
        if looked == 3:
            turn.set()
        return False

    monkeypatch.setattr(watch, "has_seen_it_away", look)
    async with database_patience():
        await turn.wait()
    assert looked == 3


async def test_a_turn_that_never_comes_is_told_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphub.core.patience.BUSY_SECONDS", 0.01)
    with pytest.raises(UnavailableError) as caught:
        async with database_patience():
            await asyncio.Event().wait()
    assert (caught.value.problem_code, caught.value.retry_after) == ("busy", 1.0)


@pytest.mark.django_db(transaction=True)
async def test_the_shared_thread_replaces_a_connection_that_the_database_ended() -> None:
    def break_it() -> None:
        connection.ensure_connection()
        connection.connection.close()
        connection.errors_occurred = True

    def ask() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone()[0]

    await in_thread(break_it)
    assert await in_thread(ask) == 1


class Sent(list[dict[str, Any]]):
    async def __call__(self, message: dict[str, Any]) -> None:
        self.append(message)


async def behind(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "passed"})


@pytest.mark.parametrize(
    ("path", "is_watching", "first"),
    [
        ("/api/v1/servers", True, "http.response.start"),
        ("/api/v1/servers", False, "passed"),
        ("/livez", True, "passed"),
    ],
)
async def test_the_guard_answers_for_the_api_alone(
    monkeypatch: pytest.MonkeyPatch, path: str, is_watching: bool, first: str
) -> None:
    monkeypatch.setattr(watch, "is_away", lambda: True)
    sent = Sent()
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    await outage.OutageGuard(behind, is_watching=is_watching)(scope, None, sent)
    assert sent[0]["type"] == first


def test_the_watch_notices_that_looks_fail_and_that_they_work_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mcphub.core.database_watch.LOOK_SECONDS", 0.01)
    answers = [False]
    made = DatabaseWatch(lambda: answers[0])
    eventually(made.is_away, 5.0, "away")
    answers[0] = True
    eventually(lambda: not made.is_away(), 5.0, "back")
    made.close()


def test_the_watch_notices_a_look_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphub.core.database_watch.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("mcphub.core.database_watch.LATE_SECONDS", 0.05)
    hanging = threading.Event()
    made = DatabaseWatch(lambda: hanging.wait(5.0))
    eventually(made.is_away, 5.0, "away")
    made.close()
    hanging.set()
