"""Sentinels: no token, code, verifier, state or client secret is anywhere but sealed; O08, O09."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.db import connection
from django.test import AsyncClient

from mcphub.core.crypto import CredentialUnreadableError
from mcphub.core.errors import NotFoundError
from mcphub.core.sealing import unseal
from mcphub.up import rotation
from oauth import bearer, flows, selectors
from oauth.errors import AuthTemporarilyUnavailableError, GrantLostError
from oauth.models import Grant
from oauth.names import LostReason
from oauth.records import grants
from tests.fakes.auth_server import Answer
from tests.oauth.people import Desk, callback_of
from tests.world import World

OWN_LOGGERS = ("oauth", "mcphub", "tenants", "django", "httpcore2", "httpx2", "asyncio")
SECRET = "sentinel-client-secret"
TABLES = (
    *("oauth_grant", "oauth_clientregistration", "oauth_authorizationrequest"),
    "oauth_refreshjournal",
)
HEADERS_FOR_OTHERS = {
    *("accept", "accept-encoding", "authorization", "content-length", "content-type"),
    *("host", "user-agent"),
}


@dataclass
class Life:
    """What a whole life of a connection left behind."""

    secrets: set[str]
    text: str


def dump() -> str:
    """Return every stored byte of the package's tables."""
    found: list[Any] = []
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT * FROM {table}")
            found += [cell for row in cursor.fetchall() for cell in row]
    return "\n".join(
        bytes(cell).decode("latin-1") if isinstance(cell, bytes | memoryview) else str(cell)
        for cell in found
    )


async def live(desk: Desk, client: AsyncClient) -> tuple[set[str], list[str]]:
    """Sign in, refresh, fail, step up and lose; return the secrets and what was kept on the way."""
    desk.server.rules.registration = {
        "client_secret": SECRET,
        "token_endpoint_auth_method": "client_secret_post",
        "registration_access_token": "sentinel-registration-token",
    }
    await client.aforce_login(desk.person.user)
    browser = str((await client.asession()).session_key)
    begun = await desk.begin(browser=browser)
    kept = [await desk.means.database.run(dump)]
    answer = desk.server.sign_in(begun.authorization_url)
    page = await client.get(f"/oauth/callback?{urlencode(answer)}")
    kept += [page.content.decode(), str(page.headers), await desk.means.database.run(dump)]
    await desk.expire()
    desk.server.rules.token_answers = [Answer(503)]
    with pytest.raises(AuthTemporarilyUnavailableError) as away:
        await desk.call()
    await desk.age(timedelta(hours=1))
    await desk.call()
    second = await desk.begin()
    kept += [repr(second), repr(desk.start()), repr(callback_of(answer)), repr(away.value.extra)]
    desk.server.end_refresh_tokens()
    with pytest.raises(GrantLostError) as lost:
        await desk.call()
    kept += [repr(lost.value), await desk.means.database.run(dump)]
    kept.append(repr(await desk.means.database.run(grants.find, desk.subject_key)))
    query = parse_qs(urlsplit(begun.authorization_url).query)
    again = parse_qs(urlsplit(second.authorization_url).query)
    secrets = {SECRET, "sentinel-registration-token", browser, answer["code"]}
    secrets |= {query["state"][0], again["state"][0], *desk.server.access, *desk.server.refresh}
    return secrets | {
        form["code_verifier"] for form in desk.server.forms("authorization_code")
    }, kept


