"""Management commands of an operator's first minutes."""

from __future__ import annotations

import io
import re

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from tenants.models import Membership, User
from tests.world import World, bearer


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_tenant_and_key_work_right_away(client: Client, db: None) -> None:
    made = run("create_tenant", "acme", "--owner", "dora")
    key = run("create_api_key", "acme", "dora", "--scope", "servers:read").strip()
    seen = client.get("/api/v1/tenants/current", headers=bearer(key)).json()
    assert (seen["slug"], seen["member"]["role"]) == ("acme", "owner")
    assert seen["scopes"] == ["servers:read"]
    (path,) = re.findall(r"/login/once/[0-9a-f]{64}", made)
    assert client.get(path)["Location"] == "/"


def test_taken_tenant_is_one_clear_line(world: World) -> None:
    slug = world.alice.tenant.slug
    with pytest.raises(CommandError, match="There is a tenant with this short name"):
        run("create_tenant", slug, "--owner", world.bob.user.username)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["", "--owner", "dora"], "name: This field cannot be blank"),
        (["no slug", "--owner", "dora"], "slug: Enter a valid"),
        (["acme", "--owner", "dora", "--name", "  "], "name: This field cannot be blank"),
        (["acme", "--owner", "dora", "--name", "x" * 121], "name: Ensure this value has at most"),
        (["acme", "--owner", ""], "username: This field cannot be blank"),
        (["acme", "--owner", "not a name"], "username: Enter a valid username"),
    ],
)
def test_a_name_that_cannot_be_used_makes_nothing(
    arguments: list[str], told: str, db: None
) -> None:
    with pytest.raises(CommandError, match=told):
        run("create_tenant", *arguments)
    assert not User.objects.exists()


def test_existing_user_becomes_owner_and_gets_no_link(world: World) -> None:
    made = run("create_tenant", "other", "--owner", world.bob.user.username)
    assert "/login/once/" not in made
    member = Membership.unscoped.get(tenant__slug="other")
    assert member.user == User.objects.get(pk=world.bob.user.pk)


def test_key_for_a_stranger_is_one_clear_line(world: World) -> None:
    with pytest.raises(CommandError, match="no such member"):
        run("create_api_key", world.alice.tenant.slug, world.charlie.user.username)
