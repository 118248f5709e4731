"""Refreshing ahead, pruning and revoking: what happens to grants when nobody calls."""

from __future__ import annotations

from datetime import timedelta

from oauth import flows, sweeping
from oauth.models import Grant, RefreshJournal
from oauth.names import LostReason
from oauth.records import journal
from tests.fakes.auth_server import Answer
from tests.oauth.people import Desk


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
