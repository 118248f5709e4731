"""What every process of one hub gets to know, and how each is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from mcphub.up import roles
from mcphub.up.home import Home
from mcphub.up.processes import Command

WORKER_DRAIN_SECONDS = 28.0
"""The worker ends its calls within 25 s by itself; then it is made to end."""
WEB_STOP_SECONDS = 10.0
STAGES = ("web", "worker", "beat|demo", "valkey")
"""Order of the end: no new requests, then no running calls, then what these needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line of `mcphub up`."""

    host: str = "127.0.0.1"
    port: int = 8000
    home: Path
    workers: int = 1
    webs: int = 1
    is_json: bool = False


def has(environment: Mapping[str, str], name: str) -> bool:
    """Whether the user chose this setting, as a value or as a file."""
    return bool(environment.get(name) or environment.get(f"{name}_FILE"))


def defaults(home: Home) -> dict[str, str]:
    """Return this process's environment, completed by what the home holds."""
    environment = dict(os.environ)
    environment["DJANGO_SETTINGS_MODULE"] = "mcphub.settings"
    environment["PYTHONUNBUFFERED"] = "1"
    kept = {"MCPHUB_SECRET_KEY": home.secret_key, "MCPHUB_KEYS": home.keys}
    for name, path in kept.items():
        if not has(environment, name):
            environment[f"{name}_FILE"] = str(path)
    if not has(environment, "MCPHUB_DATABASE_URL"):
        environment["MCPHUB_DATABASE_URL"] = f"sqlite:///{quote(str(home.database).lstrip('/'))}"
    return environment


@dataclass(frozen=True, slots=True)
class Launcher:
    """Makes the command of every kind of child."""

    home: Home
    environment: Mapping[str, str]

    def with_variable(self, name: str, value: str) -> Launcher:
        return replace(self, environment={**self.environment, name: value})

    def program(self, name: str, *arguments: str) -> Command:
        return Command(
            name=name,
            arguments=arguments,
            environment=self.environment,
            log=self.home.log(name),
            directory=self.home.root,
        )

    def python(self, name: str, module: str, *arguments: str) -> Command:
        """Run a module with this interpreter; -P keeps the working directory off the path."""
        return self.program(name, sys.executable, "-P", "-m", module, *arguments)

    def web(self, number: int, descriptor: int) -> Command:
        command = self.python(f"web{number}", "mcphub.up.web", str(descriptor))
        return replace(command, descriptors=(descriptor,), stop_seconds=WEB_STOP_SECONDS)

    def worker(self, number: int) -> Command:
        slot = f"w{number}"
        launcher = self.with_variable("MCPHUB_WORKER_SLOT", slot)
        command = launcher.celery(f"worker{number}", "worker", *roles.worker_arguments(slot))
        return replace(command, stop_seconds=WORKER_DRAIN_SECONDS)

    def beat(self) -> Command:
        return self.celery("beat", "beat", *roles.beat_arguments())

    def celery(self, name: str, role: str, *arguments: str) -> Command:
        level = self.environment.get("MCPHUB_LOG_LEVEL", "INFO")
        command = roles.celery_arguments(role, level, *arguments)
        return self.program(name, sys.executable, *command)

    def demo(self, descriptor: int) -> Command:
        command = self.python("demo", "mcphub.demo", "--fd", str(descriptor))
        return replace(command, descriptors=(descriptor,))
