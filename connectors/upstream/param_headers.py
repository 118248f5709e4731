"""Headers that mirror parts of a request (2026-07-28): `Mcp-Name` and `Mcp-Param-*`.

Values never reach the wire unencoded unless they are plain printable ASCII, so an argument cannot
add a header.

The rules are the SDK's. Its import takes a quarter of a web process's start, which opens sessions
only to diagnose; so it waits for the first one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from importlib import import_module

from mcphub.core.errors import InvalidInputError
from mcphub.core.types import JSONObject, JSONValue

MAX_HEADER_BYTES = 16 << 10
MAX_ANNOTATED_TOOLS = 2000
RULES = "mcp.shared.inbound"


async def load_rules() -> None:
    """Import the SDK in a thread, so that the first session stops nothing else."""
    if RULES not in sys.modules:
        await asyncio.to_thread(import_module, RULES)


def name_header(method: str, params: JSONObject) -> str | None:
    """Return the value of `Mcp-Name`, None when the method has none. Raises InvalidInputError."""
    from mcp.shared.inbound import NAME_BEARING_METHODS  # noqa: PLC0415  (see above)

    key = NAME_BEARING_METHODS.get(method) or ("taskId" if method.startswith("tasks/") else None)
    value = params.get(key) if key else None
    return _encoded(value) if isinstance(value, str) else None


def _encoded(value: str) -> str:
    from mcp.shared.inbound import encode_header_value  # noqa: PLC0415

    try:
        encoded = encode_header_value(value)
    except UnicodeEncodeError as exc:
        raise InvalidInputError("A name holds a character that cannot be sent.") from exc
    if len(encoded) > MAX_HEADER_BYTES:
        raise InvalidInputError("A name is too long for a header.")
    return encoded


def annotation_fault(schema: JSONValue) -> bool:
    """Whether the schema has an `x-mcp-header` annotation that the specification forbids."""
    from mcp.shared.inbound import find_invalid_x_mcp_header  # noqa: PLC0415

    return find_invalid_x_mcp_header(schema) is not None


class ParamHeaders:
    """Which arguments of which tool travel in headers too, learnt from listings."""

    __slots__ = ("_by_tool",)

    def __init__(self) -> None:
        self._by_tool: dict[str, dict[tuple[str, ...], str]] = {}

    def learn(self, tools: Iterable[JSONValue]) -> None:
        from mcp.shared.inbound import x_mcp_header_map  # noqa: PLC0415

        for tool in tools:
            if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
                continue
            name, schema = str(tool["name"]), tool.get("inputSchema")
            found = {} if annotation_fault(schema) else x_mcp_header_map(schema)
            if found and len(self._by_tool) < MAX_ANNOTATED_TOOLS:
                self._by_tool[name] = found
            else:
                self._by_tool.pop(name, None)

    def of_call(self, params: JSONObject) -> dict[str, str]:
        """Return the `Mcp-Param-*` headers of one tools/call. Raises InvalidInputError."""
        arguments = params.get("arguments")
        found = self._by_tool.get(str(params.get("name")))
        if not found or not isinstance(arguments, dict):
            return {}
        from mcp.shared.inbound import mcp_param_headers  # noqa: PLC0415

        try:
            headers = mcp_param_headers(found, arguments)
        except UnicodeEncodeError as exc:
            raise InvalidInputError("An argument cannot be sent as a header.") from exc
        if sum(len(name) + len(value) for name, value in headers.items()) > MAX_HEADER_BYTES:
            raise InvalidInputError("The arguments that travel as headers are too long.")
        return headers
