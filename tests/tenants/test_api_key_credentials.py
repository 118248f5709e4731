"""API keys as credentials: what is accepted, what is refused and with which words."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from mcphub.core.clock import now
from tenants import api_keys
from tenants.models import ApiKey, Membership, Role
from tenants.principal import ADMIN_SCOPES, MEMBER_SCOPES, Scope
from tests import factories
from tests.problems import BEARER, problem
from tests.world import World, bearer

CURRENT = "/api/v1/tenants/current"


def scopes_seen(client: Client, headers: dict[str, str]) -> set[str]:
    return set(client.get(CURRENT, headers=headers).json()["scopes"])


def test_key_of_an_owner_has_every_scope(client: Client, world: World) -> None:
    assert scopes_seen(client, bearer(world.alice.key)) == {s.value for s in ADMIN_SCOPES}


def test_key_never_has_more_scopes_than_the_role_of_its_member(
    client: Client, world: World
) -> None:
    Membership.unscoped.filter(pk=world.alice.member.pk).update(role=Role.MEMBER)
    assert scopes_seen(client, bearer(world.alice.key)) == {s.value for s in MEMBER_SCOPES}


def test_key_is_limited_to_its_own_scopes(client: Client, world: World) -> None:
    headers = dict(world.alice.headers_with(Scope.SERVERS_READ))
    assert scopes_seen(client, headers) == {"servers:read"}


def test_missing_credential_is_a_401_that_asks_for_a_bearer(client: Client, world: World) -> None:
    answer = client.get(CURRENT)
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, BEARER)
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json() == problem("not_authenticated", CURRENT)


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer",
        "Bearer x",
        "Bearer mhk_",
        "Bearer mhk_00_00",
        "Bearer mhs_00",
        "Basic YTpi",
        "Bearer mhk_\x7f_é",
    ],
)
def test_credential_that_nobody_has_is_a_401(
    client: Client, world: World, authorization: str
) -> None:
    answer = client.get(CURRENT, headers={"Authorization": authorization})
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, BEARER)
    assert answer.json() == problem("invalid_credential", CURRENT, "This credential is not valid.")


def test_wrong_secret_answers_as_an_unknown_key_does(client: Client, world: World) -> None:
    stem, _, _ = world.alice.key.rpartition("_")
    wrong_secret = client.get(CURRENT, headers=bearer(f"{stem}_{'0' * 64}"))
    unknown_key = client.get(CURRENT, headers=bearer(f"mhk_{'0' * 16}_{'0' * 64}"))
    assert wrong_secret.status_code == unknown_key.status_code == 401
    assert wrong_secret.json() == {**unknown_key.json(), "traceId": wrong_secret.json()["traceId"]}


def test_wrong_secret_does_not_tell_that_the_key_is_revoked(client: Client, world: World) -> None:
    issued = factories.make_key(world.alice.member)
    api_keys.end(issued.api_key)
    stem, _, _ = issued.secret.rpartition("_")
    assert client.get(CURRENT, headers=bearer(f"{stem}_0")).json()["code"] == "invalid_credential"
    assert client.get(CURRENT, headers=bearer(issued.secret)).json() == problem(
        "credential_revoked", CURRENT, "This API key was revoked."
    )


def test_expired_key_is_a_401(client: Client, world: World) -> None:
    issued = factories.make_key(world.alice.member, expires_in=timedelta(seconds=-1))
    answer = client.get(CURRENT, headers=bearer(issued.secret))
    assert answer.status_code == 401
    assert answer.json() == problem("credential_expired", CURRENT, "This API key has expired.")


def test_key_of_a_switched_off_tenant_member_or_user_is_a_401(client: Client, world: World) -> None:
    world.bob.member.is_active = False
    world.bob.member.save()
    world.charlie.tenant.is_active = False
    world.charlie.tenant.save()
    world.alice.user.is_active = False
    world.alice.user.save()
    people = (world.bob, world.charlie, world.alice)
    codes = [client.get(CURRENT, headers=person.headers).json()["code"] for person in people]
    assert codes == ["member_inactive", "tenant_inactive", "member_inactive"]


def test_use_of_a_key_is_noted_at_most_once_a_minute(client: Client, world: World) -> None:
    client.get(CURRENT, headers=world.alice.headers)
    key = ApiKey.unscoped.get(member=world.alice.member)
    first = key.last_used_at
    key.revoked_at = None
    key.save(update_fields=["revoked_at"])  # has it looked up again
    client.get(CURRENT, headers=world.alice.headers)
    key.refresh_from_db()
    assert first is not None
    assert key.last_used_at == first
    old = now() - timedelta(minutes=2)
    key.last_used_at = old
    key.save(update_fields=["last_used_at"])
    client.get(CURRENT, headers=world.alice.headers)
    key.refresh_from_db()
    assert key.last_used_at is not None
    assert key.last_used_at > old


def test_secret_is_hashed_at_rest(world: World) -> None:
    key = ApiKey.unscoped.get(member=world.alice.member)
    secret = world.alice.key.rpartition("_")[2]
    assert len(secret) == 64
    assert secret not in str(key.__dict__)


def test_bad_authorization_is_not_saved_by_a_login(client: Client, world: World) -> None:
    client.force_login(world.alice.user)
    assert client.get(CURRENT, headers={"Authorization": "Bearer mhk_0_0"}).status_code == 401
