"""The one-time login link that `mcphub up` prints."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.test import Client
from redis import Redis

from tenants import services
from tests.conftest import BundledValkey
from tests.world import World


def path_of(link: str) -> str:
    return urlsplit(link).path


def test_link_logs_in_once_and_leads_to_the_admin_site(client: Client, world: World) -> None:
    link = services.make_login_link(world.root)
    assert link.startswith("http://127.0.0.1:8000/login/once/")
    answer = client.get(path_of(link))
    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
    assert answer["Referrer-Policy"] == "no-referrer"
    assert "no-store" in answer["Cache-Control"]
    assert client.get("/admin/").status_code == 200


def test_used_link_is_gone_for_everybody(client: Client, world: World) -> None:
    path = path_of(services.make_login_link(world.root))
    client.get(path)
    second = Client()
    replay = second.get(path)
    assert (replay.status_code, replay.content) == (
        410,
        b"This link was used already, or it is too old.\n",
    )
    assert second.get("/admin/").status_code == 302


def test_unknown_link_answers_as_a_used_one_does(client: Client, world: World) -> None:
    assert client.get("/login/once/" + "0" * 64).status_code == 410


def test_looking_ahead_does_not_spend_the_link(client: Client, world: World) -> None:
    path = path_of(services.make_login_link(world.root, to="/"))
    looks = [
        client.head(path).status_code,
        client.post(path).status_code,
        client.get(path, headers={"Sec-Purpose": "prefetch;prerender"}).status_code,
    ]
    assert looks == [405, 405, 204]
    answer = client.get(path)
    assert (answer.status_code, answer["Location"]) == (302, "/")


def test_link_of_a_switched_off_user_is_gone(client: Client, world: World) -> None:
    path = path_of(services.make_login_link(world.root))
    world.root.is_active = False
    world.root.save()
    assert client.get(path).status_code == 410


def test_link_is_forgotten_in_ten_minutes_and_not_kept_in_clear(world: World, redis: Redis) -> None:
    token = path_of(services.make_login_link(world.root)).rpartition("/")[2]
    (name,) = [key for key in redis.scan_iter() if b":login-link:" in key]
    assert token.encode() not in name
    assert 0 < redis.ttl(name) <= 600


def test_a_link_that_cannot_be_looked_up_is_told_to_be_tried_again(
    client: Client, own_valkey: BundledValkey
) -> None:
    own_valkey.stop()
    try:
        page = client.get("/login/once/anything", headers={"Accept": "text/html"})
        problem = client.get("/login/once/anything", headers={"Accept": "application/json"})
    finally:
        own_valkey.start()
    assert (page.status_code, page["Content-Type"]) == (503, "text/plain; charset=utf-8")
    assert int(page["Retry-After"]) > 0
    assert "Try again" in page.content.decode()
    assert (problem.status_code, problem.json()["code"]) == (503, "unavailable")
