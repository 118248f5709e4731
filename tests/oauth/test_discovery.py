"""Rows A of the failure log: where to sign in, found by the specification or refused by name."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest

from mcphub.core.crypto import Secret
from mcphub.core.errors import HubError
from oauth import addresses
from oauth.challenge import bearer
from oauth.discovery import Discovered, discover
from oauth.means import Errand
from oauth.server_auth import ServerAuth
from tests.fakes.auth_server import PRM, Answer
from tests.oauth.people import Desk

HTML = Answer(body=b"<html>hello</html>", headers={"Content-Type": "text/html"})


async def found(desk: Desk, challenge: str | None = None) -> Discovered:
    errand = Errand(desk.means.http)
    text = desk.server.challenge if challenge is None else challenge
    return await discover(errand, desk.auth, bearer(text))


async def refusal(desk: Desk, challenge: str | None = None) -> HubError:
    with pytest.raises(HubError) as caught:
        await found(desk, challenge)
    return caught.value


def prm(desk: Desk, **more: object) -> Answer:
    document = {"resource": desk.server.mcp_url, "authorization_servers": [desk.server.issuer]}
    return Answer(body={**document, **more})


def asm(desk: Desk, **more: object) -> Answer:
    return Answer(body={**desk.server.server_metadata(), **more})


async def test_a01_resource_without_a_path_is_sent_byte_for_byte(desk: Desk) -> None:
    desk.server.rules.resource = desk.server.base
    await desk.sign_in()
    await desk.expire()
    await desk.call()
    begun = next(s for s in desk.server.seen if s.path.endswith("/authorize"))
    sent = [begun.query["resource"], *(form["resource"] for form in desk.server.forms())]
    assert sent == [desk.server.base] * 3


@pytest.mark.parametrize(("configured", "named"), [("/mcp/", "/mcp"), ("/mcp", "/mcp/")])
async def test_a02_one_trailing_slash_is_the_same_resource(
    desk: Desk, configured: str, named: str
) -> None:
    desk.options["server_url"] = desk.server.base + configured
    desk.server.documents[f"{PRM}/mcp"] = prm(desk, resource=desk.server.base + named)
    assert (await found(desk)).resource == desk.server.base + named


async def test_a03_issuer_with_another_slash_is_refused_naming_both(desk: Desk) -> None:
    desk.server.documents[f"{PRM}/mcp"] = prm(
        desk, authorization_servers=[desk.server.issuer + "/"]
    )
    error = await refusal(desk)
    assert (error.problem_code, error.extra) == (
        "issuer_mismatch",
        {"expectedIssuer": desk.server.issuer + "/", "foundIssuer": desk.server.issuer},
    )


async def test_a03_pinned_issuer_makes_such_a_provider_usable(desk: Desk) -> None:
    desk.server.documents[f"{PRM}/mcp"] = prm(
        desk, authorization_servers=[desk.server.issuer + "/"]
    )
    desk.options["issuer"] = desk.server.issuer
    assert (await found(desk)).server.issuer == desk.server.issuer


async def test_a04_origin_as_resource_is_accepted_and_sent(desk: Desk) -> None:
    desk.server.documents[f"{PRM}/mcp"] = prm(desk, resource=desk.server.base)
    assert (await found(desk)).resource == desk.server.base


async def test_a05_only_the_metadata_of_the_challenge_is_used(desk: Desk) -> None:
    desk.server.documents[PRM] = prm(desk, resource=f"{desk.server.base}/other")
    assert (await found(desk)).resource == desk.server.mcp_url
    assert desk.server.hits[f"GET {PRM}"] == 0


async def test_a07_issuer_without_a_path_is_asked_at_the_root(desk: Desk) -> None:
    desk.server.rules.issuer_path = ""
    assert (await found(desk)).server.issuer == desk.server.base


async def test_a08_path_of_the_issuer_is_inserted_first(desk: Desk) -> None:
    desk.server.rules.issuer_path = "/tenant1"
    assert (await found(desk)).server.issuer == f"{desk.server.base}/tenant1"
    assert desk.server.hits["GET /.well-known/oauth-authorization-server/tenant1"] == 1


async def test_a09_root_document_is_never_used_for_a_path_issuer(desk: Desk) -> None:
    root = "/.well-known/oauth-authorization-server"
    desk.server.documents[root] = asm(desk, issuer=desk.server.base)
    assert (await found(desk)).server.registration_endpoint == f"{desk.server.issuer}/register"
    assert desk.server.hits[f"GET {root}"] == 0


async def test_a10_third_candidate_is_reached_in_spec_order(desk: Desk) -> None:
    first = "/.well-known/oauth-authorization-server/as"
    second, third = "/.well-known/openid-configuration/as", "/as/.well-known/openid-configuration"
    desk.server.documents |= {first: Answer(404), third: asm(desk)}
    await found(desk)
    asked = [seen.path for seen in desk.server.seen if "oauth-protected" not in seen.path]
    assert asked == [first, second, third]


@pytest.mark.parametrize("issuer", ["{issuer}/extra", "http://honest.example"])
async def test_a12_a13_o02_another_issuer_in_the_metadata_is_refused(
    desk: Desk, issuer: str
) -> None:
    place = "/.well-known/oauth-authorization-server/as"
    desk.server.documents[place] = asm(desk, issuer=issuer.format(issuer=desk.server.issuer))
    assert (await refusal(desk)).problem_code == "issuer_mismatch"


async def test_a13_pinned_issuer_of_another_host_is_accepted_when_it_says_so(desk: Desk) -> None:
    pinned = desk.server.base.replace("127.0.0.1", "localhost") + "/pinned"
    place = "/.well-known/oauth-authorization-server/as"
    desk.server.documents[place] = asm(desk, issuer=pinned)
    desk.options["issuer"] = pinned
    assert (await found(desk)).server.issuer == pinned


@pytest.mark.parametrize("missing", [(), (f"{PRM}/mcp",)])
async def test_a14_without_a_challenge_the_well_known_places_are_asked(
    desk: Desk, missing: tuple[str, ...]
) -> None:
    desk.server.documents |= {path: Answer(404) for path in missing}
    assert (await found(desk, "")).server.issuer == desk.server.issuer


async def test_a15_no_metadata_is_said_and_nothing_is_posted(desk: Desk) -> None:
    desk.server.documents |= {PRM: Answer(404), f"{PRM}/mcp": Answer(404)}
    assert (await refusal(desk, "")).problem_code == "no_oauth_metadata"
    assert [seen for seen in desk.server.seen if seen.method == "POST"] == []


async def test_a15_rules_of_2025_03_26_are_used_only_where_allowed(desk: Desk) -> None:
    desk.server.documents |= {PRM: Answer(404), f"{PRM}/mcp": Answer(404)}
    desk.options["allow_legacy_2025_03_26"] = True
    server = (await found(desk, "")).server
    assert (server.authorization_endpoint, server.registration_endpoint) == (
        f"{desk.server.base}/authorize",
        f"{desk.server.base}/register",
    )


@pytest.mark.parametrize(
    "document",
    [
        {"resource": "http://mcp.example/mcp", "authorization_servers": ["https://as.example"]},
        {"resource": "https://mcp.example/mcp", "authorization_servers": ["http://as.example"]},
    ],
)
async def test_a16_http_beyond_loopback_is_refused(desk: Desk, document: dict[str, str]) -> None:
    desk.server.documents[f"{PRM}/mcp"] = Answer(body=document)
    assert (await refusal(desk)).problem_code == "insecure_oauth_url"


def test_a20_parent_path_covers_by_segments_only() -> None:
    server = "https://x.example/mcp/oauth"
    assert [
        addresses.covers(f"https://x.example{path}", server)
        for path in ("/mcp", "/mcp/", "", "/mcp/oauth", "/mc", "/mcp/o", "/mcp/oauth/more")
    ] == [True, True, True, True, False, False, False]


@pytest.mark.parametrize(
    "bad",
    [HTML, Answer(body=b""), Answer(body=[]), Answer(body=b"{" * 200_000), Answer(body=3)],
    ids=["html", "empty", "array", "nested", "number"],
)
async def test_a22_unusable_metadata_leads_on_to_the_next_place(desk: Desk, bad: Answer) -> None:
    desk.server.documents[f"{PRM}/mcp"] = bad
    assert (await found(desk)).resource == desk.server.mcp_url


@pytest.mark.parametrize(
    ("bad", "code"),
    [(HTML, "prm_invalid"), (Answer(body=b"[" + b"1," * 3_000_000), "no_oauth_metadata")],
    ids=["html", "5 MB"],
)
async def test_a22_unusable_metadata_everywhere_is_named(
    desk: Desk, bad: Answer, code: str
) -> None:
    desk.server.documents |= {PRM: bad, f"{PRM}/mcp": bad}
    assert (await refusal(desk)).problem_code == code


async def test_a22_unusable_metadata_of_the_authorization_server_is_named(desk: Desk) -> None:
    desk.server.documents["/.well-known/oauth-authorization-server/as"] = HTML
    assert (await refusal(desk)).problem_code == "as_metadata_invalid"


async def test_metadata_that_cannot_be_read_now_is_no_verdict(desk: Desk) -> None:
    desk.server.documents[f"{PRM}/mcp"] = Answer(503)
    error = await refusal(desk)
    assert (error.problem_code, error.retryable) == ("auth_temporarily_unavailable", True)


@pytest.mark.parametrize("methods", [None, ["plain"]])
async def test_o04_without_s256_nobody_is_sent_anywhere(desk: Desk, methods: object) -> None:
    place = "/.well-known/oauth-authorization-server/as"
    desk.server.documents[place] = asm(desk, code_challenge_methods_supported=methods)
    with pytest.raises(HubError) as caught:
        await desk.begin()
    assert caught.value.problem_code == "pkce_unsupported"
    desk.options["is_pkce_assumed"] = True
    assert "code_challenge_method=S256" in (await desk.begin()).authorization_url


@pytest.mark.parametrize(
    "endpoint",
    [
        "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "https://x/$(calc)",
        "https://a b/", "--flag", "https://x/\r\nSet-Cookie: a=b", "https:///path", "", 7,
        "https://user@x/", 'https://x/"onload', "https://x/#fragment",
    ],
)  # fmt: skip
async def test_o06_unusable_sign_in_address_is_refused(desk: Desk, endpoint: object) -> None:
    place = "/.well-known/oauth-authorization-server/as"
    desk.server.documents[place] = asm(desk, authorization_endpoint=endpoint)
    assert (await refusal(desk)).problem_code == "bad_authorization_endpoint"


async def test_o06_query_of_the_sign_in_address_is_kept(desk: Desk) -> None:
    place = "/.well-known/oauth-authorization-server/as"
    desk.server.documents[place] = asm(
        desk, authorization_endpoint=f"{desk.server.issuer}/authorize?tenant=1"
    )
    url = (await desk.begin()).authorization_url
    assert (url.count("?"), parse_qs(urlsplit(url).query)["tenant"]) == (1, ["1"])


async def test_s03_metadata_at_a_blocked_address_is_not_fetched(desk: Desk) -> None:
    error = await refusal(desk, 'Bearer resource_metadata="https://169.254.169.254/x"')
    assert error.problem_code == "blocked_url"


async def test_chain_of_documents_ends_at_eight_requests(desk: Desk) -> None:
    desk.options["issuer"] = f"{desk.server.base}/pinned"
    await refusal(desk, f'Bearer resource_metadata="{desk.server.base}/elsewhere"')
    assert len(desk.server.seen) <= 8


@pytest.mark.parametrize(
    ("resource", "sent"), [("omit", ""), ("api://literal", "api://literal"), ("auto", "{mcp}")]
)
async def test_o07_operator_chooses_the_resource_parameter(
    desk: Desk, resource: str, sent: str
) -> None:
    desk.options["resource"] = resource
    assert (await found(desk)).resource == sent.format(mcp=desk.server.mcp_url)


def test_canonical_resource_has_no_query_and_no_bare_slash() -> None:
    assert [
        addresses.canonical(url)
        for url in ("https://x.example/", "https://x.example/mcp?a=1#b", "https://x.example/mcp/")
    ] == ["https://x.example", "https://x.example/mcp", "https://x.example/mcp/"]


def test_settings_of_a_server_show_no_secret() -> None:
    auth = replace(ServerAuth(server_url="https://x.example"), client_secret=Secret("hush"))
    assert "hush" not in repr(auth)
