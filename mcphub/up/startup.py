"""`mcphub up` from the empty directory to the line that says it is ready."""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

from mcphub.up import listening, valkey
from mcphub.up.environment import STAGES, Launcher, Options, defaults, has
from mcphub.up.errors import StartError, StoppedError
from mcphub.up.home import Home, new_secret_key, write_private
from mcphub.up.supervisor import Supervisor, stopping

VALKEY_SECONDS = 20.0
DATABASE_SECONDS = 300.0
WEB_SECONDS = 90.0
WORKER_SECONDS = 30.0
EXIT_REFUSED = 2


@dataclass(frozen=True, slots=True)
class Terminal:
    """Says things to the person who started the hub; with --json only the ready line is output."""

    is_json: bool

    def say(self, line: str) -> None:
        self._write(f"mcphub: {line}", is_output=not self.is_json)

    def refuse(self, line: str) -> None:
        self._write(f"mcphub: {line}", is_output=False)

    def output(self, line: str) -> None:
        self._write(line, is_output=True)

    @staticmethod
    def _write(line: str, *, is_output: bool) -> None:
        stream = sys.stdout if is_output else sys.stderr
        try:
            print(line, file=stream, flush=True)
        except (BrokenPipeError, ValueError):
            return  # nobody reads any more; the hub goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Everything that the person needs to begin."""

    url: str
    api_key: str
    admin_url: str

    def as_json(self) -> str:
        """`mcpUrl` is where the gateway will answer; scripts may store it already."""
        return json.dumps(
            {
                "url": self.url,
                "apiKey": self.api_key,
                "adminUrl": self.admin_url,
                "mcpUrl": f"{self.url}/mcp",
                "pid": os.getppid(),
            }
        )


def supervise(options: Options, front: int) -> int:
    """Run the hub until it is told to stop. Returns the exit code: 2 when it could not start."""
    os.umask(0o077)
    terminal = Terminal(options.is_json)
    home = Home(options.home)
    try:
        home.create()
        lock = home.lock()
        supervisor = Supervisor(front=front, directory=home.root, say=terminal.say)
        with os.fdopen(lock), stopping(supervisor, STAGES), ExitStack() as stack:
            ready = Startup(options, home, terminal, supervisor, stack).run()
            announce(terminal, ready, home)
            supervisor.watch()
            terminal.say("stopping (again: at once) ...")
    except StartError as exc:
        terminal.refuse(str(exc))
        return EXIT_REFUSED
    except StoppedError:
        return 0
    return 0


