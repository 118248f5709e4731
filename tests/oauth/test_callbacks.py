"""O01 and O05: whose answer it is and who stands before the callback; and what a person sees."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.http import HttpResponse
from django.test import AsyncClient, override_settings

from mcphub.core.errors import HubError, InvalidInputError
from oauth import browsers, callbacks, flows, selectors
from oauth.models import AuthorizationRequest, Grant
from oauth.records.requests import Visitor
from tests import factories
from tests.fakes.auth_server import Answer
from tests.oauth.people import BROWSER, Desk, callback_of
from tests.world import World

ECHO = "sentinel-text-of-the-other-side"


async def refusal(desk: Desk, answer: dict[str, str], visitor: Visitor | None = None) -> HubError:
    with pytest.raises(HubError) as caught:
        await desk.complete(answer, visitor)
    return caught.value


@pytest.mark.parametrize("names_issuer", [True, False])
@pytest.mark.parametrize("kind", ["code", "error"])
@pytest.mark.parametrize("iss", ["https://other.example", "{issuer}/", "", None])
async def test_o01_answer_of_another_issuer_spends_no_code_and_is_not_echoed(
    desk: Desk, iss: str | None, kind: str, names_issuer: bool
) -> None:
    desk.server.rules.names_issuer = names_issuer
    state = parse_qs(urlsplit((await desk.begin()).authorization_url).query)["state"][0]
    answer = {"state": state, kind: ECHO}
    answer |= {} if iss is None else {"iss": iss.format(issuer=desk.server.issuer)}
    error = await refusal(desk, answer)
    is_mismatch = iss is not None or names_issuer
    expected = "issuer_mismatch" if is_mismatch else "authorization_refused"
    assert error.problem_code == expected
    assert len(desk.server.forms()) == (not is_mismatch and kind == "code")
    assert ECHO not in f"{error} {error.extra}"
    assert (await refusal(desk, answer)).problem_code == "authorization_state_invalid"


async def test_o01_right_issuer_is_accepted_from_a_server_that_did_not_announce_it(
    desk: Desk,
) -> None:
    desk.server.rules.names_issuer = False
    desk.server.rules.issuer_in_answer = desk.server.issuer
    assert (await desk.sign_in()).subject_key == desk.subject_key


async def test_o05_state_is_good_once(desk: Desk) -> None:
    answer = desk.server.sign_in((await desk.begin()).authorization_url)
    await desk.complete(answer)
    assert (await refusal(desk, answer)).problem_code == "authorization_state_invalid"
    assert len(desk.server.forms()) == 1


async def test_o05_two_callbacks_at_once_send_one_code(desk: Desk) -> None:
    answer = desk.server.sign_in((await desk.begin()).authorization_url)
    results = await asyncio.gather(
        *(desk.complete(answer) for _ in range(4)), return_exceptions=True
    )
    assert sorted(isinstance(result, Exception) for result in results) == [False, True, True, True]
    assert len(desk.server.forms()) == 1


async def test_o05_only_the_right_visitor_can_finish_and_others_change_nothing(
    desk: Desk, world: World
) -> None:
    """G06."""
    answer = desk.server.sign_in((await desk.begin()).authorization_url)
    alice, bob = world.alice.user.pk, world.bob.user.pk
    strangers = [
        Visitor(),
        Visitor(user_id=alice),
        Visitor(user_id=alice, browser_keys=("another browser",)),
        Visitor(user_id=bob, browser_keys=(BROWSER,)),
        Visitor(browser_keys=(BROWSER,)),
        Visitor(member_id=world.bob.member.pk, browser_keys=(BROWSER,)),
    ]
    for stranger in strangers:
        error = await refusal(desk, answer, stranger)
        assert error.problem_code == "authorization_state_invalid"
    assert await AuthorizationRequest.unscoped.acount() == 1
    assert desk.server.forms() == []
    await desk.complete(answer)


async def test_o05_state_of_another_connection_is_refused(desk: Desk) -> None:
    answer = desk.server.sign_in((await desk.begin()).authorization_url)
    elsewhere = replace(callback_of(answer), subject_key=uuid.uuid4())
    with pytest.raises(HubError):
        await flows.complete(desk.means, elsewhere, desk.visitor)
    here = replace(callback_of(answer), subject_key=desk.subject_key)
    await flows.complete(desk.means, here, desk.visitor)


async def test_o05_state_ends_after_ten_minutes(desk: Desk) -> None:
    answer = desk.server.sign_in((await desk.begin()).authorization_url)
    await desk.age_request()
    assert (await refusal(desk, answer)).problem_code == "authorization_state_invalid"


async def test_o05_member_who_was_switched_off_cannot_finish(desk: Desk) -> None:
    answer = desk.server.sign_in((await desk.begin()).authorization_url)
    desk.person.member.is_active = False
    await desk.person.member.asave(update_fields=["is_active"])
    assert (await refusal(desk, answer)).problem_code == "authorization_state_invalid"


async def test_o05_new_sign_in_ends_the_one_that_waits(desk: Desk) -> None:
    first = desk.server.sign_in((await desk.begin()).authorization_url)
    second = desk.server.sign_in((await desk.begin()).authorization_url)
    assert (await refusal(desk, first)).problem_code == "authorization_state_invalid"
    await desk.complete(second)


async def test_o05_end_user_of_an_app_needs_the_browser_that_began(
    desk: Desk, world: World
) -> None:
    member = await desk.means.database.run(factories.make_end_user, world.alice.tenant)
    principal = factories.principal_of(member)
    begun = await flows.begin(desk.means, principal, desk.start())
    answer = desk.server.sign_in(begun.authorization_url)
    await refusal(desk, answer, Visitor())
    await desk.complete(answer, Visitor(browser_keys=(BROWSER,)))


async def test_app_that_owns_its_redirect_finishes_with_its_own_credential(
    desk: Desk, world: World
) -> None:
    answer = desk.server.sign_in((await desk.begin(browser="")).authorization_url)
    await refusal(desk, answer, Visitor())
    await desk.complete(answer, Visitor(member_id=world.alice.member.pk))


async def test_refused_access_names_a_known_reason_only(desk: Desk) -> None:
    for error, reason in (("access_denied", "access_denied"), (ECHO, "other")):
        state = parse_qs(urlsplit((await desk.begin()).authorization_url).query)["state"][0]
        told = await refusal(desk, {"state": state, "error": error, "iss": desk.server.issuer})
        assert (told.problem_code, told.extra) == ("authorization_refused", {"reason": reason})


async def test_unreachable_token_endpoint_asks_to_start_again(desk: Desk) -> None:
    answer = desk.server.sign_in((await desk.begin()).authorization_url)
    desk.server.rules.token_answers = [Answer(503)]
    assert (await refusal(desk, answer)).problem_code == "auth_temporarily_unavailable"
    answer = desk.server.sign_in((await desk.begin()).authorization_url)
    desk.server.rules.token_answers = [Answer(is_dropped=True)]
    assert (await refusal(desk, answer)).problem_code == "auth_temporarily_unavailable"


@pytest.mark.parametrize(
    "url", ["https://evil.example/", "javascript:alert(1)", "//evil.example", "https://app.example@evil.example/"]
)  # fmt: skip
async def test_return_url_elsewhere_is_refused(desk: Desk, url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await desk.begin(return_url=url)
    assert [problem.path for problem in caught.value.problems] == ["/returnUrl"]
    assert desk.server.seen == []


async def test_return_url_of_a_listed_origin_is_kept(desk: Desk) -> None:
    tenant = desk.person.tenant
    tenant.allowed_origins = ["https://app.example"]
    await tenant.asave(update_fields=["allowed_origins"])
    completed = await desk.sign_in(return_url="https://app.example/done?x=1")
    assert completed.return_url == "https://app.example/done?x=1"


async def test_pending_sign_in_is_shown_to_its_member_only(desk: Desk, world: World) -> None:
    begun = await desk.begin()
    run = desk.means.database.run
    shown = await run(selectors.pending_for, world.alice.principal, desk.subject_key)
    assert shown is not None
    assert shown.authorization_url.value == begun.authorization_url
    for person in (world.bob, world.charlie):
        assert await run(selectors.pending_for, person.principal, desk.subject_key) is None


async def browser_of(desk: Desk, client: AsyncClient) -> str:
    """Log Alice in and return what binds her browser."""
    await client.aforce_login(desk.person.user)
    return str((await client.asession()).session_key)


async def test_callback_page_says_that_it_worked_and_keeps_the_code_to_itself(
    desk: Desk, async_client: AsyncClient
) -> None:
    browser = await browser_of(desk, async_client)
    answer = desk.server.sign_in((await desk.begin(browser=browser)).authorization_url)
    page = await async_client.get(f"/oauth/callback?{urlencode(answer)}")
    text = page.content.decode()
    assert (page.status_code, page.headers["Referrer-Policy"]) == (200, "no-referrer")
    assert "no-store" in page.headers["Cache-Control"]
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "You are signed in" in text
    assert "<script>" not in text
    assert not any(value in text for value in answer.values())
    assert await Grant.unscoped.acount() == 1


async def test_callback_of_a_connection_and_return_to_the_app(
    desk: Desk, async_client: AsyncClient
) -> None:
    browser = await browser_of(desk, async_client)
    back = "http://127.0.0.1:8000/servers/x?tab=1"
    begun = await desk.begin(browser=browser, return_url=back)
    answer = desk.server.sign_in(begun.authorization_url)
    page = await async_client.get(f"/oauth/mcp/{desk.subject_key}/callback?{urlencode(answer)}")
    assert (page.status_code, page.headers["Location"]) == (302, f"{back}&mcphub=connected")


async def test_refusal_returns_to_the_app(desk: Desk, async_client: AsyncClient) -> None:
    browser = await browser_of(desk, async_client)
    begun = await desk.begin(browser=browser, return_url="http://127.0.0.1:8000/")
    state = parse_qs(urlsplit(begun.authorization_url).query)["state"][0]
    answer = {"state": state, "error": "access_denied", "iss": desk.server.issuer}
    page = await async_client.get(f"/oauth/callback?{urlencode(answer)}")
    assert page.headers["Location"] == "http://127.0.0.1:8000/?mcphub=refused"


@pytest.mark.parametrize(
    "query",
    ["", "code=x", f"state={ECHO}&code={ECHO}", f"state={ECHO}&state=b", "state=" + "x" * 5000,
     f"state={ECHO}&error={ECHO}&error_description=<script>{ECHO}"],
)  # fmt: skip
async def test_broken_callback_shows_a_plain_page(
    desk: Desk, async_client: AsyncClient, query: str
) -> None:
    page = await async_client.get(f"/oauth/callback?{query}")
    assert page.status_code == 400
    assert "Signing in did not work" in page.content.decode()
    assert ECHO not in page.content.decode()


async def test_callback_is_for_get_only(desk: Desk, async_client: AsyncClient) -> None:
    assert (await async_client.post("/oauth/callback?state=x")).status_code == 405
    assert (await async_client.head("/oauth/callback?state=x")).status_code == 405


async def test_document_of_the_client_is_public(desk: Desk, async_client: AsyncClient) -> None:
    answer = await async_client.get("/oauth/client.json")
    assert answer.json()["client_id"] == "http://127.0.0.1:8000/oauth/client.json"
    assert answer.headers["Cache-Control"] == "public, max-age=3600"


def test_browser_is_bound_by_a_host_cookie_on_https() -> None:
    with override_settings(IS_HTTPS=True):
        response = HttpResponse()
        secret = browsers.bind(response)
    cookie = response.cookies["__Host-mcphub-oauth"]
    assert (cookie.value, cookie["secure"], cookie["httponly"], cookie["samesite"]) == (
        secret,
        True,
        True,
        "Lax",
    )
    assert (cookie["path"], cookie["domain"]) == ("/", "")


def test_callback_address_of_an_app_is_read_as_the_browsers_is() -> None:
    key = uuid.uuid4()
    read = callbacks.read_url("https://app.example/cb?state=s&code=c&iss=&x=1", subject_key=key)
    assert (read.state, read.code, read.iss, read.error, read.subject_key) == (
        "s",
        "c",
        "",
        "",
        key,
    )


@pytest.mark.parametrize(
    "url", ["", "https://[broken", "https://x/?state=a&state=b", "https://x/?" + "a=1&" * 60]
)
def test_callback_address_that_cannot_be_read_is_refused(url: str) -> None:
    with pytest.raises(HubError) as caught:
        callbacks.read_url(url, subject_key=uuid.uuid4())
    assert caught.value.problem_code == "authorization_state_invalid"
