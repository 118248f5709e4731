"""docs/relay-inventory.md: the measurement as tables, the same for the same behaviour."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tests.relay_inventory.capabilities import flattened
from tests.relay_inventory.measure import ERAS, PROBES, Report, Way
from tests.relay_inventory.probe import Probe
from tests.relay_inventory.reasons import REASONS, Reason, reason_of

PATH = Path(__file__).resolve().parents[2] / "docs" / "relay-inventory.md"
THROUGH = (("/mcp/s", "one server"), ("/mcp", "aggregate"))
SHORT = {"legacy": "H", "modern": "M"}
MOST_PLACES = 4
HEAD = Path(__file__).with_name("head.md")


class MissingReasonError(Exception):
    """Something is not relayed, and reasons.py does not say why; or says so in vain."""


def ways() -> list[Way]:
    return [
        Way(through=through, client=client, server=server)
        for through, _ in THROUGH
        for client in ERAS
        for server in ERAS
    ]


def written(report: Report) -> str:
    """Return the whole page."""
    missing = list(unexplained(report))
    if missing:
        raise MissingReasonError("\n".join(missing))
    parts = [HEAD.read_text(), *capability_table(report)]
    for group, probes in groupby(PROBES, key=lambda probe: probe.group):
        parts += table(report, group, list(probes))
    return "\n".join(parts).rstrip() + "\n"


def unexplained(report: Report) -> Iterator[str]:
    """Return what reasons.py lacks, and what it has too much."""
    used: set[Reason] = set()
    for row, way, verdict, places in shortcomings(report):
        reason = reason_of(row, way)
        if reason is None:
            yield f"{row} {label(way)} {way.through}: {verdict} {'; '.join(places[:MOST_PLACES])}"
        else:
            used.add(reason)
    yield from (f"{reason}: nothing differs" for reason in REASONS if reason not in used)


def shortcomings(report: Report) -> Iterator[tuple[str, Way, str, list[str]]]:
    """Return row, way, verdict and places of everything that is not the same."""
    for probe in PROBES:
        for way in ways():
            verdict, places = report.verdict(probe, way)
            if verdict not in {"", "same"}:
                yield probe.name, way, verdict, places
    for way in ways():
        for capability in not_advertised(report, way):
            yield f"capability {capability}", way, "none", []


def label(way: Way) -> str:
    return f"{SHORT[way.client]}→{SHORT[way.server]}"


def header(first: str, last: str) -> list[str]:
    columns = [f"{name} {label(way)}" for through, name in THROUGH for way in ways_of(through)]
    cells = [first, "direct", *columns, last]
    return [f"| {' | '.join(cells)} |", "|---" * len(cells) + "|"]


def ways_of(through: str) -> list[Way]:
    return [way for way in ways() if way.through == through]


def table(report: Report, group: str, probes: list[Probe]) -> list[str]:
    lines = [f"\n## {group}\n", *header("", "what it means")]
    for probe in probes:
        cells = [report.verdict(probe, way)[0] or "-" for way in ways()]
        direct = ", ".join(SHORT[era] for era in ERAS if era in probe.servers)
        lines.append(f"| {probe.name} | {direct} | {' | '.join(cells)} | {probe.does} |")
    return lines + notes(report, {probe.name for probe in probes})


def notes(report: Report, rows: set[str]) -> list[str]:
    """Return one line for each reason: where it holds, what is seen, why."""
    found: dict[Reason, list[str]] = {}
    seen: dict[Reason, set[str]] = {}
    for row, way, verdict, places in shortcomings(report):
        reason = reason_of(row, way)
        if row in rows and reason is not None:
            found.setdefault(reason, []).append(f"{name_of(way)} {label(way)}")
            seen.setdefault(reason, set()).update(places if verdict == "differs" else [])
    lines = []
    for reason, where in found.items():
        places = sorted(seen[reason])
        shown = f" (`{'`, `'.join(places[:MOST_PLACES])}`)" if places else ""
        lines.append(f"- **{reason.row}**, {', '.join(where)}: {reason.text}{shown}")
    return ["", *lines] if lines else []


def name_of(way: Way) -> str:
    return dict(THROUGH)[way.through]


def capability_table(report: Report) -> list[str]:
    """Return what is declared and what is advertised."""
    declared = {era: declared_by(report, era) for era in ERAS}
    names = sorted({*declared["legacy"], *declared["modern"]})
    lines = [
        "\n## Server capabilities\n",
        "Advertised is what the server declares *and* the hub relays to this client.\n",
        *header("", "declared"),
    ]
    for name in names:
        cells = [cell(report, name, way) for way in ways()]
        direct = ", ".join(SHORT[era] for era in ERAS if name in declared[era])
        lines.append(f"| `{name}` | {direct} | {' | '.join(cells)} | {direct} |")
    return lines + notes(report, {f"capability {name}" for name in names})


def cell(report: Report, name: str, way: Way) -> str:
    if name in flattened(report.advertised[way]):
        return "advertised"
    return "no" if name in declared_by(report, way.server) else "-"


def declared_by(report: Report, era: str) -> list[str]:
    return flattened(report.advertised[Way(through="direct", client=era, server=era)])


def not_advertised(report: Report, way: Way) -> list[str]:
    advertised = flattened(report.advertised[way])
    return [name for name in declared_by(report, way.server) if name not in advertised]
