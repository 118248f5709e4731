"""Server capabilities: which rows show that an advertised one is true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mcphub.core.types import JSONObject, JSONValue
from tests.fakes.relay.content import TASKS_EXTENSION, UI_EXTENSION
from tests.relay_inventory.measure import PROBES, Report, Way

LISTS = ("tools", "resources", "prompts")
SHOWN_BY: Mapping[str, tuple[str, ...]] = {
    "tools": ("tools/list", "tools/call", "tools/call, tool error", "tools/call, JSON-RPC error"),
    "tools.listChanged": ("tools/list_changed",),
    "resources": ("resources/list", "resources/templates/list", "resources/read, text"),
    "resources.listChanged": ("resources/list_changed",),
    "resources.subscribe": ("resources/updated", "resources/unsubscribe"),
    "prompts": ("prompts/list", "prompts/get"),
    "prompts.listChanged": ("prompts/list_changed",),
    "completions": ("completion/complete, prompt", "completion/complete, template"),
    "logging": ("message, in a call", "message, outside calls"),
    "tasks.cancel": ("tasks/cancel",),
    "tasks.list": ("tasks/list",),
    "tasks.requests.tools.call": ("create, tasks/get", "result", "input for a task"),
    f"extensions.{TASKS_EXTENSION}": ("create, tasks/get", "result", "input for a task"),
    f"extensions.{UI_EXTENSION}": ("`ui://` views (MCP Apps)",),
}
"""The rows of each capability that the hub may advertise; any other is advertised unproven."""


def flattened(capabilities: JSONObject) -> list[str]:
    """Return the paths of what is declared, such as `tools.listChanged`."""
    return sorted(set(_paths(capabilities)))


def _paths(capabilities: JSONObject) -> Iterator[str]:
    for name, value in capabilities.items():
        if name in {"extensions", "experimental"}:
            yield from (f"{name}.{inner}" for inner in _names(value))
        elif name == "tasks":
            yield from (f"tasks.{inner}" for inner in _names(value) if inner != "requests")
            requests = value.get("requests") if isinstance(value, dict) else None
            yield from (
                f"tasks.requests.{kind}.{call}"
                for kind in _names(requests)
                for call in _names(requests[kind] if isinstance(requests, dict) else None)
            )
        else:
            yield name
            yield from (f"{name}.{flag}" for flag in _names(value) if _flag(value, flag))


def _names(value: JSONValue) -> list[str]:
    return sorted(value) if isinstance(value, dict) else []


def _flag(value: JSONValue, flag: str) -> bool:
    return isinstance(value, dict) and value[flag] is True


def untrue(report: Report, way: Way) -> list[str]:
    """Return what is advertised on a way and not shown to be relayed on it."""
    by_name = {probe.name: probe for probe in PROBES}
    found = []
    for capability in flattened(report.advertised[way]):
        rows = SHOWN_BY.get(capability)
        if rows is None:
            found.append(f"{capability}: nothing shows it")
            continue
        verdicts = {row: report.verdict(by_name[row], way)[0] for row in rows}
        found += [
            f"{capability}: {row} is {verdict}"
            for row, verdict in verdicts.items()
            if verdict not in {"", "same"}
        ]
    return found
