"""The page on which a member logs in with a password."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tenants.login import PER_ACCOUNT
from tests.world import World

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse"


def log_in(client: Client, name: str, password: str = PASSWORD, to: str = "") -> str:
    answer = client.post("/login", {"username": name, "password": password, "next": to})
    return answer.get("Location", str(answer.status_code))


def test_member_who_is_no_operator_logs_in_and_is_led_on(client: Client, world: World) -> None:
    assert log_in(client, world.bob.user.username, to="/api/docs") == "/api/docs"
    assert client.get("/api/v1/tenants/current").status_code == 200


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example", "javascript:alert(1)"])
def test_nobody_is_led_to_another_site(client: Client, world: World, to: str) -> None:
    assert log_in(client, world.bob.user.username, to=to) == "/"


@pytest.mark.parametrize(
    ("name", "password"), [("", "x"), ("bob", ""), ("b" * 300, "x"), ("bo\0b", "x"), ("bob", "\0")]
)
def test_what_cannot_be_a_name_or_a_password_is_said(
    client: Client, name: str, password: str
) -> None:
    page = client.post("/login", {"username": name, "password": password})
    assert (page.status_code, page.content.count(b'role="alert"')) == (200, 1)


def test_wrong_password_and_unknown_name_are_told_alike(client: Client, world: World) -> None:
    pages = [
        client.post("/login", {"username": name, "password": "wrong"}).content
        for name in (world.bob.user.username, "nobody")
    ]
    told = [re.search(rb'role="alert">[^<]+', page) for page in pages]
    assert told[0] is not None
    assert told[1] is not None
    assert told[0][0] == told[1][0]


def test_guessing_ends_at_a_rate_for_the_name(client: Client, world: World) -> None:
    for _ in range(PER_ACCOUNT.limit):
        assert log_in(client, world.bob.user.username, "wrong") == "200"
    assert log_in(client, world.bob.user.username) == "200"
    assert log_in(client, world.alice.user.username) == "/"


def test_login_needs_the_csrf_token(world: World) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert log_in(browser, world.bob.user.username) == "403"


def test_page_has_no_script_and_no_frame(client: Client) -> None:
    page = client.get("/login?next=/")
    assert b"<script" not in page.content
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
