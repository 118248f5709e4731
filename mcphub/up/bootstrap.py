"""What a database needs before the first request: tables, an owner with an API key, the demo.

Runs as its own process (it loads Django, the supervisor does not) and answers with one line of JSON
on standard output: {"apiKey", "adminUrl"} or {"error"}, the line to show.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import DatabaseError, connection
from redis import RedisError

from mcphub.up.home import write_private


class NotReadyError(Exception):
    """A store cannot be used; the text is the line to show, without any password."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="mcphub.up.bootstrap")
    parser.add_argument("--api-key-file", type=Path, required=True)
    parser.add_argument("--demo-url", required=True)
    arguments = parser.parse_args()
    try:
        answer = prepare(arguments.api_key_file, arguments.demo_url)
    except (ImproperlyConfigured, NotReadyError) as exc:
        answer = {"error": first_line(exc)}
    print(json.dumps(answer), flush=True)  # noqa: T201  (the answer to the supervisor)


def prepare(api_key_file: Path, demo_url: str) -> dict[str, str]:
    """Bring the stores up to date; safe to repeat."""
    django.setup()
    from mcphub.core.keys import key_ring  # noqa: PLC0415  (needs the settings)
    from mcphub.up import account  # noqa: PLC0415  (needs the app registry)
    from tenants.services import make_login_link  # noqa: PLC0415

    key_ring()
    check_redis()
    migrate()
    owner = account.ensure_owner()
    account.ensure_demo_connector(demo_url)
    api_key = account.ensure_api_key(owner, kept_key(api_key_file))
    write_private(api_key_file, api_key)
    return {"apiKey": api_key, "adminUrl": make_login_link(account.operator(account.OWNER))}


def check_redis() -> None:
    from mcphub.core import redis  # noqa: PLC0415  (needs the settings)

    try:
        redis.open_sync().ping()
    except (RedisError, OSError, ValueError) as exc:
        raise NotReadyError(
            f"MCPHUB_REDIS_URL: no Redis or Valkey answers there ({first_line(exc)})"
        ) from exc


def migrate() -> None:
    try:
        connection.ensure_connection()
        call_command("migrate", interactive=False, verbosity=0)
    except DatabaseError as exc:
        kind = settings.DATABASES["default"]["ENGINE"].rpartition(".")[2]
        raise NotReadyError(
            f"MCPHUB_DATABASE_URL: the {kind} database cannot be used ({first_line(exc)})"
        ) from exc


def kept_key(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as exc:
        raise NotReadyError(f"cannot read {path}; remove it to get a new API key") from exc


def first_line(exc: Exception) -> str:
    return (str(exc).strip() or type(exc).__name__).splitlines()[0]


if __name__ == "__main__":
    main()
