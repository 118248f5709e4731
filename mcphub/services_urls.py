"""Turns one address into what Django, Celery and Host checks want; pure."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

SQLITE_INIT = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; "
    "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16000;"
)

NETWORK = {
    "connect_timeout": "2",
    "tcp_user_timeout": "3000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
}
"""Of libpq: how fast a server is noticed to be gone that does not say so (seconds; ms)."""


def database(url: str) -> dict[str, Any]:
    """Return Django's settings for `postgres://user:password@host:port/name?option=…`.

    `sqlite:///path` names an absolute path, with three or four slashes.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": re.sub("^//+", "/", unquote(parts.path)),
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": SQLITE_INIT,
            },
        }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**NETWORK, **dict(parse_qsl(parts.query))},
    }


def celery_broker(redis_url: str) -> str:
    """Return kombu's spelling of a Redis address: unix sockets are `redis+socket://…?virtual_host=N`."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    number = dict(parse_qsl(parts.query)).get("db", "0")
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={number}"


def hosts_of(base_url: str) -> list[str]:
    """Host names that the base address implies; every loopback spelling for a loopback address."""
    host = urlsplit(base_url).hostname or "127.0.0.1"
    loopback = ["127.0.0.1", "localhost", "[::1]"]
    if host in {"127.0.0.1", "localhost", "::1"}:
        return loopback
    return [f"[{host}]" if ":" in host else host]
