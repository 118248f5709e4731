"""Rows C of the failure log and R23 to R27: tokens are renewed once, and never lost by mistake."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mcphub.core import clock
from mcphub.core.egress import EgressClient, EgressPolicy
from mcphub.core.errors import HubError
from oauth import flows, refresh_lock, sweeping
from oauth.errors import AuthTemporarilyUnavailableError, GrantLostError
from oauth.means import Means
from oauth.models import Grant, Outcome
from oauth.names import LostReason
from oauth.records import grants, journal
from tests.fakes.auth_server import Answer
from tests.oauth.people import Desk


async def lost_reason(desk: Desk) -> LostReason | None:
    with pytest.raises(GrantLostError) as caught:
        await desk.call()
    return caught.value.reason


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("5250", 5250), (5250.0, 5250), (10**30, 10 * 365 * 86400), (-5, 1), (0, 1)],
    ids=["c01", "float", "huge", "negative", "zero"],
)
async def test_c01_lifetime_is_read_tolerantly(desk: Desk, value: Any, seconds: int) -> None:
    desk.server.rules.expires_in = value
    await desk.sign_in()
    grant = await desk.grant()
    assert grant.expires_at is not None
    assert (grant.expires_at - grant.issued_at).total_seconds() == seconds


@pytest.mark.parametrize("value", [None, "soon", True, [], "nan"])
async def test_lifetime_that_tells_nothing_is_unknown(desk: Desk, value: Any) -> None:
    desk.server.rules.expires_in = value
    await desk.sign_in()
    assert (await desk.grant()).expires_at is None
    assert (await desk.call()).status_code == 200


async def test_c03_error_in_a_successful_answer_is_a_failure(desk: Desk) -> None:
    begun = await desk.begin()
    desk.server.rules.token_answers = [Answer(200, {"ok": False, "error": "invalid_code"})]
    with pytest.raises(HubError) as caught:
        await desk.complete(desk.server.sign_in(begun.authorization_url))
    assert (caught.value.problem_code, caught.value.extra) == (
        "authorization_refused",
        {"reason": "invalid_code"},
    )
    assert await Grant.unscoped.acount() == 0


async def test_c04_scope_may_be_an_array(desk: Desk) -> None:
    desk.server.rules.token_extra = {"scope": ["files:read", "files:write"]}
    await desk.sign_in()
    assert (await desk.grant()).scopes == ["files:read", "files:write"]


async def test_c05_r21_expired_token_is_renewed_without_a_person(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    assert (await desk.call()).status_code == 200
    assert (desk.server.hits["refresh_token"], desk.server.hits["GET /as/authorize"]) == (1, 1)


async def test_c06_refresh_goes_to_the_stored_token_endpoint_only(desk: Desk) -> None:
    await desk.sign_in()
    desk.server.documents["/.well-known/oauth-authorization-server/as"] = Answer(500)
    await desk.expire()
    await desk.call()
    posts = {seen.path for seen in desk.server.seen if seen.method == "POST"}
    assert posts == {"/as/register", "/as/token", "/mcp"}


async def test_c07_c09_five_processes_spend_one_refresh_token(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    seen = await desk.means.database.run(grants.find, desk.subject_key)
    assert seen is not None
    # Without the shared flight of one loop: as processes do.
    renewed = await asyncio.gather(
        *(refresh_lock._renew(desk.means, seen, is_forced=False) for _ in range(5))
    )
    assert {each.access_token for each in renewed} == {renewed[0].access_token}
    assert desk.server.hits["refresh_token"] == 1
    assert desk.server.current_refresh_tokens() == [await desk.kept_refresh_token()]


@pytest.mark.parametrize("calls", [10, 50], ids=["c08", "c18"])
async def test_c08_c18_parallel_calls_share_one_refresh(desk: Desk, calls: int) -> None:
    await desk.sign_in()
    await desk.expire()
    answers = await asyncio.gather(*(desk.call() for _ in range(calls)))
    assert [answer.status_code for answer in answers] == [200] * calls
    assert desk.server.hits["refresh_token"] == 1


async def test_c10_r24_loser_that_is_refused_uses_the_winners_token(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    stale = await desk.means.database.run(grants.find, desk.subject_key)
    assert stale is not None
    await desk.token()
    kept = await desk.kept_refresh_token()
    assert not await desk.means.database.run(grants.lose, stale, LostReason.REFRESH_REFUSED)
    again = await refresh_lock.renew(desk.means, stale)
    assert again.refresh_token is not None
    assert (again.refresh_token.value, desk.server.hits["refresh_token"]) == (kept, 1)
    assert (await desk.grant()).status == "active"


async def test_c11_r23_unreachable_server_keeps_the_tokens_and_is_asked_seldom(
    desk: Desk,
) -> None:
    await desk.sign_in()
    await desk.expire()
    kept = await desk.kept_refresh_token()
    endpoint = (await desk.grant()).token_endpoint
    await Grant.unscoped.aupdate(token_endpoint="http://127.0.0.1:9/token")
    for _ in range(5):
        with pytest.raises(AuthTemporarilyUnavailableError) as caught:
            await desk.call()
        assert caught.value.retry_after is not None
    assert await desk.journal() == [Outcome.NOT_SENT]
    assert await desk.kept_refresh_token() == kept
    await Grant.unscoped.aupdate(token_endpoint=endpoint)
    await desk.age(timedelta(minutes=10))
    assert (await desk.call()).status_code == 200
    grant = await desk.grant()
    assert (grant.failures, grant.last_failure, grant.next_attempt_at) == (0, "", None)


async def test_r23_pauses_grow_and_end_at_five_minutes() -> None:
    pauses = [refresh_lock.pause_after(failures) for failures in range(20)]
    assert all(2**n / 2 <= pauses[n] <= 2**n for n in range(9))
    assert all(150 <= pause <= 300 for pause in pauses[9:])


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (Answer(503), "http_503"),
        (Answer(500, {"error": "invalid_grant"}), "invalid_grant"),
        (Answer(429, headers={"Retry-After": "77"}), "http_429"),
        (Answer(400, {"error": "invalid_scope"}), "invalid_scope"),
        (Answer(400, {"error": "Bad\r\nText " * 50}), "http_400"),
        (Answer(200, b"<html>"), "http_200"),
        (Answer(200, {"access_token": "a\r\nX-Evil: 1"}), "unusable_token"),
        (Answer(200, {"access_token": "x", "token_type": "mac"}), "unusable_token"),
        (Answer(302, headers={"Location": "http://127.0.0.1:1/"}), "redirect_refused"),
    ],
)
async def test_o12_anything_but_invalid_grant_keeps_the_tokens(
    desk: Desk, answer: Answer, failure: str
) -> None:
    await desk.sign_in()
    await desk.expire()
    desk.server.rules.token_answers = [answer]
    with pytest.raises(AuthTemporarilyUnavailableError):
        await desk.call()
    grant = await desk.grant()
    assert (grant.status, grant.last_failure, grant.failures) == ("active", failure, 1)
    await desk.age(timedelta(hours=1))
    assert (await desk.call()).status_code == 200


async def test_o12_token_that_is_no_header_value_never_reaches_the_server(desk: Desk) -> None:
    begun = await desk.begin()
    desk.server.rules.token_extra = {"access_token": "a\r\nX-Evil: 1"}
    with pytest.raises(HubError):
        await desk.complete(desk.server.sign_in(begun.authorization_url))
    assert await Grant.unscoped.acount() == 0


async def test_c13_refused_refresh_keeps_the_sealed_token_for_another_try(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    kept = await desk.kept_refresh_token()
    desk.server.rules.token_answers = [Answer(400, {"error": "invalid_grant"})]
    assert await lost_reason(desk) is LostReason.REFRESH_REFUSED
    assert await lost_reason(desk) is LostReason.REFRESH_REFUSED
    assert (await desk.kept_refresh_token(), desk.server.hits["refresh_token"]) == (kept, 1)
    await flows.retry(desk.means, desk.subject_key)
    assert (await desk.call()).status_code == 200


async def test_c13_lost_grant_is_erased_after_its_grace(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    desk.server.end_refresh_tokens()
    await lost_reason(desk)
    assert await desk.means.database.run(sweeping.prune) == 0
    lost_at = (await desk.grant()).lost_at
    assert lost_at is not None
    await Grant.unscoped.aupdate(lost_at=lost_at - sweeping.GRACE - timedelta(hours=1))
    assert await desk.means.database.run(sweeping.prune) > 0
    assert await Grant.unscoped.acount() == 0


async def test_a21_dead_refresh_token_says_why_and_a_new_sign_in_repairs_it(desk: Desk) -> None:
    await desk.sign_in()
    desk.server.end_refresh_tokens()
    assert await lost_reason(desk) is LostReason.REFRESH_REFUSED
    await desk.sign_in()
    assert (await desk.call()).status_code == 200


async def test_c15_refresh_token_is_used_although_offline_access_is_not_offered(
    desk: Desk,
) -> None:
    desk.server.rules.scopes_supported = ["files:read"]
    assert (await desk.begin()).scopes == ("files:read",)
    await desk.sign_in()
    await desk.expire()
    assert (await desk.call()).status_code == 200


async def test_c16_one_egress_policy_for_every_request(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    closed = Means(EgressClient(EgressPolicy()), desk.means.database)
    open_means, desk.means = desk.means, closed
    with pytest.raises(HubError):
        await desk.begin()
    with pytest.raises(AuthTemporarilyUnavailableError):
        await desk.token()
    assert desk.server.hits["refresh_token"] == 0
    assert (await desk.grant()).last_failure == "blocked_url"
    desk.means = open_means


async def test_c17_hung_refresh_ends_with_its_lease_and_the_next_caller_refreshes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.sign_in()
    await desk.expire()
    seen = await desk.means.database.run(grants.find, desk.subject_key)
    assert seen is not None
    await desk.means.database.run(journal.acquire, seen, "hung", seconds=25.0)
    monkeypatch.setattr(refresh_lock, "WAIT_SECONDS", 0.1)
    with pytest.raises(AuthTemporarilyUnavailableError):
        await desk.token()
    assert desk.server.hits["refresh_token"] == 0
    await desk.age(timedelta(seconds=26))
    assert (await desk.call()).status_code == 200
    assert await desk.journal() == [Outcome.STARTED, Outcome.STORED]


async def test_c19_token_that_is_rejected_early_is_renewed_once(desk: Desk) -> None:
    await desk.sign_in()
    desk.server.end_access_tokens()
    answers = await asyncio.gather(*(desk.call() for _ in range(10)))
    assert {answer.status_code for answer in answers} == {200}
    assert desk.server.hits["refresh_token"] == 1


async def test_c19_i10_rejected_fresh_token_ends_in_a_sign_in_and_not_in_a_loop(
    desk: Desk,
) -> None:
    await desk.sign_in()
    desk.server.rules.accepts_tokens = False
    assert (await desk.call()).status_code == 401
    for _ in range(3):
        assert await lost_reason(desk) is LostReason.FRESH_TOKEN_REJECTED
    assert desk.server.hits["refresh_token"] == 1


async def test_rejected_token_without_a_refresh_token_needs_a_person(desk: Desk) -> None:
    desk.server.rules.gives_refresh = False
    await desk.sign_in()
    desk.server.end_access_tokens()
    assert await lost_reason(desk) is LostReason.TOKEN_REJECTED


async def test_expired_token_without_a_refresh_token_needs_a_person(desk: Desk) -> None:
    desk.server.rules.gives_refresh = False
    await desk.sign_in()
    await desk.expire()
    assert await lost_reason(desk) is LostReason.EXPIRED


async def test_old_rejected_token_gets_the_current_one_without_a_refresh(desk: Desk) -> None:
    await desk.sign_in()
    old = await desk.token()
    await desk.expire()
    new = await desk.token()
    assert await desk.token(rejected=old) == new
    assert desk.server.hits["refresh_token"] == 1


async def test_c20_lost_answer_is_repeated_once_and_then_said(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    desk.server.rules.drops_answers = 1
    with pytest.raises(AuthTemporarilyUnavailableError):
        await desk.call()
    assert await desk.journal() == [Outcome.UNANSWERED]
    await desk.age(timedelta(minutes=10))
    assert await lost_reason(desk) is LostReason.REFRESH_INTERRUPTED
    assert await lost_reason(desk) is LostReason.REFRESH_INTERRUPTED
    assert desk.server.hits["refresh_token"] == 2


async def test_token_that_still_works_is_used_while_the_refresh_fails(desk: Desk) -> None:
    await desk.sign_in()
    await desk.age(timedelta(seconds=3590))
    desk.server.rules.token_answers = [Answer(503)]
    assert (await desk.call()).status_code == 200
    assert (await desk.grant()).last_failure == "http_503"


async def test_r25_wrong_clock_of_a_process_refreshes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.sign_in()
    await desk.age(timedelta(seconds=3600 - 240))
    right: Callable[[], Any] = clock.now
    monkeypatch.setattr(clock, "now", lambda: right() + timedelta(minutes=5))
    assert [(await desk.call()).status_code for _ in range(3)] == [200] * 3
    assert desk.server.hits["refresh_token"] == 0


async def test_refresh_without_a_new_refresh_token_keeps_the_old_one(desk: Desk) -> None:
    desk.server.rules.rotates = False
    await desk.sign_in()
    kept = await desk.kept_refresh_token()
    await desk.expire()
    desk.server.rules.gives_refresh = False
    assert (await desk.call()).status_code == 200
    assert await desk.kept_refresh_token() == kept


async def test_unknown_connection_was_never_authorized(desk: Desk) -> None:
    with pytest.raises(GrantLostError) as caught:
        await desk.token()
    assert caught.value.extra == {"reason": "never_authorized"}
