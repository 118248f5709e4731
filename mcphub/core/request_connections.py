"""Database connections of Django's request threads: none outlives its request."""

from __future__ import annotations

import asyncio

from django.db import connections


def let_go(**_: object) -> None:
    """Close this thread's connections (a receiver of `request_finished`).

    Under ASGI Django serves each request on a thread of its own: a kept connection could never be
    used again, and would stay open until it is collected.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()
