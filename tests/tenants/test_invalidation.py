"""What is cached of a principal, for how long, and that a change ends it everywhere at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from redis import Redis

from mcphub.core import redis as hub_redis
from mcphub.core.errors import NotAuthenticatedError
from tenants import api_keys, credentials, invalidation
from tenants.credentials import Shown
from tenants.invalidation import Change
from tenants.models import ApiKey, Membership
from tests import factories
from tests.conftest import BundledValkey
from tests.waiting import eventually
from tests.world import World


@pytest.fixture(autouse=True)
def _listening(redis: Redis) -> None:
    eventually(invalidation.is_listening)


@pytest.fixture
def changes() -> Iterator[list[Change]]:
    seen: list[Change] = []
    stop = invalidation.subscribe(seen.append)
    yield seen
    stop()


def shown_by(world: World) -> Shown:
    return Shown(authorization=f"Bearer {world.alice.key}")


def test_second_request_costs_no_query(world: World) -> None:
    first = credentials.resolve(shown_by(world))
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert credentials.resolve(shown_by(world)) is first
    assert len(queries) == 0


def test_cached_principal_needs_no_thread_in_a_loop(world: World) -> None:
    first = credentials.resolve(shown_by(world))
    assert asyncio.run(credentials.aresolve(shown_by(world))) is first


def test_revocation_ends_the_cached_principal_at_once(world: World) -> None:
    credentials.resolve(shown_by(world))
    api_keys.end(ApiKey.unscoped.get(member=world.alice.member))
    with pytest.raises(NotAuthenticatedError):
        credentials.resolve(shown_by(world))


def test_change_of_one_tenant_leaves_the_others_cached(world: World) -> None:
    other = Shown(authorization=f"Bearer {world.charlie.key}")
    credentials.resolve(shown_by(world))
    kept = credentials.resolve(other)
    invalidation.announce(Change(tenant_id=world.alice.tenant.id))
    assert credentials.known(shown_by(world)) is None
    assert credentials.known(other) is kept


def test_look_up_that_a_change_overtook_is_not_kept(world: World) -> None:
    principal = credentials.resolve(shown_by(world))
    generation = invalidation.principals.generation
    invalidation.announce(Change(tenant_id=world.alice.tenant.id))
    invalidation.principals.put(b"d", principal, seconds=5, generation=generation)
    assert invalidation.principals.get(b"d") is None


def test_entry_ends_with_its_credential(world: World) -> None:
    principal = credentials.resolve(shown_by(world))
    generation = invalidation.principals.generation
    invalidation.principals.put(b"d", principal, seconds=-1, generation=generation)
    assert invalidation.principals.get(b"d") is None


def test_other_process_hears_of_a_change_after_the_commit(
    world: World, changes: list[Change], django_capture_on_commit_callbacks: Any
) -> None:
    listener = hub_redis.open_sync().pubsub()  # type: ignore[no-untyped-call]  # of redis
    listener.subscribe(hub_redis.key("principals-changed"))
    listener.get_message(timeout=5)
    tenant = world.alice.tenant.id
    with django_capture_on_commit_callbacks(execute=True):
        invalidation.announce(Change(tenant_id=tenant))
        assert listener.get_message(timeout=0.0) is None
    message = listener.get_message(timeout=5)
    listener.close()
    assert message["data"].decode() == f"{tenant.hex} "
    assert changes[0] == Change(tenant_id=tenant)


def test_change_in_another_process_ends_what_is_cached_here(
    world: World, changes: list[Change]
) -> None:
    credentials.resolve(shown_by(world))
    code = (
        "import django; django.setup();"
        "from tenants.invalidation import Change, announce; import sys, uuid;"
        "announce(Change(tenant_id=uuid.UUID(sys.argv[1])))"
    )
    tenant = world.alice.tenant.id
    subprocess.run([sys.executable, "-c", code, tenant.hex], check=True, timeout=30)
    eventually(lambda: changes)
    assert changes == [Change(tenant_id=tenant)]
    assert credentials.known(shown_by(world)) is None


def test_without_redis_nothing_is_cached_and_keys_still_work(
    world: World, valkey: BundledValkey | None
) -> None:
    if valkey is None:
        pytest.skip("a Redis of others is not stopped")
    credentials.resolve(shown_by(world))
    valkey.stop()
    try:
        eventually(lambda: not invalidation.is_listening())
        assert credentials.known(shown_by(world)) is None
        assert credentials.resolve(shown_by(world)).member_id == world.alice.member.id
        api_keys.end(ApiKey.unscoped.get(member=world.alice.member))
        with pytest.raises(NotAuthenticatedError):
            credentials.resolve(shown_by(world))
    finally:
        valkey.start()
    eventually(invalidation.is_listening)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_listener_that_fails_ends_the_trust_until_the_hub_listens_anew(
    world: World, redis: Redis
) -> None:
    def fail(change: Change) -> None:
        raise LookupError(change)

    credentials.resolve(shown_by(world))
    before = invalidation.hub._pid
    stop = invalidation.subscribe(fail)
    redis.publish(hub_redis.key("principals-changed"), "* ")
    eventually(lambda: not invalidation.hub._is_subscribed)
    stop()
    assert before != 0
    eventually(invalidation.is_listening)
    assert credentials.resolve(shown_by(world)).member_id == world.alice.member.id


def test_save_outside_the_services_is_announced_too(world: World, changes: list[Change]) -> None:
    member = Membership.unscoped.get(pk=world.bob.member.pk)
    member.display_name = "B."
    member.save()
    world.charlie.tenant.save()
    world.alice.user.save()
    ApiKey.unscoped.filter(member=world.bob.member).delete()
    acme, globex = world.alice.tenant.id, world.charlie.tenant.id
    assert changes == [
        Change(tenant_id=acme),
        Change(tenant_id=globex),
        Change(),
        Change(tenant_id=acme),
    ]


def test_new_rows_and_mere_logins_announce_nothing(world: World, changes: list[Change]) -> None:
    factories.make_key(world.alice.member)
    factories.make_end_user(world.alice.tenant)
    world.alice.user.save(update_fields=["last_login"])
    assert changes == []