@dataclass(frozen=True, slots=True)
class Startup:
    """The steps, in order; each says what it does."""

    options: Options
    home: Home
    terminal: Terminal
    supervisor: Supervisor
    stack: ExitStack

    def run(self) -> Ready:
        say = self.terminal.say
        listener = self._bind(self.options.host, self.options.port)
        base = os.environ.get("MCPHUB_BASE_URL") or listening.url(self.options.host, listener)
        launcher = Launcher(self.home, self._environment(base))
        if not listening.is_loopback(listener) and "MCPHUB_ALLOWED_HOSTS" not in os.environ:
            say(f"only requests to {base} are answered; MCPHUB_ALLOWED_HOSTS adds names")
        say(f"keys: {self.home.root}")
        self._make_keys()
        launcher = self._start_valkey(launcher)
        demo = self._bind("127.0.0.1", 0)
        say("database ...")
        account = self._prepare(launcher, listening.url("127.0.0.1", demo))
        say(f"starting {self.options.webs} web, {self.options.workers} worker, beat, demo ...")
        self._leave_word(launcher)
        self._start_children(launcher, listener, demo)
        self._wait_for_web(listener)
        return Ready(url=base, api_key=account["apiKey"], admin_url=account["adminUrl"])

    def _bind(self, host: str, port: int) -> socket.socket:
        return self.stack.enter_context(listening.bind(host, port))

    def _environment(self, base: str) -> dict[str, str]:
        environment = defaults(self.home)
        environment["MCPHUB_BASE_URL"] = base
        environment.setdefault("MCPHUB_CLIENT_LOGIN", "loopback")
        environment.setdefault("MCPHUB_CLIENT_LOGIN_SCHEMES", "cursor")
        if "MCPHUB_EGRESS_ALLOW_LOOPBACK" not in environment:
            environment["MCPHUB_EGRESS_ALLOW_LOOPBACK"] = "1"
            self.terminal.say(
                "servers on this machine (loopback) may be called, since you sit at it"
            )
        return environment

    def _make_keys(self) -> None:
        if not has(os.environ, "MCPHUB_SECRET_KEY"):
            self.home.secret(self.home.secret_key, new_secret_key)
        if not has(os.environ, "MCPHUB_KEYS"):
            from mcphub.core.crypto import KeyRing  # noqa: PLC0415  (loads OpenSSL, only when keys are made)

            text = self.home.secret(self.home.keys, lambda: KeyRing.new_key("k1"))
            try:
                KeyRing.parse(text)
            except ValueError as exc:
                raise StartError(
                    f"{self.home.keys} holds no usable keys ({exc}); restore it from a backup"
                ) from exc

    def _start_valkey(self, launcher: Launcher) -> Launcher:
        if has(os.environ, "MCPHUB_REDIS_URL"):
            self.terminal.say("broker: the one of MCPHUB_REDIS_URL")
            return launcher
        self.terminal.say("broker: bundled Valkey on a private socket ...")
        sockets = self.home.socket_directory()
        self.stack.callback(self.home.forget_socket_directory, sockets)
        command = valkey.command(stored=self.home.valkey, sockets=sockets)
        self.supervisor.add(launcher.program("valkey", *command))
        self.supervisor.until(lambda: valkey.is_answering(sockets), VALKEY_SECONDS, "Valkey")
        return launcher.with_variable("MCPHUB_REDIS_URL", valkey.url(sockets))

    def _leave_word(self, launcher: Launcher) -> None:
        """Let `mcphub admin-link`, `mcphub doctor` and the like see this hub as it runs."""
        known = defaults(self.home)
        chosen = {n: value for n, value in launcher.environment.items() if n not in known}
        write_private(self.home.running, json.dumps(chosen))
        self.stack.callback(self.home.running.unlink, missing_ok=True)

    def _prepare(self, launcher: Launcher, demo_url: str) -> dict[str, str]:
        arguments = ("--api-key-file", str(self.home.api_key), "--demo-url", f"{demo_url}/mcp")
        command = launcher.python("bootstrap", "mcphub.up.bootstrap", *arguments)
        lines = self.supervisor.run(command, DATABASE_SECONDS).splitlines()
        try:
            answer: dict[str, str] = json.loads(lines[-1])
        except (IndexError, ValueError) as exc:
            raise StartError(f"the database could not be prepared: see {command.log}") from exc
        if "error" in answer:
            raise StartError(answer["error"])
        return answer

    def _start_children(
        self, launcher: Launcher, listener: socket.socket, demo: socket.socket
    ) -> None:
        for number in range(1, self.options.workers + 1):
            self.supervisor.add(launcher.worker(number))
        for number in range(1, self.options.webs + 1):
            self.supervisor.add(launcher.web(number, listener.fileno()))
        self.supervisor.add(launcher.demo(demo.fileno()))
        self.supervisor.add(launcher.beat())

    def _wait_for_web(self, listener: socket.socket) -> None:
        address = urlsplit(listening.url(self.options.host, listener)).netloc
        log = self.home.logs / "web1.log"
        self.supervisor.until(
            lambda: ask(address, "/livez") is not None, WEB_SECONDS, f"the web process (see {log})"
        )
        try:
            self.supervisor.until(
                lambda: has_workers(ask(address, "/readyz"), self.options.workers),
                WORKER_SECONDS,
                "workers",
            )
        except StartError:
            self.terminal.refuse(f"not every part is ready yet: see http://{address}/readyz")


def ask(address: str, path: str) -> bytes | None:
    """Return what the address answers with 200, else None."""
    connection = http.client.HTTPConnection(address, timeout=3.0)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.read() if response.status == http.client.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def has_workers(answer: bytes | None, count: int) -> bool:
    return answer is not None and int(json.loads(answer)["workers"]) >= count


def announce(terminal: Terminal, ready: Ready, home: Home) -> None:
    if terminal.is_json:
        terminal.output(ready.as_json())
        return
    lines = (
        "",
        "  mcphub is ready",
        "",
        f"  URL         {ready.url}/",
        f"  API key     {ready.api_key}",
        f"  Admin       {ready.admin_url}   (works once)",
        f"  Logs        tail -f {home.logs}/*.log",
        "  Stop        Ctrl-C",
        "",
    )
    for line in lines:
        terminal.output(line)
