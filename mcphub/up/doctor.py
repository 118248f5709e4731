"""`mcphub doctor`: looks at every part that the hub needs; each finding says what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from django.conf import settings
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from redis import Redis
from redis.exceptions import RedisError

from connectors import queue
from connectors.queue.beat import beat_key
from mcphub.core import redis as hub_redis
from mcphub.core.egress import policy_from_settings
from mcphub.core.errors import UnavailableError
from mcphub.core.keys import key_ring
from mcphub.up import rotation
from mcphub.up.findings import Check, Report, Verdict

OLDEST_REDIS = 7
SKEW_WARN, SKEW_FAIL = 2.0, 30.0
EGRESS_CHECKS = frozenset({"mcphub.W002", "mcphub.W004", "mcphub.W007"})


def examine(only: Iterable[str] = ()) -> Report:
    """Run the checks named, all by default; one that cannot be made fails with its reason."""
    names = frozenset(only)
    found: list[Check] = []
    for name, look in CHECKS.items():
        if not names or name in names:
            found += look()
    return Report(checks=found)


def ok(name: str, detail: str) -> list[Check]:
    return [Check(name=name, verdict=Verdict.OK, detail=detail)]


def warn(name: str, detail: str, hint: str) -> list[Check]:
    return [Check(name=name, verdict=Verdict.WARN, detail=detail, hint=hint)]


def fail(name: str, detail: str, hint: str) -> list[Check]:
    return [Check(name=name, verdict=Verdict.FAIL, detail=detail, hint=hint)]


def look_at_settings() -> list[Check]:
    return _system_checks("settings", lambda check: check.id not in EGRESS_CHECKS) or ok(
        "settings", settings.BASE_URL
    )


def look_at_egress() -> list[Check]:
    try:
        policy = policy_from_settings()
    except (ImproperlyConfigured, ValueError) as exc:
        return fail("egress", first_line(exc), "Correct MCPHUB_EGRESS_ALLOW.")
    rules = f"ports {', '.join(map(str, sorted(policy.ports)))}; {len(policy.allow)} exceptions"
    if policy.allow_loopback:
        rules += "; this machine (loopback) allowed"
    return _system_checks("egress", lambda check: check.id in EGRESS_CHECKS) or ok("egress", rules)


def _system_checks(name: str, is_meant: Callable[[checks.CheckMessage], bool]) -> list[Check]:
    found = [check for check in checks.run_checks(tags=["mcphub"]) if is_meant(check)]
    return [
        Check(
            name=name,
            verdict=Verdict.FAIL if check.level >= checks.ERROR else Verdict.WARN,
            detail=f"{check.msg} ({check.id})",
            hint=check.hint or "",
        )
        for check in found
    ]


def look_at_keys() -> list[Check]:
    """Open the oldest and the newest secret of every kind."""
    try:
        ring = key_ring()
        shut = [
            f"{column.model.__name__}.{column.field}"
            for column in rotation.sealed_columns()
            if not all(rotation.opens(ring, row) for row in rotation.samples(column))
        ]
    except (ImproperlyConfigured, ValueError) as exc:
        return fail("keys", first_line(exc), "Set MCPHUB_KEYS or MCPHUB_KEYS_FILE.")
    except DatabaseError as exc:
        return warn("keys", f"not compared with what is stored: {first_line(exc)}", "")
    if shut:
        hint = "Put the missing old key back at the end of MCPHUB_KEYS."
        return fail("keys", f"no key opens {', '.join(shut)}", hint)
    return ok("keys", f"primary {ring.primary}")


def look_at_database() -> list[Check]:
    started = time.monotonic()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except DatabaseError as exc:
        return fail("database", first_line(exc), "Check MCPHUB_DATABASE_URL and the server.")
    took = (time.monotonic() - started) * 1000
    if connection.vendor == "sqlite":
        return ok("database", f"SQLite, for one machine; {took:.0f} ms")
    return ok("database", f"{connection.vendor}, {took:.0f} ms")


def look_at_migrations() -> list[Check]:
    try:
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as exc:
        return fail("migrations", first_line(exc), "Check the database first.")
    if plan:
        return fail("migrations", f"{len(plan)} not applied", "Run `mcphub migrate`.")
    return ok("migrations", "all applied")


def look_at_redis() -> list[Check]:
    client = hub_redis.open_sync(read_seconds=2.0, retries=0)
    try:
        return judge_redis(client)
    except (RedisError, OSError) as exc:
        return fail("redis", first_line(exc), "Check MCPHUB_REDIS_URL and the server.")
    finally:
        client.close()


def judge_redis(client: Redis) -> list[Check]:
    """Version, durability and eviction. Raises RedisError."""
    about = {**client.info("server"), **client.info("persistence"), **client.info("memory")}
    name = str(about.get("server_name", "redis")).capitalize()
    version = str(about.get("valkey_version") or about["redis_version"])
    found: list[Check] = []
    if int(version.split(".", maxsplit=1)[0]) < OLDEST_REDIS:
        found += fail("redis", f"{name} {version} is too old", "Use Redis 7 or Valkey.")
    policy = about.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        hint = "Set maxmemory-policy noeviction: evicted life signs look like dead workers."
        found += fail("redis", f"keys may be evicted ({policy})", hint)
    if not about.get("aof_enabled"):
        hint = "Set appendonly yes; without it a restart delays calls that wait (none is lost)."
        found += warn("redis", "nothing is appended to disk", hint)
    return found or ok("redis", f"{name} {version}, appended to disk, no eviction")


def look_at_clock() -> list[Check]:
    """Deadlines are compared between machines, so their clocks have to agree."""
    found = [*_compared("database", _database_time), *_compared("redis", _redis_time)]
    return found or ok("clock", "agrees with database and Redis")


def _compared(what: str, ask: Callable[[], float | None]) -> list[Check]:
    started = time.time()
    try:
        answer = ask()
    except (DatabaseError, RedisError, OSError):
        return warn("clock", f"not compared with {what}", f"See the line of {what}.")
    if answer is None:
        return []
    skew = abs(answer - (started + time.time()) / 2)
    if skew < SKEW_WARN:
        return []
    judge = fail if skew >= SKEW_FAIL else warn
    return judge("clock", f"{skew:.1f} s away from {what}", "Run NTP on both machines.")


def _database_time() -> float | None:
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        return float(cursor.fetchone()[0])


def _redis_time() -> float:
    client = hub_redis.open_sync(read_seconds=2.0, retries=0)
    try:
        seconds, microseconds = client.time()
    finally:
        client.close()
    return float(seconds + microseconds / 1e6)


def look_at_workers() -> list[Check]:
    try:
        loads = queue.live_workers_sync()
    except UnavailableError as exc:
        return fail("workers", exc.detail, "Check Redis first.")
    able = [load for load in loads if not load.is_draining]
    if not able:
        return fail("workers", "none is alive", "Start one: `mcphub worker --slot w1`.")
    sessions = sum(load.sessions for load in able)
    calls = sum(load.calls for load in able)
    return ok("workers", f"{len(able)} alive, {sessions} sessions, {calls} calls in flight")


def look_at_beat() -> list[Check]:
    client = hub_redis.open_sync(read_seconds=2.0, retries=0)
    try:
        is_beating = bool(client.exists(beat_key()))
    except (RedisError, OSError) as exc:
        return fail("beat", first_line(exc), "Check Redis first.")
    finally:
        client.close()
    if is_beating:
        return ok("beat", "seen within 20 s")
    hint = "Start it: `mcphub beat`; without it nobody looks for dead workers."
    return fail("beat", "not seen for 20 s", hint)


CHECKS: dict[str, Callable[[], list[Check]]] = {
    "settings": look_at_settings,
    "keys": look_at_keys,
    "egress": look_at_egress,
    "database": look_at_database,
    "migrations": look_at_migrations,
    "redis": look_at_redis,
    "clock": look_at_clock,
    "workers": look_at_workers,
    "beat": look_at_beat,
}


def first_line(exc: BaseException) -> str:
    return (str(exc).strip() or type(exc).__name__).splitlines()[0]
