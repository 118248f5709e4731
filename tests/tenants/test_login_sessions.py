"""Logins as credentials of the API: membership, choice of tenant, CSRF, logout."""

from __future__ import annotations

from django.test import Client

from tenants.models import Role
from tests import factories
from tests.problems import problem
from tests.world import World

CURRENT = "/api/v1/tenants/current"
KEYS = "/api/v1/api-keys"


def test_login_acts_as_the_only_membership(client: Client, world: World) -> None:
    client.force_login(world.bob.user)
    answer = client.get(CURRENT).json()
    assert answer["id"] == str(world.bob.tenant.id)
    assert answer["member"]["id"] == str(world.bob.member.id)


def test_header_chooses_the_tenant_by_short_name_or_id(client: Client, world: World) -> None:
    factories.make_member(world.charlie.tenant, user=world.bob.user)
    client.force_login(world.bob.user)
    first = client.get(CURRENT).json()["id"]
    chosen = {
        client.get(CURRENT, headers={"Mcphub-Tenant": name}).json()["id"]
        for name in (world.charlie.tenant.slug, str(world.charlie.tenant.id))
    }
    assert first == str(world.bob.tenant.id)
    assert chosen == {str(world.charlie.tenant.id)}


def test_tenant_of_strangers_answers_as_an_unknown_one_does(client: Client, world: World) -> None:
    client.force_login(world.bob.user)
    names = (world.charlie.tenant.slug, "no-such-tenant")
    answers = [client.get(CURRENT, headers={"Mcphub-Tenant": name}) for name in names]
    assert [answer.status_code for answer in answers] == [403, 403]
    expected = problem("not_a_member", CURRENT, "This user is not a member there.")
    assert [answer.json() for answer in answers] == [expected, expected]


def test_operator_without_membership_is_nobody_in_the_api(client: Client, world: World) -> None:
    client.force_login(world.root)
    assert client.get(CURRENT).json()["code"] == "not_a_member"


def test_write_by_login_needs_the_csrf_token(world: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(world.alice.user)
    refused = browser.post(KEYS, {"name": "k"}, content_type="application/json")
    assert refused.status_code == 403
    assert refused.json() == problem("csrf_failed", KEYS, "The CSRF token is missing or wrong.")
    browser.get("/admin/login/?next=/")  # hands out the cookie
    token = browser.cookies["mcphub-csrf"].value
    made = browser.post(
        KEYS, {"name": "k"}, content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert made.status_code == 201


def test_write_by_key_needs_no_csrf_token(world: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    made = browser.post(
        KEYS, {"name": "k"}, content_type="application/json", headers=world.alice.headers
    )
    assert made.status_code == 201


def test_logout_ends_it_at_once(client: Client, world: World) -> None:
    client.force_login(world.bob.user)
    cookie = client.cookies["mcphub"].value
    assert client.get(CURRENT).status_code == 200
    client.logout()
    client.cookies["mcphub"] = cookie
    assert client.get(CURRENT).status_code == 401


def test_new_password_ends_it_at_once(client: Client, world: World) -> None:
    client.force_login(world.bob.user)
    assert client.get(CURRENT).status_code == 200
    world.bob.user.set_password("another horse")
    world.bob.user.save()
    assert client.get(CURRENT).status_code == 401


def test_login_skips_memberships_that_are_switched_off(client: Client, world: World) -> None:
    later = factories.make_member(world.charlie.tenant, user=world.bob.user, role=Role.ADMIN)
    world.bob.member.is_active = False
    world.bob.member.save()
    client.force_login(world.bob.user)
    assert client.get(CURRENT).json()["member"]["id"] == str(later.id)
