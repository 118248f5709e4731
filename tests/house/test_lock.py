"""The lock holds what pyproject.toml asks for, every package by its hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ \\;]+)", re.MULTILINE)


def pins() -> dict[str, set[str]]:
    """Versions of each package in the lock; several where markers choose between them."""
    found: dict[str, set[str]] = {}
    for name, version in PIN.findall((ROOT / "requirements.lock").read_text()):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(line) for lines in (project["dependencies"], *extras) for line in lines]


def test_every_requirement_of_the_project_is_met_by_the_lock() -> None:
    locked = pins()
    unmet = [
        str(requirement)
        for requirement in wanted()
        if not list(
            requirement.specifier.filter(locked.get(canonicalize_name(requirement.name), []))
        )
    ]
    assert unmet == []


def test_every_locked_package_has_a_hash() -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / "requirements.lock").read_text())
    without = [entry.split()[0] for entry in entries if PIN.match(entry) and "--hash=" not in entry]
    assert without == []
