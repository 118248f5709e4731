"""What the house tests read: the project's own Python files, parsed once."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("mcphub", "tenants", "tracing", "oauth", "connectors", "gateway", "console")

OUTSIDE = ("tests", "bench", "chaos")
NOT_OURS = {"migrations", "node_modules"}


@dataclass(frozen=True, slots=True)
class Source:
    """One file: path relative to the repository, text and syntax tree."""

    path: str
    text: str
    tree: ast.Module


@lru_cache(maxsize=1)
def sources() -> tuple[Source, ...]:
    """Return the files of the service and of the suite, migrations left out."""
    files = [file for folder in (*PACKAGES, *OUTSIDE) for file in (ROOT / folder).rglob("*.py")]
    found = []
    for file in sorted(files):
        if not NOT_OURS.isdisjoint(file.parts):
            continue
        text = file.read_text(encoding="utf-8")
        found.append(Source(str(file.relative_to(ROOT)), text, ast.parse(text)))
    return tuple(found)


def service_sources() -> tuple[Source, ...]:
    """Return the files of the service alone."""
    return tuple(source for source in sources() if source.path.split("/")[0] in PACKAGES)
