"""The stack: the services of docker-compose.yml as processes, a fault proxy between each pair."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psycopg
from redis import Redis

from chaos import compose
from chaos.processes import Program, Programs
from chaos.proxy import FaultProxy, Mode
from mcphub.core.crypto import KeyRing
from mcphub.up import valkey
from tests.live.api import Api
from tests.waiting import eventually

START_SECONDS = 60.0
WORKERS = ("worker1", "worker2")
WEBS = ("web1", "web2")
TTL = "6s"
LIMITS = (
    "max_concurrent_calls = 20000, calls_per_minute = 0, "
    "max_connections = 20000, max_custom_servers = 20000"
)


@dataclass(slots=True, kw_only=True)
class Stack:
    """A running stack; faults come from its proxy and its programs."""

    home: Path
    database_url: str
    redis_port: int
    proxy: FaultProxy
    programs: Programs
    ports: dict[str, int] = field(default_factory=dict)
    clients: list[httpx.Client] = field(default_factory=list)
    settings: Mapping[str, str] = field(default_factory=dict)
    key: str = ""

    @property
    def is_postgresql(self) -> bool:
        return self.database_url.startswith("postgres")

    def url(self, web: str) -> str:
        return f"http://127.0.0.1:{self.ports[web]}"

    def api(self, web: str = "web1", key: str = "") -> Api:
        """Return what an app sees of one web process."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        client = httpx.Client(
            base_url=self.url(web), headers=headers, timeout=70.0, trust_env=False, limits=limits
        )
        self.clients.append(client)
        return Api(client)

    def redis(self) -> Redis:
        """Return a client that goes past the proxy."""
        return Redis(port=self.redis_port, socket_timeout=5)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement past the proxy; `%s` marks values."""
        if self.is_postgresql:
            with psycopg.connect(self.database_url) as database:
                found = database.execute(statement.encode(), values)
                return found.fetchall() if found.description else []
        file = sqlite3.connect(self.home / "hub.sqlite3", timeout=20)
        with file:
            rows = file.execute(statement.replace("%s", "?"), values).fetchall()
        file.close()
        return rows

    def holder(self, slug: str) -> str:
        """The worker process that holds the session of a server; "" for none."""
        rows = self.sql("SELECT held_by FROM connectors_connection WHERE slug = %s", slug)
        return f"worker{rows[0][0][1]}" if rows and rows[0][0] else ""

    def ready(self) -> dict[str, Any]:
        """What `/readyz` of the first web process says; {} when it does not answer."""
        try:
            answer: dict[str, Any] = httpx.get(
                f"{self.url('web1')}/readyz", timeout=5, trust_env=False
            ).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return answer

    def is_whole(self) -> bool:
        """Whether every part works: both web, both workers, beat, the stores."""
        answer = self.ready()
        return answer.get("status") == "ok" and answer["workers"] == len(WORKERS) and self._webs()

    def _webs(self) -> bool:
        try:
            return all(
                httpx.get(f"{self.url(web)}/livez", timeout=2, trust_env=False).is_success
                for web in WEBS
            )
        except httpx.HTTPError:
            return False

    def heal(self) -> None:
        """End every fault and wait until the stack is whole."""
        self.proxy.become(Mode.PASS)
        for name in self.programs.names():
            self.programs.release(name)
        eventually(self.is_whole, START_SECONDS, "the stack is whole")

    def new_tenant(self, name: str, *, is_limited: bool = False) -> str:
        """Make a tenant of its own; returns an API key of every scope."""
        slug = f"{name}-{secrets.token_hex(3)}"
        key = self.run("create-tenant", slug, "--owner", f"{slug}@example.org").strip()
        if not is_limited:
            self.sql(f"UPDATE tenants_tenant SET {LIMITS} WHERE name = %s", slug)
        return key

    def run(self, *arguments: str) -> str:
        """Run one `mcphub` command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "mcphub.cli", *arguments],
            env=self.environment("migrate"),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def environment(self, instance: str) -> dict[str, str]:
        """Return what a process gets: the file's environment, secrets as files, its own links."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("MCPHUB_")}
        service = next(s for s in compose.services().values() if instance in s.instances)
        settings = {
            name: value.replace("/run/secrets", str(self.home / "secrets" / instance))
            for name, value in service.environment.items()
        }
        self._write_secrets(instance)
        return {
            **kept,
            **settings,
            "MCPHUB_BASE_URL": "http://127.0.0.1:8000",
            "MCPHUB_EGRESS_ALLOW_LOOPBACK": "1",
            "MCPHUB_WORKER_TTL": TTL,
            "PYTHONUNBUFFERED": "1",
            **self.settings,
        }

    def _write_secrets(self, instance: str) -> None:
        folder = self.home / "secrets" / instance
        if folder.exists():
            return
        folder.mkdir(parents=True)
        keys = self.home / "keys"
        if not keys.exists():
            keys.write_text(KeyRing.new_key("k1"))
        database = self.database_url
        if self.is_postgresql:
            parts = urlsplit(database)
            place = (parts.hostname or "127.0.0.1", parts.port or 5432)
            link = self.proxy.link(f"{instance}>database", *place)
            user = parts.netloc.rpartition("@")[0]
            netloc = f"{user}@127.0.0.1:{link.port}" if user else f"127.0.0.1:{link.port}"
            database = urlunsplit(parts._replace(netloc=netloc))
        redis = self.proxy.link(f"{instance}>redis", "127.0.0.1", self.redis_port)
        values = {
            "secret_key": "chaos" * 12,
            "keys": keys.read_text(),
            "database_url": database,
            "redis_url": f"redis://127.0.0.1:{redis.port}/0",
        }
        for name, value in values.items():
            (folder / name).write_text(value)

    def start(self) -> None:
        """Start Redis, migrate, then everything else, in the order of the file."""
        services = compose.services()
        redis = services["redis"].command
        self._add("redis", (redis_binary(), *redis[1:], "--port", str(self.redis_port)))
        eventually(self._redis_answers, 10.0, "Redis answers")
        self.run(*services["migrate"].command)
        for service in services.values():
            if service.is_ours and service.name != "migrate":
                for instance in service.instances:
                    self._add(instance, self._command(service.command, instance))
        eventually(self.is_whole, START_SECONDS, "the stack is whole")
        self.key = self.new_tenant("owner")

    def _command(self, command: Sequence[str], instance: str) -> tuple[str, ...]:
        if instance in WEBS:
            self.ports[instance] = free_port()
            command = [
                str(self.ports[instance])
                if part == "8000"
                else part.replace("0.0.0.0", "127.0.0.1")
                for part in command
            ]
        return (sys.executable, "-m", "mcphub.cli", *command)

    def _add(self, name: str, command: Sequence[str]) -> None:
        is_ours = name != "redis"
        self.programs.add(
            Program(
                name=name,
                command=command,
                environment=self.environment(name) if is_ours else dict(os.environ),
                log=self.home / f"{name}.log",
            )
        )

    def _redis_answers(self) -> bool:
        try:
            return bool(self.redis().ping())
        except OSError:
            return False
        except Exception as exc:  # noqa: BLE001  (still loading)
            return "LOADING" not in str(exc) and False

    def logs(self, size: int = 3000) -> str:
        """The end of every log."""
        return "\n".join(
            f"--- {name}\n{self.programs[name].text()[-size:]}" for name in self.programs.names()
        )


def redis_binary() -> str:
    """Return the server to run: the machine's own, else the bundled one."""
    return shutil.which("redis-server") or shutil.which("valkey-server") or valkey.binary()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


@contextmanager
def database(server: str, home: Path) -> Iterator[str]:
    """Yield the URL of a new database on `server`; a file in `home` without one."""
    if not server:
        yield f"sqlite:///{str(home / 'hub.sqlite3').lstrip('/')}"
        return
    name = f"mcphub_chaos_{os.getpid()}_{secrets.token_hex(3)}"
    with psycopg.connect(server, autocommit=True) as session:
        session.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        finally:
            session.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@contextmanager
def running(server: str, settings: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """Start a stack of its own; everything is gone when the block ends."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-chaos-")))
        url = stack.enter_context(database(server, home))
        proxy = FaultProxy()
        stack.callback(proxy.close)
        programs = Programs()
        stack.callback(programs.close)
        found = Stack(
            home=home,
            database_url=url,
            redis_port=free_port(),
            proxy=proxy,
            programs=programs,
            settings=settings or {},
        )
        try:
            found.start()
        except BaseException:
            print(found.logs(), file=sys.stderr)
            raise
        yield found
        for client in found.clients:
            client.close()
