"""What docker-compose.yml runs, as plain data: the suite starts these very commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[1] / "docker-compose.yml"
VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service: the arguments of `mcphub` (or of the image's own program), its environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    replicas: int
    is_ours: bool
    fields: Mapping[str, Any]

    @property
    def instances(self) -> list[str]:
        """Names of its processes: "web1", "web2"; "worker1"; "beat"."""
        if self.replicas == 1:
            return [self.name]
        return [f"{self.name}{number}" for number in range(1, self.replicas + 1)]


def document() -> dict[str, Any]:
    """Return the whole file; merge keys are resolved."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def services() -> dict[str, Service]:
    """Return every service; variables have their defaults."""
    return {name: _service(name, fields) for name, fields in document()["services"].items()}


def _service(name: str, fields: Mapping[str, Any]) -> Service:
    environment = fields.get("environment") or {}
    return Service(
        name=name,
        command=tuple(map(str, fields.get("command") or ())),
        environment={key: _filled(str(value)) for key, value in environment.items()},
        replicas=int((fields.get("deploy") or {}).get("replicas", 1)),
        is_ours="build" in fields,
        fields=fields,
    )


def _filled(text: str) -> str:
    return VARIABLE.sub(lambda found: found[2], text)
