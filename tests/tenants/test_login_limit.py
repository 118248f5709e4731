"""Guessing passwords at the admin site: few attempts per account and per address."""

from __future__ import annotations

from django.test import Client
from redis import Redis

from tenants.login import PER_ACCOUNT, PER_ADDRESS
from tests.world import World

LOGIN = "/admin/login/"
RIGHT = "correct horse battery staple"


def attempt(client: Client, username: str, password: str, address: str = "198.51.100.7") -> str:
    form = {"username": username, "password": password}
    answer = client.post(LOGIN, form, REMOTE_ADDR=address)
    return "in" if answer.status_code == 302 else answer.text


def test_an_account_is_guessed_at_a_few_times_from_anywhere(
    client: Client, world: World, redis: Redis
) -> None:
    world.root.set_password(RIGHT)
    world.root.save()
    for number in range(PER_ACCOUNT.limit):
        page = attempt(client, world.root.username, "wrong", f"203.0.113.{number}")
        assert "Please enter the correct username and password" in page
    refused = attempt(client, world.root.username.upper(), RIGHT, "203.0.113.99")
    assert "Too many attempts to log in. Wait " in refused
    assert "mcphub admin-link" in refused


def test_an_address_guesses_at_a_few_accounts_and_others_stay_free(
    client: Client, world: World, redis: Redis
) -> None:
    world.root.set_password(RIGHT)
    world.root.save()
    for number in range(PER_ADDRESS.limit):
        attempt(client, f"somebody{number}", "wrong")
    assert "Too many attempts" in attempt(client, world.root.username, RIGHT)
    assert attempt(client, world.root.username, RIGHT, "203.0.113.1") == "in"


def test_the_right_password_at_first_gets_in(client: Client, world: World, redis: Redis) -> None:
    world.root.set_password(RIGHT)
    world.root.save()
    assert attempt(client, world.root.username, RIGHT) == "in"
