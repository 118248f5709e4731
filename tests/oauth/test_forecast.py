"""What a connection shows about its authorization: whom it is, what will happen, and events."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mcphub.core.crypto import Secret
from oauth import flows, signals, tokens
from oauth.errors import GrantLostError
from oauth.forecast import Forecast, Known, ahead_seconds, forecast, is_due_on_use
from oauth.tokens import TokenAnswer, TokenRefusal
from tests.fakes.auth_server import AuthServer
from tests.oauth.people import Desk

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ONE = timedelta(hours=1)
FINE = Known(
    grant_id=uuid.UUID(int=0),
    issued_at=NOON,
    expires_at=NOON + ONE,
    refresh_expires_at=None,
    has_refresh=True,
    lost_reason="",
    is_lost=False,
    last_failure="",
    next_attempt_at=None,
)


def test_grant_that_renews_itself_says_when() -> None:
    assert forecast(FINE, NOON) == Forecast(
        expires_at=NOON + ONE,
        ends_at=None,
        will_refresh_at=NOON + ONE - timedelta(seconds=150),
        can_refresh=True,
        reason="",
    )


@pytest.mark.parametrize(
    ("change", "can_refresh", "reason"),
    [
        ({"has_refresh": False}, False, "no_refresh_token"),
        ({"has_refresh": False, "expires_at": None}, False, ""),
        ({"refresh_expires_at": NOON}, False, "refresh_token_expired"),
        ({"refresh_expires_at": NOON + ONE}, True, ""),
        ({"last_failure": "http_503"}, True, "http_503"),
        ({"is_lost": True, "lost_reason": "revoked"}, False, "revoked"),
    ],
)
def test_forecast_says_why_it_cannot_refresh(
    change: dict[str, Any], can_refresh: bool, reason: str
) -> None:
    told = forecast(replace(FINE, **change), NOON)
    assert (told.can_refresh, told.reason) == (can_refresh, reason)
    assert (told.will_refresh_at is not None) == can_refresh


def test_pause_after_a_failure_moves_the_refresh() -> None:
    late = replace(FINE, next_attempt_at=NOON + 2 * ONE)
    assert forecast(late, NOON).will_refresh_at == NOON + 2 * ONE
    assert forecast(replace(FINE, expires_at=None), NOON).will_refresh_at is None


def test_i8_refreshes_of_grants_made_together_are_spread() -> None:
    moments = {round(ahead_seconds(uuid.uuid4(), 3600.0)) for _ in range(300)}
    assert len(moments) > 60
    assert min(moments) >= 150
    assert max(moments) <= 300


def test_short_lived_token_is_not_refreshed_at_every_use() -> None:
    assert [is_due_on_use(left, 60.0) for left in (59.0, 7.0, 6.0, 0.0, -1.0)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert not is_due_on_use(float("inf"), float("inf"))


@pytest.fixture
def heard() -> Iterator[list[tuple[str, uuid.UUID, str]]]:
    """What the signals said, as the packages above hear it."""
    said: list[tuple[str, uuid.UUID, str]] = []

    def completed(ids: signals.Ids, reason: str, **_: Any) -> None:
        said.append(("completed", ids.subject_key, reason))

    def lost(ids: signals.Ids, reason: str, **_: Any) -> None:
        said.append(("lost", ids.subject_key, reason))

    signals.authorization_completed.connect(completed)
    signals.authorization_lost.connect(lost)
    yield said
    signals.authorization_completed.disconnect(completed)
    signals.authorization_lost.disconnect(lost)


async def test_packages_above_hear_of_completion_and_loss_once(
    desk: Desk, heard: list[tuple[str, uuid.UUID, str]]
) -> None:
    await desk.sign_in()
    await desk.expire()
    desk.server.end_refresh_tokens()
    for _ in range(2):
        with pytest.raises(GrantLostError):
            await desk.call()
    assert heard == [
        ("completed", desk.subject_key, ""),
        ("lost", desk.subject_key, "refresh_refused"),
    ]


async def test_revocation_is_heard_with_its_reason(
    desk: Desk, heard: list[tuple[str, uuid.UUID, str]]
) -> None:
    await desk.sign_in()
    await flows.revoke(desk.means, desk.subject_key)
    assert heard[-1] == ("lost", desk.subject_key, "revoked")


def id_token(server: AuthServer, client_id: str, **claims: object) -> str:
    payload = {"iss": server.issuer, "aud": client_id, **claims}
    part = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    return f"e30.{part}.sig"


async def test_id_token_tells_whom_a_member_signed_in_as(desk: Desk) -> None:
    desk.server.rules.registration = {"client_id": "me"}
    desk.server.rules.token_extra = {"id_token": id_token(desk.server, "me", email="a@b.example")}
    await desk.sign_in()
    assert (await desk.grant()).signed_in_as == "a@b.example"


@pytest.mark.parametrize(
    "token", ["a.b", "a.!!.c", "a.e30.c", "{other}"], ids=["parts", "base64", "empty", "audience"]
)
async def test_userinfo_tells_when_the_id_token_does_not(desk: Desk, token: str) -> None:
    other = id_token(desk.server, "somebody-else", email="evil@b.example")
    desk.server.rules.token_extra = {"id_token": token.format(other=other)}
    desk.options["scopes"] = ("openid",)
    await desk.sign_in()
    assert (await desk.grant()).signed_in_as == "alice@example.org"


async def test_identity_is_not_asked_for_without_openid(desk: Desk) -> None:
    await desk.sign_in()
    assert (await desk.grant()).signed_in_as == ""
    assert desk.server.hits["GET /as/userinfo"] == 0


@pytest.mark.parametrize(
    "claims", [{}, {"email": 7}, {"email": "  "}, {"name": "a\x00b"}, {"sub": "x\u202ey"}]
)
def test_name_that_cannot_be_shown_is_left_out(claims: dict[str, Any]) -> None:
    assert tokens.identity(claims) == ""


def test_long_name_is_cut() -> None:
    assert tokens.identity({"name": "x" * 500}) == "x" * 200


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"", ""),
        (200, b"[]", ""),
        (200, b'{"access_token": ""}', "unusable_token"),
        (200, b'{"access_token": 7}', "unusable_token"),
        (200, b'{"access_token": "' + b"x" * 16385 + b'"}', "unusable_token"),
        (200, b'{"access_token": "x", "error": "bad_refresh_token"}', "bad_refresh_token"),
        (400, b'{"error": {"code": "invalid_grant"}}', "invalid_grant"),
        (400, b'{"error": "<script>"}', ""),
    ],
)
def test_answers_without_a_usable_token_are_refusals(status: int, body: bytes, error: str) -> None:
    assert tokens.parse(status, body) == TokenRefusal(error=error, http_status=status)


@pytest.mark.parametrize("kind", [b"", b', "token_type": "bearer"', b', "token_type": "BEARER"'])
def test_token_type_is_read_in_any_case(kind: bytes) -> None:
    read = tokens.parse(200, b'{"access_token": "x"' + kind + b"}")
    assert read == TokenAnswer(access_token=Secret("x"))
