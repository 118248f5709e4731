"""Database work of the async views, on a few threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

from mcphub.core.offload import DatabaseThreads

P = ParamSpec("P")
T = TypeVar("T")


@lru_cache(maxsize=1)
def _threads() -> DatabaseThreads:
    return DatabaseThreads(name="api", threads=4)


async def run(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread and return its answer."""
    return await _threads().run(work, *args, **kwargs)


def close() -> None:
    """End the threads with their database connections."""
    if _threads.cache_info().currsize:
        _threads().close()
        _threads.cache_clear()
