"""Database work of a loop runs on threads, whose connections end with them."""

from __future__ import annotations

import threading

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from mcphub.core.offload import DatabaseThreads
from tenants.models import Tenant

pytestmark = pytest.mark.django_db(transaction=True)


def used_connection() -> tuple[int, BaseDatabaseWrapper]:
    Tenant.objects.count()
    return threading.get_ident(), connection._connections[connection._alias]  # type: ignore[attr-defined]  # the thread's own


async def test_work_runs_in_another_thread_whose_connection_is_closed() -> None:
    threads = DatabaseThreads(name="test", threads=2)
    ident, used = await threads.run(used_connection)
    threads.close()
    assert ident != threading.get_ident()
    assert used.connection is None


async def test_a_failure_reaches_the_caller() -> None:
    threads = DatabaseThreads(name="test", threads=1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    threads.close()
