"""What `mcphub doctor` found; needs no settings, so that it can say that they cannot be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of the report."""

    name: str
    verdict: Verdict
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings; it is healthy when nothing failed."""

    checks: Sequence[Check]

    @property
    def is_healthy(self) -> bool:
        return all(check.verdict is not Verdict.FAIL for check in self.checks)

    def as_json(self) -> str:
        return json.dumps(
            {"ok": self.is_healthy, "checks": [asdict(check) for check in self.checks]}
        )

    def as_text(self) -> str:
        lines = []
        for check in self.checks:
            lines.append(f"{check.verdict.value:<5} {check.name:<11} {check.detail}")
            if check.hint:
                lines.append(f"{'':17} {check.hint}")
        return "\n".join(lines)


def unloadable(reason: str) -> Report:
    """Return the report of a hub whose settings cannot even be read."""
    hint = "docs/configuration.md explains every setting."
    found = Check(name="settings", verdict=Verdict.FAIL, detail=reason, hint=hint)
    return Report(checks=[found])
