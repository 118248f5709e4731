"""CORS: closed, but for the origins of tenants and running connect sessions."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from django.test import AsyncClient, Client

from mcphub import asgi
from mcphub.core.clock import now
from tenants.cors import allowed_origins
from tenants.models import ConnectSession, Tenant
from tests import factories
from tests.world import World

CURRENT = "/api/v1/tenants/current"
APP = "https://app.example"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    allowed_origins.forget()
    yield
    allowed_origins.forget()


def allows(client: Client, origin: str, path: str = CURRENT) -> bool:
    answer = client.options(
        path,
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, idempotency-key",
        },
    )
    return answer.get("Access-Control-Allow-Origin") == origin


def test_no_origin_is_allowed_at_first(client: Client, world: World) -> None:
    assert allows(client, APP) is False
    assert allows(client, "null") is False


def test_origin_of_a_tenant_is_allowed_for_the_api_only(client: Client, world: World) -> None:
    world.alice.tenant.allowed_origins = [APP]
    world.alice.tenant.save()
    assert allows(client, APP) is True
    assert allows(client, f"{APP}.evil.example") is False
    assert allows(client, APP, "/admin/") is False


def test_origin_of_a_switched_off_tenant_is_not_allowed(client: Client, world: World) -> None:
    Tenant.objects.filter(pk=world.alice.tenant.pk).update(allowed_origins=[APP], is_active=False)
    assert allows(client, APP) is False


def test_origin_of_a_running_session_is_allowed(client: Client, world: World) -> None:
    factories.make_connect_session(world.alice.member, origins=[APP])
    assert allows(client, APP) is True
    ConnectSession.unscoped.update(expires_at=now())
    allowed_origins.forget()
    assert allows(client, APP) is False


def test_answer_never_allows_cookies(client: Client, world: World) -> None:
    factories.make_connect_session(world.alice.member, origins=[APP])
    answer = client.get(CURRENT, headers={**world.alice.headers, "Origin": APP})
    assert answer["Access-Control-Allow-Origin"] == APP
    assert "Access-Control-Allow-Credentials" not in answer
    assert "x-mcphub-seq" in answer["Access-Control-Expose-Headers"]


@pytest.mark.django_db(transaction=True)
async def test_hot_routes_know_the_origins_too(world: World) -> None:
    world.alice.tenant.allowed_origins = [APP]
    await world.alice.tenant.asave()
    headers = {"Origin": APP, "Access-Control-Request-Method": "POST"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=asgi.http), base_url="http://127.0.0.1:8000"
    ) as client:
        answer = await client.options("/api/v1/tool-calls/batch", headers=headers)
    assert answer.headers["Access-Control-Allow-Origin"] == APP


@pytest.mark.django_db(transaction=True)
async def test_origins_are_read_without_blocking_the_loop(
    async_client: AsyncClient, world: World
) -> None:
    world.alice.tenant.allowed_origins = [APP]
    await world.alice.tenant.asave()
    answer = await async_client.get("/api/v1/problems", headers={"Origin": APP})
    assert answer["Access-Control-Allow-Origin"] == APP