async def test_no_secret_is_in_logs_at_debug_pages_errors_or_stored_rows(
    desk: Desk, async_client: AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secrets, kept = await live(desk, async_client)
    logs = [
        f"{record.getMessage()} {record.args} {record.exc_info}"
        for record in caplog.records
        if record.name.startswith(OWN_LOGGERS)
    ]
    text = "\n".join([*kept, *logs])
    assert len(secrets) > 9
    assert len(logs) > 5
    assert [secret for secret in secrets if secret in text] == []


async def test_admin_pages_show_no_secret_and_revoke(
    desk: Desk, async_client: AsyncClient, world: World
) -> None:
    desk.server.rules.registration = {
        "client_secret": SECRET,
        "token_endpoint_auth_method": "client_secret_post",
    }
    await desk.sign_in()
    grant, [registration] = await desk.grant(), await desk.registrations()
    await async_client.aforce_login(world.root)
    pages = [
        await async_client.get(f"/admin/oauth/{path}", follow=True)
        for path in (
            *("grant/", f"grant/{grant.pk}/change/", "refreshjournal/"),
            *("clientregistration/", f"clientregistration/{registration.pk}/change/"),
        )
    ]
    assert [page.status_code for page in pages] == [200] * 5
    text = "\n".join(page.content.decode() for page in pages)
    hidden = [SECRET, *desk.server.access, *desk.server.refresh]
    assert [secret for secret in hidden if secret in text] == []
    assert desk.server.issuer in text
    for model, action, row in (
        ("clientregistration", "reset", registration.pk),
        ("grant", "revoke", grant.pk),
    ):
        form = {"action": action, "_selected_action": [str(row)]}
        answer = await async_client.post(f"/admin/oauth/{model}/", form)
        assert answer.status_code == 302
    assert await Grant.unscoped.acount() == 0
    assert [row.dropped_at is not None for row in await desk.registrations()] == [True]
    assert desk.server.hits["POST /as/revoke"] == 2


async def test_o08_authorization_server_sees_only_headers_that_are_its_business(
    desk: Desk,
) -> None:
    await desk.sign_in()
    await desk.expire()
    await desk.token()
    await flows.revoke(desk.means, desk.subject_key)
    ours = [seen for seen in desk.server.seen if not seen.path.endswith("/authorize")]
    assert {name for seen in ours for name in seen.headers} <= HEADERS_FOR_OTHERS


async def test_o09_nothing_secret_travels_in_an_address(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    await desk.call()
    await flows.revoke(desk.means, desk.subject_key)
    queries = [seen.query for seen in desk.server.seen if not seen.path.endswith("/authorize")]
    assert [query for query in queries if query] == []


async def test_sealed_token_opens_for_its_own_row_only(desk: Desk) -> None:
    await desk.sign_in()
    other = Desk(server=desk.server, means=desk.means, person=desk.person)
    await other.sign_in()
    mine, yours = await desk.grant(), await other.grant()
    yours.sealed_access_token = mine.sealed_access_token
    with pytest.raises(CredentialUnreadableError):
        unseal(yours, "sealed_access_token")


def test_key_rotation_reaches_the_sealed_columns() -> None:
    found = {
        column.field: column.owner("1")
        for column in rotation.sealed_columns()
        if column.model is Grant
    }
    assert found == {
        "sealed_access_token": "oauth_grant:1:sealed_access_token",
        "sealed_refresh_token": "oauth_grant:1:sealed_refresh_token",
    }


async def test_grant_of_somebody_else_is_not_shown(desk: Desk, world: World) -> None:
    await desk.sign_in()
    run = desk.means.database.run
    own = await run(selectors.grant_for, world.alice.principal, desk.subject_key)
    assert own is not None
    assert (own.issuer, own.is_lost, own.forecast.can_refresh) == (desk.server.issuer, False, True)
    for person in (world.bob, world.charlie):
        assert await run(selectors.grant_for, person.principal, desk.subject_key) is None


async def test_connection_of_somebody_else_cannot_be_signed_in_again(
    desk: Desk, world: World
) -> None:
    await desk.sign_in()
    before = len(desk.server.seen)
    for person in (world.bob, world.charlie):
        with pytest.raises(NotFoundError):
            await flows.begin(desk.means, person.principal, desk.start())
        with pytest.raises(NotFoundError):
            await flows.client_credentials(desk.means, person.principal, desk.start())
    assert len(desk.server.seen) == before


async def test_w08_token_is_never_given_for_another_address(desk: Desk) -> None:
    await desk.sign_in()
    key, url = desk.subject_key, desk.server.mcp_url
    assert (await bearer.access_token(desk.means, key, server_url=url)).value
    with pytest.raises(GrantLostError) as caught:
        await bearer.access_token(desk.means, key, server_url="https://other.example/mcp")
    assert caught.value.reason is LostReason.SERVER_CHANGED
    with pytest.raises(GrantLostError):
        await bearer.access_token(desk.means, key, server_url=url)
