"""The running stack of the live tests: one a run, on the test database."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
from django.db import connection
from pytest_django.plugin import DjangoDbBlocker

from tests.fakes.mcp_servers import Kind, RunningServer
from tests.fakes.mcp_servers import running as serving
from tests.live.api import Api
from tests.live.newcomer import Newcomer, newcomer_at
from tests.live.stack import RunningHub, running

WORKERS = "2"
PREFIX = "live"
"""Not `mcphub`: other tests empty that part of a shared Redis."""
LIVE_TIMEOUT = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lives here; give it the time that processes need."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.live)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(LIVE_TIMEOUT))


def database_url() -> str:
    """Return the address of the test database, as `mcphub up` takes it."""
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(name.lstrip('/'))}"
    parts = urlsplit(os.environ["MCPHUB_DATABASE_URL"])
    return urlunsplit(parts._replace(path=f"/{quote(name)}"))


@pytest.fixture(scope="session")
def stack(
    tmp_path_factory: pytest.TempPathFactory,
    valkey: object,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[RunningHub]:
    """`mcphub up` with two workers. Its rows are committed: make a tenant of your own."""
    with django_db_blocker.unblock():
        url = database_url()
        connection.close()
    shared = {
        "MCPHUB_DATABASE_URL": url,
        "MCPHUB_REDIS_URL": os.environ["MCPHUB_REDIS_URL"],
        "MCPHUB_REDIS_PREFIX": f"{PREFIX}{os.getpid()}",
        "MCPHUB_KEYS": os.environ["MCPHUB_KEYS"],
        "MCPHUB_SECRET_KEY": os.environ["MCPHUB_SECRET_KEY"],
        "MCPHUB_STDIO_ENABLED": "1",
    }
    home = tmp_path_factory.mktemp("stack")
    with running(home, "--workers", WORKERS, **shared) as hub:
        yield hub


@pytest.fixture(autouse=True)
def _committed_rows(stack: RunningHub, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Let live tests use the ORM without a transaction, so that the stack sees what they write."""
    with django_db_blocker.unblock():
        yield
        connection.close()


@pytest.fixture
def newcomer(stack: RunningHub) -> Newcomer:
    """A tenant of the test's own: no other test sees its servers, calls and events."""
    return newcomer_at(stack)


@pytest.fixture(scope="session")
def demo() -> Iterator[RunningServer]:
    """A server of the suite's own that speaks both eras."""
    with serving(Kind.DUAL) as server:
        yield server


@pytest.fixture
def api(newcomer: Newcomer, demo: RunningServer) -> Api:
    """A newcomer who is connected to the suite's own server as `up`."""
    api = Api(newcomer.http)
    api.connected("up", demo.url)
    return api


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every log of the stack below a test that failed."""
    report = yield
    hub = getattr(item, "funcargs", {}).get("stack")
    if call.when == "call" and call.excinfo is not None and isinstance(hub, RunningHub):
        report.sections.append(("logs of the stack", hub.logs()))
    return report
