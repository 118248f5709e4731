"""Rows B of the failure log: who the hub is at an issuer, and how it proves it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from django.test import override_settings
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from mcphub.core.crypto import Secret
from mcphub.core.errors import HubError
from oauth import flows, registration
from oauth.errors import GrantLostError
from oauth.models import ClientRegistration, Source
from oauth.names import ClientAuthMethod, GrantType, LostReason
from oauth.records import registrations
from tests.fakes.auth_server import PRM, Answer, AuthServer
from tests.oauth.people import Desk

ASM = "/.well-known/oauth-authorization-server/as"


def say(server: AuthServer, **more: object) -> None:
    server.documents[ASM] = Answer(body={**server.server_metadata(), **more})


def last_token_request(server: AuthServer) -> tuple[str, dict[str, str]]:
    seen = [seen for seen in server.seen if seen.path.endswith("/token")][-1]
    return seen.headers.get("authorization", ""), seen.form


@pytest.mark.parametrize("expiry", [{}, {"client_secret_expires_at": None},
                                    {"client_secret_expires_at": "0"},
                                    {"client_secret_expires_at": 0.0}])  # fmt: skip
async def test_b01_secret_without_an_end_never_ends(desk: Desk, expiry: dict[str, Any]) -> None:
    method = {"token_endpoint_auth_method": "client_secret_post"}
    desk.server.rules.registration = {"client_secret": "s3", **method, **expiry}
    await desk.sign_in()
    assert [row.secret_expires_at for row in await desk.registrations()] == [None]


async def test_b01_secret_that_ends_is_replaced_by_a_new_registration(desk: Desk) -> None:
    method = {"token_endpoint_auth_method": "client_secret_post"}
    ends = {"client_secret_expires_at": time.time() + 3600}
    desk.server.rules.registration = {"client_secret": "s3", **method, **ends}
    await desk.sign_in()
    await ClientRegistration.unscoped.aupdate(secret_expires_at=(await desk.grant()).issued_at)
    await desk.sign_in()
    assert desk.server.hits["POST /as/register"] == 2


async def test_b02_answer_of_the_registration_governs(desk: Desk) -> None:
    desk.server.rules.registration = {
        "client_secret": "s3cret",
        "token_endpoint_auth_method": "client_secret_post",
    }
    await desk.sign_in()
    header, form = last_token_request(desk.server)
    assert (header, form["client_secret"]) == ("", "s3cret")


async def test_b03_basic_is_registered_and_form_encoded(desk: Desk) -> None:
    say(desk.server, token_endpoint_auth_methods_supported=["client_secret_basic"])
    desk.server.rules.registration = {"client_id": "a b:c", "client_secret": "p+%/:"}
    await desk.sign_in()
    header, form = last_token_request(desk.server)
    assert base64.b64decode(header.removeprefix("Basic ")) == b"a%20b%3Ac:p%2B%25%2F%3A"
    assert "client_secret" not in form
    asked = json.loads(next(s.body for s in desk.server.seen if s.path == "/as/register"))
    assert asked["token_endpoint_auth_method"] == "client_secret_basic"


async def test_b05_post_is_registered_when_basic_is_not_offered(desk: Desk) -> None:
    methods = ["client_secret_post", "private_key_jwt"]
    say(desk.server, token_endpoint_auth_methods_supported=methods)
    desk.server.rules.registration = {"client_secret": "s3cret"}
    await desk.sign_in()
    assert last_token_request(desk.server)[1]["client_secret"] == "s3cret"


async def test_b05_only_private_keys_cannot_be_registered(desk: Desk) -> None:
    say(desk.server, token_endpoint_auth_methods_supported=["private_key_jwt"])
    with pytest.raises(HubError) as caught:
        await desk.begin()
    assert caught.value.problem_code == "registration_unusable"


async def test_b06_sign_in_after_an_abandoned_one_registers_anew_once(desk: Desk) -> None:
    desk.server.rules.authorize_answer = Answer(422, {"error": "unknown client"})
    for _ in range(2):
        await desk.begin()
    assert desk.server.hits["POST /as/register"] == 1
    await desk.age_request()
    for _ in range(2):
        await desk.begin()
    assert desk.server.hits["POST /as/register"] == 2


async def test_b06_registration_that_worked_since_is_kept(desk: Desk) -> None:
    await desk.begin()
    await desk.age_request()
    colleague = Desk(server=desk.server, means=desk.means, person=desk.person)
    await colleague.sign_in()
    await desk.begin()
    assert desk.server.hits["POST /as/register"] == 1


@pytest.mark.parametrize("status", [401, 400], ids=["b07", "b10"])
async def test_b07_b10_forgotten_client_registers_anew_and_asks_again(
    desk: Desk, status: int
) -> None:
    begun = await desk.begin()
    answer = desk.server.sign_in(begun.authorization_url)
    desk.server.rules.token_answers = [Answer(status, {"error": "invalid_client"})]
    with pytest.raises(HubError) as caught:
        await desk.complete(answer)
    assert (caught.value.problem_code, caught.value.extra) == (
        "authorization_refused",
        {"reason": "invalid_client"},
    )
    await desk.sign_in()
    assert desk.server.hits["POST /as/register"] == 2


async def test_b07_client_forgotten_at_refresh_ends_the_grant_with_that_reason(desk: Desk) -> None:
    await desk.sign_in()
    await desk.expire()
    desk.server.clients.clear()
    with pytest.raises(GrantLostError) as caught:
        await desk.call()
    assert caught.value.reason is LostReason.CLIENT_FORGOTTEN
    await desk.sign_in()
    assert (await desk.call()).status_code == 200
    assert desk.server.hits["POST /as/register"] == 2


async def test_b07_client_of_the_operator_is_never_dropped(desk: Desk) -> None:
    desk.server.clients["preset"] = {"client_secret": "right"}
    desk.options |= {"client_id": "preset", "client_secret": Secret("right")}
    await desk.sign_in()
    await desk.expire()
    desk.server.clients["preset"]["client_secret"] = "changed"
    with pytest.raises(HubError) as caught:
        await desk.call()
    grant = await desk.grant()
    assert caught.value.problem_code == "auth_temporarily_unavailable"
    assert (grant.status, grant.last_failure) == ("active", "invalid_client")
    assert [row.dropped_at for row in await desk.registrations()] == [None]


async def test_b07_new_secret_of_the_operator_is_taken_over(desk: Desk) -> None:
    desk.server.clients["preset"] = {"client_secret": "old"}
    desk.options |= {"client_id": "preset", "client_secret": Secret("old")}
    await desk.sign_in()
    desk.server.clients["preset"]["client_secret"] = "new"
    desk.options["client_secret"] = Secret("new")
    await desk.sign_in()
    assert len(await desk.registrations()) == 1


async def test_b11_basic_without_a_secret_is_refused_at_once(desk: Desk) -> None:
    desk.server.rules.registration = {"token_endpoint_auth_method": "client_secret_basic"}
    with pytest.raises(HubError) as caught:
        await desk.begin()
    assert caught.value.problem_code == "registration_unusable"
    assert await desk.registrations() == []


async def test_b12_registration_without_a_sign_in_is_used_by_the_next(desk: Desk) -> None:
    await desk.begin()
    await desk.sign_in()
    assert desk.server.hits["POST /as/register"] == 1


async def test_b13_o03_another_issuer_gets_nothing_of_the_first(desk: Desk) -> None:
    desk.server.rules.registration = {
        "client_secret": "secret-of-a",
        "token_endpoint_auth_method": "client_secret_post",
    }
    await desk.sign_in()
    kept = await desk.kept_refresh_token()
    with AuthServer() as other:
        desk.server.documents[f"{PRM}/mcp"] = Answer(
            body={"resource": desk.server.mcp_url, "authorization_servers": [other.issuer]}
        )
        other.rules.resource = desk.server.mcp_url
        await desk.begin()
        sent = b"".join(seen.body for seen in other.seen)
        assert other.hits["POST /as/register"] == 1
        assert b"secret-of-a" not in sent
        assert str(kept).encode() not in sent
        await desk.expire()
        await desk.token()
        assert other.forms() == []
    assert len(desk.server.forms("refresh_token")) == 1


async def test_o03_client_of_the_operator_is_not_taken_to_another_issuer(desk: Desk) -> None:
    desk.server.clients["preset"] = {"client_secret": "right"}
    desk.options |= {"client_id": "preset", "client_secret": Secret("right")}
    await desk.sign_in()
    with AuthServer() as other:
        desk.server.documents[f"{PRM}/mcp"] = Answer(
            body={"resource": desk.server.mcp_url, "authorization_servers": [other.issuer]}
        )
        with pytest.raises(HubError) as caught:
            await desk.begin()
        assert caught.value.problem_code == "issuer_mismatch"
        assert [seen for seen in other.seen if seen.method == "POST"] == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(201, b'{"client_id": "' + b"x" * 5_000_000 + b'"}'),
        Answer(201, {"client_id": "a\r\nX-Evil: 1"}),
        Answer(201, {"client_id": 7}),
        Answer(201, {"client_id": "x", "client_secret": "a\nb"}),
        Answer(201, {"client_id": "x", "token_endpoint_auth_method": "tls_client_auth"}),
        Answer(201, b"<html>"),
        Answer(403, {"error": "invalid_redirect_uri"}),
    ],
    ids=["5 MB", "CRLF", "number", "newline", "method", "html", "refused"],
)
async def test_o11_unusable_registration_is_refused(desk: Desk, answer: Answer) -> None:
    desk.server.rules.registration = answer
    with pytest.raises(HubError) as caught:
        await desk.begin()
    assert caught.value.problem_code in {"registration_unusable", "response_too_large"}
    assert await desk.registrations() == []


async def test_o11_issuer_in_a_registration_is_ignored(desk: Desk) -> None:
    desk.server.rules.registration = {"issuer": "https://evil.example"}
    await desk.sign_in()
    assert [row.issuer for row in await desk.registrations()] == [desk.server.issuer]


async def test_registration_is_shared_by_the_members_of_a_tenant(desk: Desk) -> None:
    desks = [Desk(server=desk.server, means=desk.means, person=desk.person) for _ in range(4)]
    await asyncio.gather(*(each.begin() for each in desks))
    assert len(await desk.registrations()) == 1


async def test_reset_registration_is_made_anew(desk: Desk) -> None:
    await desk.sign_in()
    [row] = await desk.registrations()
    assert await desk.means.database.run(registrations.reset, row.pk)
    await desk.sign_in()
    assert desk.server.hits["POST /as/register"] == 2


async def test_without_a_way_to_register_the_operator_is_asked(desk: Desk) -> None:
    say(desk.server, registration_endpoint=None)
    with pytest.raises(HubError) as caught:
        await desk.begin()
    assert caught.value.problem_code == "registration_unusable"


async def test_metadata_document_comes_before_registration(desk: Desk) -> None:
    desk.server.rules.takes_documents = True
    with override_settings(BASE_URL="https://hub.example", IS_HTTPS=True):
        start = replace(desk.start(), redirect_uri="https://hub.example/oauth/callback")
        begun = await flows.begin(desk.means, desk.person.principal, start)
    assert "client_id=https%3A%2F%2Fhub.example%2Foauth%2Fclient.json" in begun.authorization_url
    [row] = await desk.registrations()
    assert (row.source, desk.server.hits["POST /as/register"]) == (Source.CIMD, 0)


async def test_metadata_document_is_not_used_where_nobody_can_read_it(desk: Desk) -> None:
    desk.server.rules.takes_documents = True
    await desk.begin()
    assert desk.server.hits["POST /as/register"] == 1


def test_metadata_document_names_its_own_address() -> None:
    document = registration.document()
    assert document["client_id"] == registration.document_url()
    assert document["redirect_uris"] == [registration.own_callback()]


@pytest.mark.parametrize("kind", ["rsa", "ec", "pem"])
async def test_private_key_proves_the_client_to_this_issuer(desk: Desk, kind: str) -> None:
    key = ECKey.generate_key("P-256") if kind == "ec" else RSAKey.generate_key(2048)
    text = (
        key.as_pem(private=True).decode()
        if kind == "pem"
        else json.dumps(key.as_dict(private=True))
    )
    desk.server.clients["machine"] = {"token_endpoint_auth_method": "private_key_jwt"}
    desk.options |= {"client_id": "machine", "private_key": Secret(text)}
    await desk.sign_in()
    form = last_token_request(desk.server)[1]
    algorithm = "ES256" if kind == "ec" else "RS256"
    claims = jwt.decode(form["client_assertion"], key, algorithms=[algorithm]).claims
    assert (claims["iss"], claims["sub"], claims["aud"]) == (
        "machine",
        "machine",
        desk.server.issuer,
    )
    assert "client_secret" not in form


@pytest.mark.parametrize("text", ["nonsense", '{"kty": "oct", "k": "AA"}', "{", '{"kty": "RSA"}'])
async def test_unusable_private_key_is_named(desk: Desk, text: str) -> None:
    desk.options |= {"client_id": "machine", "private_key": Secret(text)}
    with pytest.raises(HubError) as caught:
        await desk.sign_in()
    assert caught.value.problem_code in {"registration_unusable", "auth_temporarily_unavailable"}
    assert text not in str(caught.value)


@pytest.mark.parametrize("method", [ClientAuthMethod.BASIC, ClientAuthMethod.POST])
async def test_machine_gets_a_token_and_renews_it_without_a_person(
    desk: Desk, method: ClientAuthMethod
) -> None:
    desk.server.clients["machine"] = {
        "client_secret": "s",
        "token_endpoint_auth_method": method.value,
    }
    desk.options |= {
        "client_id": "machine",
        "client_secret": Secret("s"),
        "token_endpoint_auth_method": method,
        "grant_type": GrantType.CLIENT_CREDENTIALS,
        "scopes": ("files:read",),
    }
    await flows.client_credentials(desk.means, desk.person.principal, desk.start())
    assert (await desk.call()).status_code == 200
    await desk.expire()
    assert (await desk.call()).status_code == 200
    forms = desk.server.forms("client_credentials")
    assert [(form["scope"], form["resource"]) for form in forms] == [
        ("files:read", desk.server.mcp_url)
    ] * 2


async def test_prune_keeps_registrations_that_a_grant_uses(desk: Desk) -> None:
    await desk.sign_in()
    [row] = await desk.registrations()
    await desk.means.database.run(registrations.reset, row.pk)
    assert await desk.means.database.run(registrations.prune) == 0
    await (await desk.grant()).adelete()
    assert await desk.means.database.run(registrations.prune) == 1
