"""How long a request waits for the database before it says that it is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcphub.core.errors import UnavailableError

DATABASE_SECONDS = 1.5


@asynccontextmanager
async def database_patience() -> AsyncIterator[None]:
    """Bound what asks the database. Raises UnavailableError; the question itself goes on."""
    try:
        async with asyncio.timeout(DATABASE_SECONDS):
            yield
    except TimeoutError as exc:
        raise UnavailableError("The database is away.", retry_after=1.0) from exc
