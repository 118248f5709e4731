"""REST of API keys: the secret once, rotation and revocation at once."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

from django.test import Client

from tenants.models import ApiKey
from tenants.principal import Scope
from tests import factories
from tests.problems import problem, wrong
from tests.world import World, bearer

KEYS = "/api/v1/api-keys"
CURRENT = "/api/v1/tenants/current"


def make(client: Client, world: World, **body: Any) -> dict[str, Any]:
    answer = client.post(
        KEYS, {"name": "k", **body}, content_type="application/json", headers=world.alice.headers
    )
    assert answer.status_code == 201, answer.json()
    return dict(answer.json())


def test_secret_is_shown_once(client: Client, world: World) -> None:
    made = make(client, world, scopes=["servers:read"], expiresAt="2099-01-01T00:00:00Z")
    row = ApiKey.objects.of(world.alice.principal).get(pk=made["id"])
    public = {
        "id": str(row.id),
        "name": "k",
        "prefix": f"mhk_{row.key_id}",
        "memberId": str(world.alice.member.id),
        "scopes": ["servers:read"],
        "readOnly": False,
        "toolSearch": False,
        "expiresAt": "2099-01-01T00:00:00Z",
        "lastUsedAt": None,
        "revokedAt": None,
        "createdAt": ANY,
    }
    assert made == {**public, "secret": ANY}
    assert made["secret"].startswith(f"mhk_{row.key_id}_")
    read = client.get(f"{KEYS}/{row.id}", headers=world.alice.headers).json()
    listed = client.get(KEYS, headers=world.alice.headers).json()
    assert read == public
    assert listed["items"][0] == public


def test_key_has_the_makers_scopes_when_it_names_none(client: Client, world: World) -> None:
    headers = world.alice.headers_with(Scope.API_KEYS_WRITE, Scope.TOOLS_CALL)
    answer = client.post(KEYS, {"name": "k"}, content_type="application/json", headers=headers)
    assert answer.json()["scopes"] == ["api_keys:write", "tools:call"]


def test_key_never_has_more_than_its_maker(client: Client, world: World) -> None:
    headers = world.alice.headers_with(Scope.API_KEYS_WRITE)
    body = {"name": "k", "scopes": ["tools:call"]}
    answer = client.post(KEYS, body, content_type="application/json", headers=headers)
    assert answer.status_code == 403
    assert ApiKey.unscoped.filter(name="k").count() == 0


def test_weak_key_cannot_rotate_a_stronger_one(client: Client, world: World) -> None:
    strong = factories.make_key(world.alice.member).api_key
    headers = world.alice.headers_with(Scope.API_KEYS_WRITE)
    answer = client.post(f"{KEYS}/{strong.id}/rotate", headers=headers)
    assert answer.status_code == 403


def test_member_manages_no_keys(client: Client, world: World) -> None:
    answers = [
        client.get(KEYS, headers=world.bob.headers),
        client.post(KEYS, {"name": "k"}, "application/json", headers=world.bob.headers),
    ]
    assert [answer.status_code for answer in answers] == [403, 403]


def test_rotation_ends_the_old_secret_at_once(client: Client, world: World) -> None:
    made = make(client, world)
    assert client.get(CURRENT, headers=bearer(made["secret"])).status_code == 200
    rotated = client.post(f"{KEYS}/{made['id']}/rotate", headers=world.alice.headers).json()
    assert rotated == {**made, "secret": ANY, "lastUsedAt": ANY}
    assert rotated["secret"] != made["secret"]
    statuses = [
        client.get(CURRENT, headers=bearer(secret)).status_code
        for secret in (made["secret"], rotated["secret"])
    ]
    assert statuses == [401, 200]


def test_revocation_counts_at_once_and_twice_is_the_same(client: Client, world: World) -> None:
    made = make(client, world)
    path = f"{KEYS}/{made['id']}"
    assert client.get(CURRENT, headers=bearer(made["secret"])).status_code == 200
    assert client.delete(path, headers=world.alice.headers).status_code == 204
    first = client.get(path, headers=world.alice.headers).json()["revokedAt"]
    assert client.delete(path, headers=world.alice.headers).status_code == 204
    assert client.get(path, headers=world.alice.headers).json()["revokedAt"] == first
    assert client.get(CURRENT, headers=bearer(made["secret"])).status_code == 401
    rotate = client.post(f"{path}/rotate", headers=world.alice.headers)
    assert rotate.status_code == 409
    assert rotate.json() == problem("conflict", f"{path}/rotate", "This API key was revoked.")


def test_wrong_values_are_named(client: Client, world: World) -> None:
    body = {"scopes": ["everything"], "expiresAt": "2000-01-01T00:00:00Z"}
    answer = client.post(KEYS, body, content_type="application/json", headers=world.alice.headers)
    assert answer.json() == problem(
        "invalid_input",
        KEYS,
        errors=[
            wrong("/name", "This field is required.", "required"),
            wrong("/scopes", '"everything" is not a valid choice.', "invalid_choice"),
        ],
    )
    past = {"name": "k", "expiresAt": "2000-01-01T00:00:00Z"}
    answer = client.post(KEYS, past, content_type="application/json", headers=world.alice.headers)
    assert answer.json() == problem(
        "invalid_input", KEYS, errors=[wrong("/expiresAt", "This is in the past.")]
    )
