"""Why something is not relayed as it is: one sentence for every difference that is measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.fakes.relay.content import TASKS_EXTENSION
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


TASKS_EXTENSION_CAPABILITY = f"capability extensions.{TASKS_EXTENSION}"
OTHER_TASKS = (
    "Tasks of 2025-11-25 are begun by the client, those of the extension by the server; the hub "
    "does not make one of the other, advertises neither, and calls without a task."
)
OLD_CAPABILITIES = ("tasks.cancel", "tasks.list", "tasks.requests.tools.call")
TASK_ROWS = (
    "create, tasks/get",
    "result",
    "tasks/cancel",
    "status notifications",
    "input for a task",
)


def tasks_between_eras() -> Iterator[Reason]:
    for row in TASK_ROWS:
        yield Reason(row=row, text=OTHER_TASKS, client="legacy", server="modern")
        yield Reason(row=row, text=OTHER_TASKS, client="modern", server="legacy")
    yield Reason(row=TASKS_EXTENSION_CAPABILITY, text=OTHER_TASKS, client="legacy")
    for name in OLD_CAPABILITIES:
        yield Reason(row=f"capability {name}", text=OTHER_TASKS, client="modern")


REASONS: tuple[Reason, ...] = (
    Reason(
        row="initialize, server/discover",
        text="The hub answers for itself: fields of the opening that it does not know are lost.",
    ),
    Reason(
        row="what a client that offers nothing is said to offer",
        server="legacy",
        text="A handshake server is told once, for a session that all clients of the member share, "
        "what the member has consented to. What it cannot be asked waits in /elicitations.",
    ),
    Reason(
        row="vendor notifications",
        text="Whom a notification concerns is known of those of the specification alone.",
    ),
    Reason(
        row="capability experimental.vendor.example/beam",
        text="Experimental capabilities may need methods that the hub does not forward.",
    ),
    *tasks_between_eras(),
)


def reason_of(row: str, way: Way) -> Reason | None:
    return next((reason for reason in REASONS if reason.covers(row, way)), None)
