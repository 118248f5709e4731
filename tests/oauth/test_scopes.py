"""Rows D of the failure log and O10: what is asked for, and where asking for more ends."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from oauth.challenge import BearerChallenge, Challenge, bearer, parse, split_scopes
from oauth.errors import InsufficientScopeError
from tests.fakes.auth_server import PRM, Answer
from tests.oauth.people import Desk


def asked_scope(url: str) -> str | None:
    return parse_qs(urlsplit(url).query).get("scope", [None])[0]


@pytest.mark.parametrize(
    ("supported", "asked"),
    [
        (None, "files:read"),
        (["files:read"], "files:read"),
        (["files:read", "offline_access"], "files:read offline_access"),
    ],
)
async def test_d01_offline_access_is_asked_for_only_where_it_is_offered(
    desk: Desk, supported: list[str] | None, asked: str
) -> None:
    desk.server.rules.scopes_supported = supported
    assert asked_scope((await desk.begin()).authorization_url) == asked


async def test_d03_refused_call_asks_for_the_union_and_works_after_consent(desk: Desk) -> None:
    desk.server.rules.step_up = {"write": "files:write"}
    await desk.sign_in()
    refused = await desk.call("write")
    header = refused.headers["www-authenticate"]
    begun = await desk.begin(challenge=header, operation="write")
    assert begun.scopes == ("files:read", "files:write")
    await desk.complete(desk.server.sign_in(begun.authorization_url))
    assert (await desk.call("write")).status_code == 200


async def test_d05_third_step_up_for_one_operation_is_the_last(desk: Desk) -> None:
    await desk.sign_in()
    for scope in ("a", "b", "a"):
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        begun = await desk.begin(challenge=challenge, operation="write")
        await desk.complete(desk.server.sign_in(begun.authorization_url))
    assert (await desk.grant()).scopes == ["files:read", "a", "b"]
    with pytest.raises(InsufficientScopeError) as caught:
        await desk.begin(
            challenge='Bearer error="insufficient_scope", scope="b"', operation="write"
        )
    assert caught.value.extra == {
        "neededScopes": ["b"],
        "grantedScopes": ["files:read", "a", "b"],
    }
    await desk.begin(challenge='Bearer error="insufficient_scope", scope="c"', operation="other")
    await desk.sign_in()
    await desk.begin(challenge='Bearer error="insufficient_scope", scope="b"', operation="write")


def test_d06_missing_scope_is_no_expiry() -> None:
    missing = bearer('Bearer error="insufficient_scope", scope="x:write"')
    expired = bearer('Bearer error="invalid_token"')
    assert (missing.wants_more_scopes, expired.wants_more_scopes) == (True, False)
    assert InsufficientScopeError().problem_code == "insufficient_scope"


async def test_d07_o10_catalogue_of_the_authorization_server_is_never_asked_for(
    desk: Desk,
) -> None:
    desk.server.rules.scopes_supported = [f"scope{n}" for n in range(40)]
    begun = await desk.begin(challenge="Bearer")
    assert asked_scope(begun.authorization_url) is None


def test_d08_text_in_a_description_asks_for_nothing() -> None:
    header = 'Bearer error_description="need scope=admin:all now", scope="read"'
    assert bearer(header).scopes == ("read",)


async def test_scopes_come_from_the_challenge_then_from_the_resource(desk: Desk) -> None:
    desk.server.documents[f"{PRM}/mcp"] = Answer(
        body={
            "resource": desk.server.mcp_url,
            "authorization_servers": [desk.server.issuer],
            "scopes_supported": ["one", "two", 3],
        }
    )
    assert asked_scope((await desk.begin()).authorization_url) == "files:read"
    assert asked_scope((await desk.begin(challenge="")).authorization_url) == "one two"


async def test_o10_operator_chooses_and_caps_scopes(desk: Desk) -> None:
    desk.options["scopes"] = ("a", "b")
    assert (await desk.begin()).scopes == ("a", "b")
    desk.options["scope_cap"] = frozenset({"b"})
    assert (await desk.begin()).scopes == ("b",)


async def test_extra_parameters_are_sent_and_replace_none_of_ours(desk: Desk) -> None:
    desk.options["extra_authorize_params"] = {"access_type": "offline", "state": "forged"}
    query = parse_qs(urlsplit((await desk.begin()).authorization_url).query)
    assert query["access_type"] == ["offline"]
    assert query["state"] != ["forged"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Bearer", [Challenge("bearer")]),
        ("", []),
        ('Basic realm="a, b", Bearer scope="x y"',
         [Challenge("basic", {"realm": "a, b"}), Challenge("bearer", {"scope": "x y"})]),
        ("Negotiate dG9r=, BEARER Scope=x",
         [Challenge("negotiate"), Challenge("bearer", {"scope": "x"})]),
        (r'Bearer realm="a \"quoted\" one", , error=e',
         [Challenge("bearer", {"realm": 'a "quoted" one', "error": "e"})]),
        ('Bearer scope = "x" , error="y"', [Challenge("bearer", {"scope": "x", "error": "y"})]),
        ('Bearer scope="first", scope="second"', [Challenge("bearer", {"scope": "first"})]),
        ('Bearer scope="unfinished', [Challenge("bearer")]),
        ('Bearer scope="x" trailing', [Challenge("bearer", {"scope": "x"})]),
        ("Bearer, Basic", [Challenge("bearer"), Challenge("basic")]),
        ("=nonsense", []),
        (", ,Bearer error=x", [Challenge("bearer", {"error": "x"})]),
    ],
)  # fmt: skip
def test_challenges_are_read_by_the_grammar(text: str, expected: list[Challenge]) -> None:
    found = parse([text])
    assert [c.params for c in found if c.params] == [c.params for c in expected if c.params]
    assert [c.scheme for c in found][: len(expected)] == [c.scheme for c in expected]


def test_first_bearer_challenge_that_says_something_counts() -> None:
    header = 'Bearer, DPoP algs="ES256", Bearer error="x", resource_metadata="https://a/b"'
    assert bearer(header) == BearerChallenge(error="x", resource_metadata="https://a/b")
    assert bearer("Bearer", 'Bearer scope="a b"').scopes == ("a", "b")


def test_hostile_challenge_is_read_in_bounded_time() -> None:
    for text in ('Bearer a="' + "\\" * 100_000, "Bearer " + "a=" * 50_000, "Bearer" * 50_000):
        assert len(parse([text])) < 20_000


def test_scope_lists_hold_scope_tokens_once() -> None:
    assert split_scopes('a  b a "x" c\\d é') == ("a", "b")
