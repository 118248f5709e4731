"""WebSockets of a tenant: who may open one, the close codes, and the end on a change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from redis import Redis

from tenants import api_keys, credentials, invalidation, tickets
from tenants.cors import allowed_origins
from tenants.models import ApiKey, Membership, Role
from tenants.sockets import TenantConsumer
from tests import factories
from tests.waiting import eventually
from tests.websocket import SocketClient
from tests.world import World

pytestmark = pytest.mark.django_db(transaction=True)

OWN = "http://127.0.0.1:8000"
APP = "https://app.example"
EVIL = "https://evil.example"


class Hello(TenantConsumer):
    """Says who it thinks is there, at the start and on each change."""

    async def opened(self) -> None:
        await self.send(text_data=self.principal.member_id.hex)

    async def principal_changed(self) -> None:
        await self.send(text_data=" ".join(sorted(self.principal.scopes)))


class Impatient(Hello):
    check_seconds = 0.05


@pytest.fixture(autouse=True)
def _listening(redis: Redis) -> None:
    eventually(invalidation.is_listening)


def socket(
    consumer: type[TenantConsumer] = Hello, /, *, protocols: Sequence[str] = (), **headers: str
) -> SocketClient:
    return SocketClient(consumer.as_asgi(), protocols=protocols, headers=headers)


@asynccontextmanager
async def opened(client: SocketClient) -> AsyncIterator[SocketClient]:
    assert await client.open() != "refused"
    yield client
    await client.close()


async def in_thread(work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return await sync_to_async(work)(*args, **kwargs)


def ticket_of(world: World) -> list[str]:
    return ["mcphub.v1", f"mcphub.ticket.{tickets.issue(_known(world)).ticket}"]


def _known(world: World) -> Any:
    return credentials.resolve(credentials.Shown(authorization=f"Bearer {world.bob.key}"))


def cookie_of(user: Any) -> str:
    client = Client()
    client.force_login(user)
    return f"mcphub={client.cookies['mcphub'].value}"


async def test_ticket_opens_a_socket_once_and_selects_the_protocol(world: World) -> None:
    protocols = await in_thread(ticket_of, world)
    channel = socket(protocols=protocols, origin=OWN)
    assert await channel.open() == "mcphub.v1"
    assert await channel.read() == world.bob.member.id.hex
    await channel.close()
    again = socket(protocols=protocols, origin=OWN)
    assert await again.open() == "mcphub.v1"
    assert await again.close_code() == 4401


async def test_login_cookie_opens_a_socket_from_the_hubs_own_pages_only(world: World) -> None:
    cookie = await in_thread(cookie_of, world.bob.user)
    async with opened(socket(cookie=cookie, origin=OWN)) as channel:
        assert await channel.read() == world.bob.member.id.hex
    for headers in ({"origin": EVIL}, {}, {"origin": "null"}):
        assert await socket(cookie=cookie, **headers).open() == "refused"


async def test_cookie_from_an_origin_of_the_tenant_is_still_refused(world: World) -> None:
    world.bob.tenant.allowed_origins = [APP]
    await in_thread(world.bob.tenant.save)
    cookie = await in_thread(cookie_of, world.bob.user)
    assert await socket(cookie=cookie, origin=APP).open() == "refused"


async def test_ticket_from_an_origin_of_a_tenant_opens_a_socket(world: World) -> None:
    world.bob.tenant.allowed_origins = [APP]
    await in_thread(world.bob.tenant.save)
    allowed_origins.forget()
    protocols = await in_thread(ticket_of, world)
    async with opened(socket(protocols=protocols, origin=APP)) as channel:
        assert await channel.read() == world.bob.member.id.hex
    evil = socket(protocols=await in_thread(ticket_of, world), origin=EVIL)
    assert await evil.open() == "refused"


async def test_key_opens_a_socket_without_an_origin(world: World) -> None:
    channel = socket(authorization=f"Bearer {world.alice.key}")
    async with opened(channel):
        assert await channel.read() == world.alice.member.id.hex


async def test_foreign_host_header_is_refused(world: World) -> None:
    channel = socket(authorization=f"Bearer {world.alice.key}", host="evil.example")
    assert await channel.open() == "refused"


async def test_nobody_is_told_4401_after_the_accept(world: World) -> None:
    for headers in ({"origin": OWN}, {"authorization": "Bearer mhk_0_0"}):
        channel = socket(**headers)
        assert await channel.open() == ""
        assert await channel.close_code() == 4401


async def test_login_without_membership_is_told_4403(world: World) -> None:
    cookie = await in_thread(cookie_of, world.root)
    channel = socket(cookie=cookie, origin=OWN)
    assert await channel.open() == ""
    assert await channel.close_code() == 4403


async def test_connect_session_opens_a_socket_from_its_own_origins_only(world: World) -> None:
    made = await in_thread(factories.make_connect_session, world.alice.member, origins=[APP])
    other = "https://other.example"
    world.charlie.tenant.allowed_origins = [other]
    await in_thread(world.charlie.tenant.save)
    allowed_origins.forget()
    authorization = f"Bearer {made.token}"
    async with opened(socket(authorization=authorization, origin=APP)) as channel:
        assert await channel.read() == made.session.member_id.hex
    refused = socket(authorization=authorization, origin=other)
    assert await refused.open() == "refused"


async def test_revoked_key_closes_its_sockets_at_once(world: World) -> None:
    protocols = await in_thread(ticket_of, world)
    channel = socket(protocols=protocols)
    await channel.open()
    await channel.read()
    key = await in_thread(ApiKey.unscoped.get, member=world.bob.member)
    await in_thread(api_keys.end, key)
    assert await channel.close_code() == 4401


async def test_logout_closes_the_sockets_of_that_login_only(world: World) -> None:
    browser = Client()
    await in_thread(browser.force_login, world.bob.user)
    cookie = f"mcphub={browser.cookies['mcphub'].value}"
    other = await in_thread(cookie_of, world.bob.user)
    leaving, staying = (socket(cookie=one, origin=OWN) for one in (cookie, other))
    for channel in (leaving, staying):
        await channel.open()
        await channel.read()
    await in_thread(browser.logout)
    assert await leaving.close_code() == 4401
    assert await staying.is_quiet()
    await staying.close()


async def test_change_of_role_reaches_the_open_socket(world: World) -> None:
    cookie = await in_thread(cookie_of, world.bob.user)
    async with opened(socket(cookie=cookie, origin=OWN)) as channel:
        await channel.read()
        member = await in_thread(Membership.unscoped.get, pk=world.bob.member.pk)
        member.role = Role.ADMIN
        await in_thread(member.save)
        assert "members:write" in await channel.read()


async def test_change_that_nobody_announced_is_found_without_redis_within_the_interval(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = socket(Impatient, authorization=f"Bearer {world.bob.key}")
    await channel.open()
    await channel.read()
    monkeypatch.setattr(invalidation, "is_listening", lambda: False)
    await in_thread(Membership.unscoped.filter(pk=world.bob.member.pk).update, is_active=False)
    assert await channel.close_code() == 4401


async def test_closing_ends_the_watch(world: World) -> None:
    before = len(invalidation.hub.listeners)
    async with opened(socket(authorization=f"Bearer {world.bob.key}")) as channel:
        await channel.read()
        assert len(invalidation.hub.listeners) == before + 1
    assert len(invalidation.hub.listeners) == before
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]  # type: ignore[union-attr]
    assert "_Watch._run" not in names


async def test_socket_for_an_end_user_without_a_name_is_closed(world: World) -> None:
    headers = {"authorization": f"Bearer {world.alice.key}", "mcphub-end-user": ""}
    channel = socket(**headers)
    assert await channel.open() == ""
    assert await channel.close_code() == 4403
