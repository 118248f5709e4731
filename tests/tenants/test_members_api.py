"""REST of the tenant and its members: who may do what to whom."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest
from django.test import Client

from tenants.models import Membership, Role, Tenant, User
from tenants.principal import Scope
from tests import factories
from tests.problems import problem, wrong
from tests.world import Person, World

MEMBERS = "/api/v1/members"
CURRENT = "/api/v1/tenants/current"


def send(client: Client, method: str, path: str, person: Person, body: Any = None) -> Any:
    call = getattr(client, method)
    return call(path, body or {}, content_type="application/json", headers=person.headers)


def member_json(member: Membership, **more: Any) -> dict[str, Any]:
    return {
        "id": str(member.id),
        "displayName": member.display_name,
        "email": member.email,
        "externalId": member.external_id,
        "role": member.role,
        "isActive": member.is_active,
        "createdAt": ANY,
        **more,
    }


def test_current_tenant_tells_who_is_asking(client: Client, world: World) -> None:
    answer = client.get(CURRENT, headers=world.bob.headers)
    tenant = world.bob.tenant
    assert answer.json() == {
        "id": str(tenant.id),
        "slug": tenant.slug,
        "name": "Acme",
        "allowedOrigins": [],
        "createdAt": ANY,
        "limits": {
            "maxConnections": 200,
            "maxCustomServers": 200,
            "maxConcurrentCalls": 512,
            "callsPerMinute": 6000,
        },
        "member": member_json(world.bob.member),
        "scopes": ["servers:connect", "servers:read", "servers:write", "tools:call", "traces:read"],
    }


def test_owner_changes_name_and_origins(client: Client, world: World) -> None:
    body = {"name": "Acme Ltd", "allowedOrigins": ["https://app.example"]}
    answer = send(client, "patch", CURRENT, world.alice, body)
    assert answer.status_code == 200
    row = Tenant.objects.get(pk=world.alice.tenant.pk)
    assert (row.name, row.allowed_origins) == ("Acme Ltd", ["https://app.example"])
    assert answer.json()["allowedOrigins"] == ["https://app.example"]


def test_member_changes_nothing_of_the_tenant(client: Client, world: World) -> None:
    answer = send(client, "patch", CURRENT, world.bob, {"name": "Mine"})
    assert answer.status_code == 403
    assert answer.json() == problem(
        "not_permitted",
        CURRENT,
        "This needs the scope 'members:write'.",
        requiredScope="members:write",
    )


def test_members_are_listed_newest_first_in_pages(client: Client, world: World) -> None:
    third = factories.make_member(world.alice.tenant)
    first_page = client.get(f"{MEMBERS}?limit=2", headers=world.alice.headers).json()
    cursor = first_page["nextCursor"]
    last_page = client.get(f"{MEMBERS}?limit=2&cursor={cursor}", headers=world.alice.headers).json()
    assert first_page["items"] == [member_json(third), member_json(world.bob.member)]
    assert last_page == {"items": [member_json(world.alice.member)], "nextCursor": None}


def test_list_of_members_costs_the_same_for_many(
    client: Client, world: World, django_assert_num_queries: Any
) -> None:
    for _ in range(5):
        factories.make_member(world.alice.tenant)
    client.get(MEMBERS, headers=world.alice.headers)
    with django_assert_num_queries(1, exact=False):
        client.get(MEMBERS, headers=world.alice.headers)


def test_member_is_added_by_email_without_a_password(client: Client, world: World) -> None:
    body = {"email": "Dora@Example.org", "displayName": "Dora", "role": "admin"}
    answer = send(client, "post", MEMBERS, world.alice, body)
    assert answer.status_code == 201
    row = Membership.objects.of(world.alice.principal).get(pk=answer.json()["id"])
    assert row.user is not None
    assert (row.user.username, row.user.has_usable_password()) == ("dora@example.org", False)
    assert answer.json() == member_json(row)


def test_answer_does_not_tell_whether_the_person_was_known(client: Client, world: World) -> None:
    known = User.objects.create_user(username="eve@example.org", password="a secret horse")
    bodies = [{"email": "eve@example.org"}, {"email": "nobody@example.org"}]
    answers = [send(client, "post", MEMBERS, world.alice, body) for body in bodies]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json().keys() == answers[1].json().keys()
    known.refresh_from_db()
    assert known.check_password("a secret horse")


def test_end_user_is_added_by_the_apps_id(client: Client, world: World) -> None:
    answer = send(client, "post", MEMBERS, world.alice, {"externalId": "u_1"})
    assert (answer.json()["externalId"], answer.json()["role"]) == ("u_1", "end_user")


def test_same_member_twice_is_a_conflict(client: Client, world: World) -> None:
    body = {"externalId": "u_1"}
    send(client, "post", MEMBERS, world.alice, body)
    answer = send(client, "post", MEMBERS, world.alice, body)
    assert answer.status_code == 409
    assert answer.json() == problem("already_exists", MEMBERS, "This is a member already.")


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({}, [wrong("/email", "Needed, or `externalId`.")]),
        (
            {"email": "not an address"},
            [wrong("/email", "Enter a valid email address.")],
        ),
        (
            {"email": "a@example.org", "role": "end_user"},
            [wrong("/role", '"end_user" is not a valid choice.', "invalid_choice")],
        ),
        (
            {"externalId": "u", "role": "owner"},
            [wrong("/role", "An end user of an app has no other role.")],
        ),
    ],
)
def test_wrong_member_is_a_422(
    client: Client, world: World, body: dict[str, Any], errors: list[dict[str, str]]
) -> None:
    answer = send(client, "post", MEMBERS, world.alice, body)
    assert answer.status_code == 422
    assert answer.json() == problem("invalid_input", MEMBERS, errors=errors)


def test_change_of_role_counts_at_once(client: Client, world: World) -> None:
    path = f"{MEMBERS}/{world.bob.member.id}"
    assert client.get(MEMBERS, headers=world.bob.headers).status_code == 403
    admin_key = factories.make_key(world.alice.member, Scope.MEMBERS_READ)
    answer = send(client, "patch", path, world.alice, {"role": "admin"})
    assert answer.json() == member_json(world.bob.member, role="admin")
    promoted = factories.make_key(Membership.unscoped.get(pk=world.bob.member.pk))
    headers = {"Authorization": f"Bearer {promoted.secret}"}
    assert client.get(MEMBERS, headers=headers).status_code == 200
    send(client, "patch", path, world.alice, {"role": "member"})
    assert client.get(MEMBERS, headers=headers).status_code == 403
    assert admin_key.api_key.scopes == ["members:read"]


def test_deactivated_member_is_out_at_once(client: Client, world: World) -> None:
    assert client.get(CURRENT, headers=world.bob.headers).status_code == 200
    answer = send(client, "delete", f"{MEMBERS}/{world.bob.member.id}", world.alice)
    assert answer.status_code == 204
    assert client.get(CURRENT, headers=world.bob.headers).status_code == 401


def test_last_owner_can_neither_leave_nor_step_down(client: Client, world: World) -> None:
    path = f"{MEMBERS}/{world.alice.member.id}"
    step_down = send(client, "patch", path, world.alice, {"role": "member"})
    leave = send(client, "delete", path, world.alice)
    assert [step_down.status_code, leave.status_code] == [409, 409]
    assert leave.json() == problem("last_owner", path, "A tenant needs an owner.")
    factories.make_member(world.alice.tenant, role=Role.OWNER)
    assert send(client, "patch", path, world.alice, {"role": "admin"}).status_code == 200


def test_admin_cannot_touch_or_make_owners(client: Client, world: World) -> None:
    admin = factories.make_member(world.alice.tenant, role=Role.ADMIN)
    headers = {"Authorization": f"Bearer {factories.make_key(admin).secret}"}
    answers = [
        client.patch(
            f"{MEMBERS}/{target.id}", body, content_type="application/json", headers=headers
        )
        for target, body in (
            (world.alice.member, {"role": "member"}),
            (world.alice.member, {"isActive": False}),
            (admin, {"role": "owner"}),
            (world.bob.member, {"role": "owner"}),
        )
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403, 403]


def test_end_user_never_becomes_a_login(client: Client, world: World) -> None:
    end_user = factories.make_end_user(world.alice.tenant)
    path = f"{MEMBERS}/{end_user.id}"
    assert send(client, "patch", path, world.alice, {"role": "admin"}).status_code == 409
    to_end_user = send(
        client, "patch", f"{MEMBERS}/{world.bob.member.id}", world.alice, {"role": "end_user"}
    )
    assert to_end_user.status_code == 409


def test_usage_counts_what_is_in_use(client: Client, world: World) -> None:
    factories.make_connect_session(world.alice.member)
    answer = client.get("/api/v1/usage", headers=world.alice.headers).json()
    assert {name: answer[name] for name in ("members", "apiKeys", "connectSessions")} == {
        "members": 3,
        "apiKeys": 2,
        "connectSessions": 1,
    }
