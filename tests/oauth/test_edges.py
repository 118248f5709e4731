"""Inputs and moments that no table names: each ends in a named refusal, or in the winner's row."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

from mcphub.core.crypto import Secret
from mcphub.core.errors import HubError
from oauth import addresses, bearer, clients, flows, return_urls, tokens
from oauth.challenge import bearer as read_challenge
from oauth.clients import Client
from oauth.discovery import discover
from oauth.errors import AuthTemporarilyUnavailableError, GrantLostError
from oauth.means import MOST_REQUESTS, Errand
from oauth.models import Grant, Source
from oauth.names import ClientAuthMethod, GrantType, LostReason
from oauth.records import grants, registrations
from oauth.records.grants import NewGrant
from oauth.records.registrations import NewClient, Place
from oauth.tokens import TokenAnswer
from tests.fakes.auth_server import PRM, Answer
from tests.oauth.people import Desk

ASM = "/.well-known/oauth-authorization-server"
ANSWER = TokenAnswer(access_token=Secret("at"), refresh_token=Secret("rt"), expires_in=60.0)


async def code_of(desk: Desk, challenge: str | None = None) -> str:
    text = desk.server.challenge if challenge is None else challenge
    with pytest.raises(HubError) as caught:
        await discover(Errand(desk.means.http), desk.auth, read_challenge(text))
    return caught.value.problem_code


@pytest.mark.parametrize(
    "document",
    [
        {"authorization_servers": ["https://as.example"]},
        {"resource": "{mcp}"},
        {"resource": "{mcp}", "authorization_servers": ["ftp://as.example", 3]},
        {"resource": "{base}/other", "authorization_servers": ["{base}/as"]},
        {"resource": "http://127.0.0.1:1/mcp", "authorization_servers": ["{base}/as"]},
        {"resource": "http://[broken/mcp", "authorization_servers": ["{base}/as"]},
    ],
)
async def test_resource_metadata_that_cannot_be_used_is_named(
    desk: Desk, document: dict[str, Any]
) -> None:
    text = json.dumps(document)
    for name, value in (("{mcp}", desk.server.mcp_url), ("{base}", desk.server.base)):
        text = text.replace(name, value)
    answer = Answer(body=text.encode())
    desk.server.documents |= {PRM: answer, f"{PRM}/mcp": answer}
    assert await code_of(desk) == "prm_invalid"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"token_endpoint": None}, "as_metadata_invalid"),
        ({"token_endpoint": "ftp://x"}, "as_metadata_invalid"),
        ({"registration_endpoint": "data:x"}, "as_metadata_invalid"),
        ({"authorization_endpoint": None}, "bad_authorization_endpoint"),
        ({"token_endpoint": "http://as.example/token"}, "insecure_oauth_url"),
    ],
)
async def test_server_metadata_that_cannot_be_used_is_named(
    desk: Desk, change: dict[str, Any], code: str
) -> None:
    desk.server.documents[f"{ASM}/as"] = Answer(body={**desk.server.server_metadata(), **change})
    assert await code_of(desk) == code


async def test_unusable_revocation_address_is_left_out(desk: Desk) -> None:
    change = {"revocation_endpoint": "javascript:x", "userinfo_endpoint": 7}
    desk.server.documents[f"{ASM}/as"] = Answer(body={**desk.server.server_metadata(), **change})
    found = await discover(Errand(desk.means.http), desk.auth, read_challenge(""))
    assert (found.server.revocation_endpoint, found.server.userinfo_endpoint) == ("", "")


async def test_address_in_a_challenge_that_is_none_leads_on_to_the_next(desk: Desk) -> None:
    header = 'Bearer resource_metadata="javascript:alert(1)"'
    found = await discover(Errand(desk.means.http), desk.auth, read_challenge(header))
    assert found.resource == desk.server.mcp_url


async def test_authorization_server_without_metadata_is_named(desk: Desk) -> None:
    desk.server.documents[f"{ASM}/as"] = Answer(404)
    assert await code_of(desk) == "no_oauth_metadata"
    desk.options["issuer"] = "not an address"
    assert await code_of(desk) == "prm_invalid"


async def test_unreachable_metadata_is_a_failure_of_the_network(desk: Desk) -> None:
    header = 'Bearer resource_metadata="http://127.0.0.1:9/prm"'
    assert await code_of(desk, header) == "upstream_unreachable"


@pytest.mark.parametrize(
    ("issuer", "code"), [("{base}", ""), ("{base}/", ""), ("{base}/x", "issuer_mismatch")]
)
async def test_legacy_metadata_names_the_origin_or_is_refused(
    desk: Desk, issuer: str, code: str
) -> None:
    desk.server.documents |= {PRM: Answer(404), f"{PRM}/mcp": Answer(404)}
    named = issuer.format(base=desk.server.base)
    desk.server.documents[ASM] = Answer(body={**desk.server.server_metadata(), "issuer": named})
    desk.options["allow_legacy_2025_03_26"] = True
    errand = Errand(desk.means.http)
    results = await asyncio.gather(
        discover(errand, desk.auth, read_challenge("")), return_exceptions=True
    )
    assert [getattr(result, "problem_code", "") for result in results] == [code]


async def test_ninth_request_of_a_flow_is_not_made(desk: Desk) -> None:
    errand = Errand(desk.means.http)
    for _ in range(MOST_REQUESTS):
        await errand.get(desk.server.base)
    with pytest.raises(AuthTemporarilyUnavailableError):
        await errand.get(desk.server.base)
    assert len(desk.server.seen) == MOST_REQUESTS


async def test_machine_without_a_client_or_with_a_wrong_secret_is_refused(desk: Desk) -> None:
    desk.options["grant_type"] = GrantType.CLIENT_CREDENTIALS
    principal = desk.person.principal
    for options, code in (
        ({}, "registration_unusable"),
        ({"client_id": "x", "client_secret": Secret("wrong")}, "authorization_refused"),
    ):
        desk.options |= options
        with pytest.raises(HubError) as caught:
            await flows.client_credentials(desk.means, principal, desk.start())
        assert caught.value.problem_code == code


@pytest.mark.parametrize(
    ("methods", "secret", "field"),
    [
        (["client_secret_post"], Secret("s"), "client_secret"),
        (None, None, "client_id"),
    ],
)
async def test_operators_client_proves_itself_as_the_server_supports(
    desk: Desk, methods: list[str] | None, secret: Secret | None, field: str
) -> None:
    desk.server.clients["preset"] = {"client_secret": secret.value} if secret else {}
    document = desk.server.server_metadata()
    document["token_endpoint_auth_methods_supported"] = methods
    desk.server.documents[f"{ASM}/as"] = Answer(body=document)
    desk.options |= {"client_id": "preset", "client_secret": secret}
    await desk.sign_in()
    assert field in desk.server.forms()[0]


async def test_operators_client_without_its_secret_is_named(desk: Desk) -> None:
    desk.options |= {
        "client_id": "preset",
        "token_endpoint_auth_method": ClientAuthMethod.BASIC,
    }
    with pytest.raises(HubError) as caught:
        await desk.begin()
    assert caught.value.problem_code == "registration_unusable"


def client(method: ClientAuthMethod, secret: str | None) -> Client:
    return Client(
        registration_id=uuid.uuid4(),
        issuer="https://as.example",
        client_id="c",
        auth_method=method,
        secret=Secret(secret) if secret else None,
    )


def test_form_with_a_proof_hides_it() -> None:
    signed = clients.sign(client(ClientAuthMethod.POST, "hush"), {"a": "b"})
    assert (b"hush" in signed.content, "hush" in repr(signed)) == (True, False)
    with pytest.raises(HubError):
        clients.sign(client(ClientAuthMethod.BASIC, None), {})


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (OKPKey.generate_key("Ed25519"), "Ed25519"),
        (ECKey.generate_key("P-384"), "ES384"),
        (RSAKey.generate_key(2048, parameters={"alg": "PS256", "kid": "k1"}), "PS256"),
    ],
)
def test_key_says_how_it_signs(key: OKPKey | ECKey | RSAKey, algorithm: str) -> None:
    text = json.dumps(key.as_dict(private=True))
    signed = clients.sign(client(ClientAuthMethod.PRIVATE_KEY_JWT, text), {})
    assertion = parse_qs(signed.content.decode())["client_assertion"][0]
    token = jwt.decode(assertion, key, algorithms=[algorithm])
    assert (token.header["alg"], token.header.get("kid")) == (algorithm, key.kid)
    assert token.claims["aud"] == "https://as.example"


def new_grant(desk: Desk, registration_id: uuid.UUID) -> NewGrant:
    return NewGrant(
        tenant_id=desk.person.tenant.pk,
        member_id=desk.person.member.pk,
        subject_key=desk.subject_key,
        kind=GrantType.AUTHORIZATION_CODE,
        registration_id=registration_id,
        server_url=desk.server.mcp_url,
        issuer=desk.server.issuer,
        token_endpoint=f"{desk.server.issuer}/token",
        revocation_endpoint="",
        resource="",
        scopes=(),
    )


async def test_sign_ins_that_end_at_the_same_time_leave_one_grant(desk: Desk) -> None:
    await desk.begin()
    [row] = await desk.registrations()
    new = new_grant(desk, row.pk)
    await asyncio.gather(*(desk.means.database.run(grants.put, new, ANSWER) for _ in range(4)))
    assert (await desk.grant()).version == 4


async def test_registrations_at_the_same_time_leave_one_client(desk: Desk) -> None:
    place = Place(tenant_id=desk.person.tenant.pk, issuer="https://as.example", redirect_uri="x")
    new = NewClient(source=Source.DCR, client_id="c", auth_method=ClientAuthMethod.NONE)
    made = await asyncio.gather(
        *(
            desk.means.database.run(registrations.keep, place, replace(new, client_id=f"c{n}"))
            for n in range(4)
        )
    )
    assert len({each.client_id for each in made}) == 1


async def test_loss_that_comes_too_late_asks_to_try_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.server.rules.gives_refresh = False
    await desk.sign_in()
    lose = grants.lose

    def overtaken(seen: grants.Snapshot, reason: LostReason) -> bool:
        Grant.unscoped.filter(pk=seen.id).update(version=seen.version + 1)
        return lose(seen, reason)

    monkeypatch.setattr(grants, "lose", overtaken)
    token = await desk.token()
    with pytest.raises(AuthTemporarilyUnavailableError):
        await desk.token(rejected=token)
    monkeypatch.undo()
    with pytest.raises(GrantLostError):
        await desk.token(rejected=token)


async def test_token_that_ends_soon_and_cannot_be_renewed_is_used_to_its_end(desk: Desk) -> None:
    desk.server.rules.gives_refresh = False
    await desk.sign_in()
    await desk.age(timedelta(seconds=3590))
    assert (await desk.call()).status_code == 200


async def test_remembered_tokens_are_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.sign_in()
    monkeypatch.setattr(bearer, "MOST_KEPT", 0)
    assert [len(await desk.token()) > 0 for _ in range(2)] == [True, True]


async def test_refresh_of_a_lost_grant_says_why(desk: Desk) -> None:
    await desk.sign_in()
    await Grant.unscoped.aupdate(status="lost", lost_reason="expired")
    with pytest.raises(GrantLostError) as caught:
        await flows.refresh(desk.means, desk.subject_key)
    assert caught.value.reason is LostReason.EXPIRED


async def test_client_that_is_forgotten_at_the_sign_in_page_registers_anew(desk: Desk) -> None:
    begun = await desk.begin()
    state = begun.authorization_url.partition("state=")[2].partition("&")[0]
    with pytest.raises(HubError):
        await desk.complete(
            {"state": state, "error": "unauthorized_client", "iss": desk.server.issuer}
        )
    await desk.begin()
    assert desk.server.hits["POST /as/register"] == 2


async def test_limited_credential_returns_to_its_own_origins(desk: Desk) -> None:
    principal = replace(desk.person.principal, allowed_origins=frozenset({"https://app.example"}))
    run = desk.means.database.run
    await run(return_urls.check, principal, "https://app.example/x")
    with pytest.raises(HubError):
        await run(return_urls.check, principal, "https://other.example/x")


def test_origin_is_spelled_as_a_browser_does() -> None:
    spelled = [
        addresses.origin_text(url)
        for url in ("https://X.example:443/a", "http://[::1]:80/", "https://x:8443", "ftp://x", "")
    ]
    assert spelled == ["https://x.example", "http://[::1]", "https://x:8443", "", ""]
    assert flows.authorization_host("https://as.example/a?b=c") == "https://as.example"


def test_id_token_with_broken_base64_names_nobody() -> None:
    assert tokens.identity_of(Secret("a.é.c"), issuer="i", client_id="c") == ""
