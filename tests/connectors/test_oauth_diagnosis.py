"""The checklist of a server that wants a sign-in: it uses the grant, and says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from connectors.models import Connection
from oauth.models import Grant
from tests.connectors.oauth_desk import Desk
from tests.fakes.auth_server import Answer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rest")]


def diagnosis(desk: Desk, row: Connection) -> dict[str, dict[str, Any]]:
    path = f"/api/v1/servers/{row.slug}/diagnose"
    answer = Client().post(path, {}, content_type="application/json", headers=desk.person.headers)
    assert answer.status_code == 200, answer.content
    return {step["name"]: step for step in answer.json()["steps"]}


def test_signed_in_member_passes_with_the_token_of_the_grant(oauth_desk: Desk) -> None:
    row = oauth_desk.connected()

    steps = diagnosis(oauth_desk, row)

    assert (steps["era"]["outcome"], steps["auth"]["outcome"]) == ("ok", "ok")
    assert steps["auth"]["detail"] == {"hasCredentials": True}


def test_token_that_ended_is_refreshed_for_the_checklist_too(oauth_desk: Desk) -> None:
    row = oauth_desk.connected()
    oauth_desk.age(row)

    assert diagnosis(oauth_desk, row)["auth"]["outcome"] == "ok"
    assert len(oauth_desk.server.forms("refresh_token")) == 1
    assert oauth_desk.server.hits["reuse"] == 0


def test_member_who_has_not_signed_in_is_told_so(oauth_desk: Desk) -> None:
    row = oauth_desk.add()

    steps = diagnosis(oauth_desk, row)

    assert steps["http"]["detail"] == {"status": 401}
    assert (steps["auth"]["outcome"], steps["auth"]["code"]) == ("failed", "authorization_needed")
    assert not Grant.unscoped.exists()


def test_provider_that_is_away_is_named_and_nothing_is_lost(oauth_desk: Desk) -> None:
    row = oauth_desk.connected()
    oauth_desk.age(row)
    oauth_desk.server.rules.token_answers = [Answer(503)]

    step = diagnosis(oauth_desk, row)["auth"]

    assert (step["outcome"], step["code"]) == ("failed", "auth_temporarily_unavailable")
    assert len(oauth_desk.server.current_refresh_tokens()) == 1
