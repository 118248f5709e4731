"""What members hear of an authorization that lives on: before its end, and when it is another."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from connectors.models import Connection
from connectors.states import State
from mcphub.core import broadcast
from mcphub.core.clock import now
from mcphub.core.event_stream import EventGroup
from oauth import sweeping
from oauth.models import Grant
from tests.connectors.oauth_desk import Desk
from tests.fakes.auth_server import Answer
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

Heard = list[dict[str, Any]]


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    """What Alice's stream says, in order."""
    said: Heard = []
    publish = broadcast.publish

    def hear(group: EventGroup, event: Any) -> None:
        said.append(event)
        publish(group, event)

    monkeypatch.setattr(broadcast, "publish", hear)
    return said


def changes(heard: Heard) -> list[str]:
    return [event["change"] for event in heard if event["type"] == "server.authorization"]


def sweep() -> None:
    async_to_sync(sweeping.sweep)()


def end_in(row: Connection, seconds: float, **more: Any) -> None:
    """Let the access token end so soon, of a life of an hour."""
    end = now() + timedelta(seconds=seconds)
    Grant.unscoped.filter(subject_key=row.pk).update(
        **{"issued_at": end - timedelta(hours=1), "expires_at": end, **more}
    )


def test_refresh_ahead_tells_the_new_end_to_everybody(oauth_desk: Desk, heard: Heard) -> None:
    row = oauth_desk.connected()
    end_in(row, 60)
    heard.clear()

    sweep()

    assert changes(heard) == ["refreshed"]
    told = next(e["auth"] for e in heard if e["type"] == "server.authorization")
    shown = [e["server"]["auth"] for e in heard if e["type"] == "server.state"][-1]
    assert told == shown == oauth_desk.view(row).auth.wire
    assert datetime.fromisoformat(told["expiresAt"]) > now() + timedelta(minutes=50)
    assert told["forecast"]["willRefreshAt"] < told["expiresAt"]


def test_refresh_in_the_middle_of_a_call_is_told_too(oauth_desk: Desk, heard: Heard) -> None:
    row = oauth_desk.connected()
    oauth_desk.server.end_access_tokens()

    assert oauth_desk.stack.call(row, "read") is None

    eventually(lambda: changes(heard) == ["refreshed"], 5.0, "the refresh is told")


def test_delay_is_told_with_its_reason_while_the_token_still_works(
    oauth_desk: Desk, heard: Heard
) -> None:
    row = oauth_desk.connected()
    end_in(row, 60)
    oauth_desk.server.rules.token_answers = [Answer(503)]

    sweep()

    assert changes(heard) == ["refresh_delayed"]
    told = next(e["auth"] for e in heard if e["type"] == "server.authorization")
    assert (told["forecast"]["canRefresh"], told["forecast"]["reason"]) == (True, "http_503")
    oauth_desk.settled(row, State.CONNECTED)


def test_end_that_needs_a_person_is_told_once_beforehand(oauth_desk: Desk, heard: Heard) -> None:
    row = oauth_desk.connected()
    end_in(row, 1000, sealed_refresh_token=None)
    sweep()
    assert changes(heard) == []

    end_in(row, 600, sealed_refresh_token=None)
    sweep()
    sweep()

    assert changes(heard) == ["ending"]
    told = next(e["auth"] for e in heard if e["type"] == "server.authorization")
    assert told["forecast"] == {
        "willRefreshAt": None,
        "canRefresh": False,
        "endsAt": told["expiresAt"],
        "reason": "no_refresh_token",
    }


def test_end_of_the_refresh_token_is_told_a_day_ahead(oauth_desk: Desk, heard: Heard) -> None:
    row = oauth_desk.connected()
    week = {"issued_at": now() - timedelta(days=6, hours=1)}
    end_in(row, 3000, refresh_expires_at=now() + timedelta(hours=25), **week)
    sweep()
    assert changes(heard) == []

    end_in(row, 3000, refresh_expires_at=now() + timedelta(hours=23), **week)
    sweep()

    assert changes(heard) == ["ending"]


def test_end_that_was_put_off_is_told_of_again(oauth_desk: Desk, heard: Heard) -> None:
    row = oauth_desk.connected()
    end_in(row, 300, sealed_refresh_token=None)
    sweep()
    end_in(row, 700, sealed_refresh_token=None)

    sweep()

    assert changes(heard) == ["ending", "ending"]
