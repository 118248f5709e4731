"""Why something is not relayed as it is: one sentence for every difference that is measured."""

from __future__ import annotations

from dataclasses import dataclass

from tests.relay_inventory.measure import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Of one row, on the ways that it names; empty names mean all."""

    row: str
    text: str
    through: str = ""
    client: str = ""
    server: str = ""

    def covers(self, row: str, way: Way) -> bool:
        return (
            self.row == row
            and self.through in {"", way.through}
            and self.client in {"", way.client}
            and self.server in {"", way.server}
        )


REASONS: tuple[Reason, ...] = ()


def reason_of(row: str, way: Way) -> Reason | None:
    return next((reason for reason in REASONS if reason.covers(row, way)), None)
