"""R26, R27: refreshes that are overtaken, stopped or abandoned change nothing they should not."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from oauth import flows, refresh_lock
from oauth.errors import AuthTemporarilyUnavailableError, GrantLostError
from oauth.models import Grant, Outcome
from oauth.records import grants, journal
from oauth.tokens import TokenAnswer
from tests.oauth.people import Desk


@pytest.mark.parametrize("event", ["revoke", "delete", "sign in"])
async def test_r26_result_of_an_overtaken_refresh_is_discarded_and_revoked(
    desk: Desk, event: str
) -> None:
    await desk.sign_in()
    await desk.expire()
    desk.server.committed.clear()
    desk.server.may_answer.clear()
    late = asyncio.create_task(desk.token())
    await asyncio.to_thread(desk.server.committed.wait, 10)
    before = len(desk.server.current_refresh_tokens())
    if event == "revoke":
        await flows.revoke(desk.means, desk.subject_key)
    elif event == "delete":
        await (await desk.grant()).adelete()
    else:
        await desk.sign_in()
    desk.server.may_answer.set()
    await asyncio.wait([late])
    assert before == 1
    assert isinstance(late.exception(), GrantLostError) is (event != "sign in")
    assert await Grant.unscoped.acount() == (event == "sign in")
    kept = [await desk.kept_refresh_token()] if event == "sign in" else []
    current = desk.server.current_refresh_tokens()
    assert (len(current), set(kept) <= set(current)) == (2 * len(kept), True)


async def test_r27_write_of_a_process_that_stood_still_is_refused(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    zombie = await desk.means.database.run(grants.find, desk.subject_key)
    assert zombie is not None
    lease = await desk.means.database.run(journal.acquire, zombie, "zombie", seconds=25.0)
    assert lease is not None
    await desk.age(timedelta(seconds=60))
    await desk.token()
    kept = await desk.kept_refresh_token()
    stale = TokenAnswer(access_token=zombie.access_token, refresh_token=zombie.refresh_token)
    stored = await desk.means.database.run(
        refresh_lock._record_tokens, zombie, lease, stale, is_forced=False
    )
    assert (stored, await desk.kept_refresh_token()) == (False, kept)
    await desk.means.database.run(
        grants.postpone, zombie, "zombie", seconds=100.0, failure="timeout"
    )
    assert (await desk.grant()).next_attempt_at is None


async def test_process_that_stood_still_does_not_spend_the_token(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.sign_in()
    await desk.expire()
    monkeypatch.setattr(refresh_lock, "SEND_WITHIN", 0.0)
    with pytest.raises(AuthTemporarilyUnavailableError):
        await desk.token()
    assert (desk.server.hits["refresh_token"], await desk.journal()) == (0, [Outcome.NOT_SENT])


async def test_cancelled_caller_does_not_stop_the_refresh(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    desk.server.committed.clear()
    desk.server.may_answer.clear()
    caller = asyncio.create_task(desk.token())
    await asyncio.to_thread(desk.server.committed.wait, 10)
    caller.cancel()
    await asyncio.wait([caller])
    desk.server.may_answer.set()
    assert (await desk.call()).status_code == 200
    assert desk.server.hits["refresh_token"] == 1
