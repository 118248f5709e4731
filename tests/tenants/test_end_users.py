"""Acting for an app's own users: `Mcphub-End-User` with an API key that has `act_as`."""

from __future__ import annotations

from django.test import Client

from tenants.models import Membership, Role
from tenants.principal import MEMBER_SCOPES, Scope
from tests import factories
from tests.problems import problem
from tests.world import World, bearer

CURRENT = "/api/v1/tenants/current"
REFUSED = "Acting for an end user needs an API key with the scope 'act_as'."


def test_end_user_is_a_member_from_the_first_request_on(client: Client, world: World) -> None:
    headers = bearer(world.alice.key, mcphub_end_user="u_42")
    first = client.get(CURRENT, headers=headers).json()
    again = client.get(CURRENT, headers=headers).json()
    row = Membership.objects.of(world.alice.principal).get(external_id="u_42")
    assert first["member"] == {
        "id": str(row.id),
        "displayName": "",
        "email": "",
        "externalId": "u_42",
        "role": "end_user",
        "isActive": True,
        "createdAt": first["member"]["createdAt"],
    }
    assert again == first


def test_scopes_of_an_end_user_are_those_of_the_key_and_of_a_member(
    client: Client, world: World
) -> None:
    every = client.get(CURRENT, headers=bearer(world.alice.key, mcphub_end_user="u")).json()
    few = world.alice.headers_with(Scope.ACT_AS, Scope.SERVERS_READ, Scope.MEMBERS_READ)
    some = client.get(CURRENT, headers={**few, "Mcphub-End-User": "u"}).json()
    assert set(every["scopes"]) == {scope.value for scope in MEMBER_SCOPES}
    assert some["scopes"] == ["servers:read"]


def test_key_without_act_as_cannot_act_for_an_end_user(client: Client, world: World) -> None:
    answer = client.get(CURRENT, headers={**world.bob.headers, "Mcphub-End-User": "u"})
    assert answer.status_code == 403
    assert answer.json() == problem("not_permitted", CURRENT, REFUSED, requiredScope="act_as")
    assert not Membership.unscoped.filter(external_id="u").exists()


def test_same_id_in_two_tenants_is_two_end_users(client: Client, world: World) -> None:
    ids = {
        client.get(CURRENT, headers=bearer(person.key, mcphub_end_user="u")).json()["member"]["id"]
        for person in (world.alice, world.charlie)
    }
    assert len(ids) == 2


def test_id_may_be_any_printable_text(client: Client, world: World) -> None:
    name = "zoë@示例"
    on_the_wire = name.encode().decode("latin-1")
    headers = bearer(world.alice.key, mcphub_end_user=on_the_wire)
    assert client.get(CURRENT, headers=headers).json()["member"]["externalId"] == name


def test_id_that_is_empty_too_long_or_unprintable_is_a_422(client: Client, world: World) -> None:
    names = ("", "  ", "\u00a0", "u" * 201, "a\tb")
    answers = [
        client.get(CURRENT, headers=bearer(world.alice.key, mcphub_end_user=name)).status_code
        for name in names
    ]
    assert answers == [422] * len(names)


def test_empty_id_is_not_taken_for_the_keys_owner_in_an_async_view(
    client: Client, world: World
) -> None:
    client.get(CURRENT, headers=world.alice.headers)
    answer = client.post(
        "/api/v1/servers/none/tools/none/call",
        "{}",
        content_type="application/json",
        headers=bearer(world.alice.key, mcphub_end_user=""),
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


def test_switched_off_end_user_is_a_401(client: Client, world: World) -> None:
    member = factories.make_end_user(world.alice.tenant, "u")
    headers = bearer(world.alice.key, mcphub_end_user="u")
    assert client.get(CURRENT, headers=headers).status_code == 200
    member.is_active = False
    member.save()
    assert client.get(CURRENT, headers=headers).json()["code"] == "member_inactive"


def test_neither_login_nor_connect_session_acts_for_an_end_user(
    client: Client, world: World
) -> None:
    session = factories.make_connect_session(world.alice.member)
    by_session = client.get(CURRENT, headers=bearer(session.token, mcphub_end_user="u"))
    client.force_login(world.alice.user)
    by_login = client.get(CURRENT, headers={"Mcphub-End-User": "u"})
    assert [by_session.status_code, by_login.status_code] == [403, 403]
    assert not Membership.unscoped.filter(external_id="u", role=Role.END_USER).exists()
