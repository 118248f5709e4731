"""Admin site of presets, connections and the ledger, as Root uses it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from redis import Redis

from connectors.models import Connection, Connector
from connectors.models.sealed import open_json
from connectors.services.oauth_risks import check_presets
from tests.connectors.server_factories import (
    make_call,
    make_connected,
    make_connection,
    make_connector,
)
from tests.fakes.mcp_servers import Kind, running
from tests.world import World

CONNECTOR = "/admin/connectors/connector"
CONNECTION = "/admin/connectors/connection"
FORM = {
    "name": "Linear",
    "slug": "linear",
    "url": "https://linear.example/mcp",
    "transport": "auto",
    "auth_type": "none",
    "auth_config": "{}",
    "command": "[]",
    "order": "1",
    "connect_timeout": "10",
    "call_timeout": "60",
    "definition_policy": "warn",
    "is_enabled": "on",
    "secret_headers": "X-Api-Key: s3cret\nX-Org: acme",
}


@pytest.fixture
def root(client: Client, world: World, redis: Redis) -> Client:
    client.force_login(world.root)
    return client


def errors_of(page: Any) -> dict[str, Any]:
    return {name: list(texts) for name, texts in page.context["adminform"].form.errors.items()}


def test_the_form_of_a_preset_explains_units_and_scope(root: Client) -> None:
    page = root.get(f"{CONNECTOR}/add/").text
    assert "Seconds until the session has to be open: 0.5 to 60." in page
    assert "empty: everybody, in every tenant" in page
    assert ">URL:<" in page


def test_a_preset_is_declared_with_sealed_secrets(root: Client) -> None:
    answer = root.post(f"{CONNECTOR}/add/", FORM)

    row = Connector.unscoped.get()
    page = root.get(f"{CONNECTOR}/{row.pk}/change/")
    assert answer.status_code == 302
    assert open_json(row, "sealed_secrets") == {
        "headers": {"X-Api-Key": "s3cret", "X-Org": "acme"},
        "environment": {},
    }
    assert page.status_code == 200
    assert "s3cret" not in page.content.decode()


def test_an_empty_secret_leaves_what_is_stored_and_another_address_drops_it(root: Client) -> None:
    root.post(f"{CONNECTOR}/add/", FORM)
    path = f"{CONNECTOR}/{Connector.unscoped.get().pk}/change/"

    root.post(path, {**FORM, "name": "New", "secret_headers": ""})
    kept = Connector.unscoped.get()
    root.post(path, {**FORM, "url": "https://other.example/mcp", "secret_headers": ""})
    moved = Connector.unscoped.get()

    assert (kept.name, kept.sealed_secrets is None) == ("New", False)
    assert (moved.url, moved.sealed_secrets) == ("https://other.example/mcp", None)


def test_secrets_are_dropped_when_asked_for(root: Client) -> None:
    root.post(f"{CONNECTOR}/add/", FORM)
    path = f"{CONNECTOR}/{Connector.unscoped.get().pk}/change/"

    root.post(path, {**FORM, "secret_headers": "", "drop_secrets": "on"})

    assert Connector.unscoped.get().sealed_secrets is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"slug": "Li__near"}, "slug"),
        ({"url": "https://169.254.169.254/"}, "url"),
        ({"url": "http://public.example/"}, "url"),
        ({"transport": "stdio", "command": '["sh"]'}, "transport"),
        ({"command": '["sh"]'}, "command"),
        ({"secret_headers": "no header"}, "secret_headers"),
        ({"secret_headers": "Host: evil"}, "secret_headers"),
        ({"secret_environment": "1X=y"}, "secret_environment"),
        ({"call_timeout": "601"}, "call_timeout"),
        ({"icon": "javascript:alert(1)"}, "icon"),
        ({"auth_config": "[1]"}, "auth_config"),
        ({"auth_config": "null"}, "auth_config"),
        ({"auth_config": '{"headerNames":"x"}'}, "auth_config"),
        ({"auth_config": '{"headerNames":[5]}'}, "auth_config"),
        ({"auth_config": '{"headerNames":["a b"]}'}, "auth_config"),
        ({"auth_config": '{"nope":1}'}, "auth_config"),
        ({"auth_config": '{"scopes":"read"}'}, "auth_config"),
    ],
)
def test_what_cannot_be_a_preset_is_refused_at_its_field(
    root: Client, change: dict[str, str], field: str, settings: Any
) -> None:
    settings.EGRESS_ALLOW_LOOPBACK = False

    page = root.post(f"{CONNECTOR}/add/", {**FORM, **change})

    assert page.status_code == 200
    assert [*errors_of(page)] == [field]
    assert not Connector.unscoped.exists()


def test_a_program_is_declared_where_the_operator_allows_it(root: Client, settings: Any) -> None:
    settings.STDIO_ENABLED = True
    program = {"transport": "stdio", "url": "", "command": '["server", "--x"]'}
    secrets = {"secret_headers": "", "secret_environment": "TOKEN=s3cret"}

    root.post(f"{CONNECTOR}/add/", {**FORM, **program, **secrets})

    row = Connector.unscoped.get()
    assert row.command == ["server", "--x"]
    assert open_json(row, "sealed_secrets") == {"headers": {}, "environment": {"TOKEN": "s3cret"}}


def test_the_list_counts_connections_and_shows_icons_escaped(root: Client, world: World) -> None:
    row = make_connector("linear", icon='/static/"><script>x</script>.svg')
    make_connection(world.alice, row, "linear", state="connected")
    make_connection(world.bob, row, "linear")

    page = root.get(f"{CONNECTOR}/")

    text = page.content.decode()
    assert ">2</a></td>" in text
    assert ">1</a></td>" in text
    assert "<script>x" not in text


def test_connections_are_looked_at_and_disconnected(root: Client, world: World) -> None:
    row = make_connected(world.alice, "mine", auth_type="bearer", credentials={"token": "s3cret"})
    Connection.unscoped.update(server_info={"name": "<script>alert(1)</script>"})

    page = root.get(f"{CONNECTION}/{row.pk}/change/")
    saved = root.post(f"{CONNECTION}/{row.pk}/change/", {"slug": "x"})
    root.post(f"{CONNECTION}/", {"action": "disconnect", "_selected_action": [str(row.pk)]})

    after = Connection.unscoped.get()
    assert page.status_code == 200
    assert "<script>alert" not in page.content.decode()
    assert saved.status_code == 403
    assert (after.slug, after.state, after.is_wanted) == ("mine", "disconnected", False)


def test_the_ledger_is_shown_without_what_is_sealed(root: Client, world: World) -> None:
    call = make_call(world.alice, make_connected(world.alice, "mine"), outcome={"result": "s3cret"})

    listed = root.get("/admin/connectors/toolcall/")
    page = root.get(f"/admin/connectors/toolcall/{call.pk}/change/")

    assert (listed.status_code, page.status_code) == (200, 200)
    assert "sealed" not in page.content.decode()


def test_a_preset_is_tried_without_a_member(root: Client) -> None:
    with running(Kind.DUAL) as server:
        fine = make_connector("fine", url=server.url)
        broken = make_connector("broken", url="http://127.0.0.1:9/mcp")
        form = {"action": "test_connection", "_selected_action": [str(fine.pk), str(broken.pk)]}
        page = root.post(f"{CONNECTOR}/", form, follow=True).text
    assert "every step from the name to the authorization is fine" in page
    assert "step “tcp” failed" in page


def test_the_counts_of_a_preset_lead_to_its_connections(root: Client, world: World) -> None:
    row = make_connector("linear")
    make_connection(world.alice, row, "linear", state="connected", is_wanted=True)
    make_connection(world.bob, row, "linear", state="error")
    page = root.get(f"{CONNECTOR}/").text
    address = f"{CONNECTION}/?connector__id__exact={row.pk}"
    assert f'<a href="{address}">2</a>' in page
    narrow = f"{address}&amp;state__exact=connected"
    assert f'<a href="{narrow}">1</a>' in page
    assert ">linear<" in root.get(f"{address}&state__exact=error").text


def test_removing_a_preset_ends_its_connections(root: Client, world: World) -> None:
    row = make_connector("linear")
    make_connection(world.alice, row, "linear", state="connected", is_wanted=True)

    root.post(f"{CONNECTOR}/{row.pk}/delete/", {"post": "yes"})

    assert not Connector.unscoped.exists()
    assert not Connection.unscoped.exists()


@pytest.mark.parametrize("path", [CONNECTOR, CONNECTION, "/admin/connectors/toolcall"])
def test_members_see_nothing_of_it(client: Client, world: World, path: str, redis: Redis) -> None:
    client.force_login(world.alice.user)

    answer = client.get(f"{path}/")

    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/admin/login/")


def test_a_preset_that_exists_already_is_refused_in_words(root: Client, world: World) -> None:
    root.post(f"{CONNECTOR}/add/", FORM)
    tenant = {"tenant": str(world.alice.tenant.pk)}
    program = {"transport": "stdio", "command": '["sh"]', "slug": "other"}

    again = root.post(f"{CONNECTOR}/add/", FORM)
    shadow = root.post(f"{CONNECTOR}/add/", {**FORM, **tenant})
    stdio = root.post(f"{CONNECTOR}/add/", {**FORM, **tenant, **program})

    assert errors_of(again) == {"slug": ["Another connector has this id."]}
    assert errors_of(shadow) == {"slug": ["The operator's connector has this id."]}
    assert errors_of(stdio) == {"transport": ["Only a connector for everybody can be a program."]}
    assert Connector.unscoped.count() == 1


def test_oauth_choices_are_checked_sealed_and_their_risks_named(root: Client) -> None:
    form = {**FORM, "auth_type": "oauth", "client_secret": "0auth-s3cret"}
    config = {"clientId": "me", "pkce": "assumed"}

    wrong = root.post(f"{CONNECTOR}/add/", {**form, "auth_config": '{"grantType": "x"}'})
    right = root.post(f"{CONNECTOR}/add/", {**form, "auth_config": json.dumps(config)})

    assert errors_of(wrong) == {"auth_config": ["grantType: This cannot be used."]}
    assert right.status_code == 302
    row = Connector.unscoped.get()
    page = root.get(f"{CONNECTOR}/{row.pk}/change/").content.decode()
    assert "0auth-s3cret" not in page
    assert "PKCE is sent" in page
    assert [message.id for message in check_presets(databases=["default"])] == [
        "connectors.W.pkce_assumed",
        "connectors.W.issuer_not_pinned",
    ]
