"""Refreshing ahead, pruning and revoking: what happens to grants when nobody calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from redis import Redis

from mcphub.celery import app
from mcphub.core.crypto import Secret
from oauth import flows, sweeping, tasks
from oauth.models import Grant, RefreshJournal
from oauth.names import LostReason
from oauth.records import journal
from oauth.risks import risks_of
from oauth.server_auth import ServerAuth
from tests.fakes.auth_server import Answer
from tests.oauth.people import Desk
from tests.world import World


async def test_sweep_refreshes_ahead_of_the_end_and_only_what_is_due(desk: Desk) -> None:
    await desk.sign_in()
    assert await sweeping.refresh_due(desk.means) == 0
    await desk.age(timedelta(seconds=3600 - 60))
    assert await sweeping.refresh_due(desk.means) == 1
    assert await sweeping.refresh_due(desk.means) == 0
    assert desk.server.hits["refresh_token"] == 1


async def test_sweep_goes_on_past_a_grant_that_fails(desk: Desk) -> None:
    await desk.sign_in()
    other = Desk(server=desk.server, means=desk.means, person=desk.person)
    await other.sign_in()
    for each in (desk, other):
        await each.age(timedelta(seconds=3600 - 60))
    desk.server.rules.token_answers = [Answer(503)]
    assert await sweeping.refresh_due(desk.means) == 1


async def test_min_validity_refreshes_a_token_that_lives_too_short(desk: Desk) -> None:
    await desk.sign_in()
    await flows.refresh(desk.means, desk.subject_key, min_validity=60.0)
    assert desk.server.hits["refresh_token"] == 0
    await flows.refresh(desk.means, desk.subject_key, min_validity=7200.0)
    assert desk.server.hits["refresh_token"] == 1


async def test_journal_is_pruned_after_a_week(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    await desk.call()
    assert await desk.means.database.run(journal.prune) == 0
    entry = await RefreshJournal.unscoped.aget()
    entry.started_at -= journal.KEPT + timedelta(hours=1)
    await entry.asave(update_fields=["started_at"])
    assert await desk.means.database.run(journal.prune) == 1


async def test_o14_revocation_tells_the_server_and_erases_the_row(desk: Desk) -> None:
    await desk.sign_in()
    await flows.revoke(desk.means, desk.subject_key)
    assert desk.server.hits["POST /as/revoke"] == 2
    assert (desk.server.current_refresh_tokens(), await Grant.unscoped.acount()) == ([], 0)


async def test_o14_unreachable_revocation_endpoint_does_not_keep_the_secrets(desk: Desk) -> None:
    await desk.sign_in()
    await Grant.unscoped.aupdate(revocation_endpoint="http://127.0.0.1:9/revoke")
    await flows.revoke(desk.means, desk.subject_key, LostReason.SERVER_CHANGED)
    await flows.revoke(desk.means, desk.subject_key)
    assert await Grant.unscoped.acount() == 0


def test_tasks_do_their_work_once_in_a_while(
    world: World, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned: list[int] = []
    swept: list[int] = []

    async def sweep() -> int:
        swept.append(1)
        return 0

    monkeypatch.setattr(sweeping, "sweep", sweep)
    monkeypatch.setattr(sweeping, "prune", lambda: pruned.append(1))
    for _ in range(2):
        tasks.refresh_due()
        tasks.prune()
    assert (swept, pruned) == ([1], [1])


def test_beat_rings_the_tasks_that_exist() -> None:
    rung = {str(entry["task"]) for entry in app.conf.beat_schedule.values()}
    assert {tasks.REFRESH_DUE, tasks.PRUNE} <= rung


@pytest.mark.django_db(transaction=True)
async def test_sweep_has_means_of_its_own(world: World) -> None:
    assert await sweeping.sweep() == 0


async def test_tenant_can_be_deleted_with_all_its_grants(desk: Desk) -> None:
    await desk.sign_in()
    await desk.begin()
    await desk.person.tenant.adelete()
    assert await Grant.unscoped.acount() == 0
    assert await desk.registrations() == []


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({}, []),
        ({"is_pkce_assumed": True}, ["pkce_assumed"]),
        ({"allow_legacy_2025_03_26": True}, ["legacy_rules"]),
        ({"resource": "omit"}, ["resource"]),
        ({"resource": "api://other"}, ["resource"]),
        ({"allow_plain_http": True}, ["plain_http"]),
        ({"client_id": "x", "client_secret": Secret("s")}, ["issuer_not_pinned"]),
        ({"client_id": "x", "client_secret": Secret("s"), "issuer": "https://as.example"}, []),
        ({"client_id": "x"}, []),
    ],
)
def test_every_choice_that_leaves_the_specification_names_its_risk(
    options: dict[str, Any], codes: list[str]
) -> None:
    auth = ServerAuth(server_url="https://x.example/mcp", **options)
    found = risks_of(auth)
    assert [risk.code for risk in found] == codes
    assert all(risk.text and risk.hint for risk in found)
