"""The admin site: credentials are made and ended there, and never read or edited."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tenants.models import ApiKey, ConnectSession, Membership
from tests import factories
from tests.world import World, bearer

CURRENT = "/api/v1/tenants/current"
KEYS = "/admin/tenants/apikey/"


@pytest.fixture
def site(client: Client, world: World) -> Client:
    client.force_login(world.root)
    return client


@pytest.mark.parametrize("name", ["user", "tenant", "membership", "apikey", "connectsession"])
def test_lists_and_pages_open(site: Client, world: World, name: str) -> None:
    factories.make_connect_session(world.alice.member)
    listing = site.get(f"/admin/tenants/{name}/")
    assert listing.status_code == 200
    (link, *_) = re.findall(rf"/admin/tenants/{name}/[0-9a-f-]+/change/", listing.text)
    assert site.get(link).status_code == 200


def test_site_offers_nothing_that_has_no_effect(site: Client, world: World) -> None:
    index = site.get("/admin/").text
    assert "API keys" in index
    assert "/admin/auth/group/" not in index
    assert 'name="groups"' not in site.get(f"/admin/tenants/user/{world.bob.user.pk}/change/").text
    assert site.get("/admin/tenants/user/?is_staff__exact=1").status_code == 200


def test_limits_say_what_they_count(site: Client, world: World) -> None:
    page = site.get(f"/admin/tenants/tenant/{world.alice.tenant.pk}/change/").text
    assert "The most of all members together." in page


def test_key_is_made_by_the_service_and_shown_once(site: Client, world: World) -> None:
    form = {"member": world.bob.member.id, "name": "k", "scopes": ["servers:read", "act_as"]}
    page = site.post(f"{KEYS}add/", form, follow=True)
    (secret,) = set(re.findall(r"mhk_[0-9a-f]{16}_[0-9a-f]{64}", page.text))
    key = ApiKey.unscoped.get(name="k")
    assert (key.member, key.tenant) == (world.bob.member, world.bob.tenant)
    assert key.scopes == ["servers:read"]  # what a member's role allows
    assert site.get(CURRENT, headers=bearer(secret)).status_code == 200
    assert secret not in site.get(f"{KEYS}{key.id}/change/").text
    assert key.secret_hash not in site.get(f"{KEYS}{key.id}/change/").text


def test_keys_are_not_edited_or_deleted_but_revoked(site: Client, world: World) -> None:
    key = ApiKey.unscoped.get(member=world.bob.member)
    assert site.post(f"{KEYS}{key.id}/change/", {"name": "other"}).status_code == 403
    assert site.post(f"{KEYS}{key.id}/delete/", {"post": "yes"}).status_code == 403
    site.post(KEYS, {"action": "revoke", "_selected_action": [str(key.id)]})
    assert site.get(CURRENT, headers=world.bob.headers).json()["code"] == "credential_revoked"


def test_connect_sessions_are_revoked_by_the_action(site: Client, world: World) -> None:
    made = factories.make_connect_session(world.alice.member)
    path = "/admin/tenants/connectsession/"
    assert site.get(f"{path}add/").status_code == 403
    page = site.get(f"{path}{made.session.id}/change/").text
    assert made.session.token_hash not in page
    site.post(path, {"action": "revoke", "_selected_action": [str(made.session.id)]})
    assert ConnectSession.unscoped.get().revoked_at is not None
    assert site.get(CURRENT, headers=bearer(made.token)).status_code == 401


def test_login_links_are_made_for_others_by_superusers_only(site: Client, world: World) -> None:
    wanted = {"action": "make_login_links", "_selected_action": [world.bob.user.pk]}
    page = site.post("/admin/tenants/user/", wanted, follow=True)
    (path,) = re.findall(r"/login/once/[0-9a-f]{64}", page.text)
    bob = Client()
    assert bob.get(path)["Location"] == "/"
    assert bob.get(CURRENT).json()["member"]["id"] == str(world.bob.member.id)


def test_switching_a_member_off_there_counts_at_once(site: Client, world: World) -> None:
    assert site.get(CURRENT, headers=world.bob.headers).status_code == 200
    path = f"/admin/tenants/membership/{world.bob.member.id}/change/"
    site.post(path, {"display_name": "Bob", "email": "", "role": "member"})
    assert Membership.unscoped.get(pk=world.bob.member.pk).is_active is False
    assert site.get(CURRENT, headers=world.bob.headers).json()["code"] == "member_inactive"


def test_upstream_like_text_is_escaped(site: Client, world: World) -> None:
    payload = "<script>alert(1)</script>"
    world.bob.member.display_name = payload
    world.bob.member.save()
    pages = [
        site.get(path).text
        for path in (
            "/admin/tenants/membership/",
            f"/admin/tenants/membership/{world.bob.member.id}/change/",
            KEYS,
        )
    ]
    assert [payload in page for page in pages] == [False, False, False]
