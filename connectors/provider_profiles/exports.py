"""The list of tools in one format; a tool that has no valid form is dropped with its reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from connectors.provider_profiles.rules import PROFILES, PUBLIC_NAME, Format
from connectors.provider_profiles.schemas import UnusableSchemaError, schema_for
from mcphub.core.types import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Exportable:
    """One tool with its public name; `item` is the server's own object."""

    server: str
    name: str
    public_name: str
    is_enabled: bool
    item: JSONObject

    @property
    def description(self) -> str:
        text = self.item.get("description") or self.item.get("title")
        return text if isinstance(text, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    server: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """`index` is the way back from a public name: {"serverId", "name"}."""

    format: Format
    tools: list[JSONObject]
    index: dict[str, JSONObject]
    dropped: list[Dropped]

    @property
    def etag(self) -> str:
        text = json.dumps([self.format, self.tools, self.index], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def export(wanted: Format, tools: Iterable[Exportable]) -> Export:
    """Return the tools in the form that `wanted` takes, in their order."""
    made = Export(format=wanted, tools=[], index={}, dropped=[])
    for tool in tools:
        try:
            shaped = _shaped(wanted, tool)
        except UnusableSchemaError as exc:
            made.dropped.append(Dropped(server=tool.server, name=tool.name, reason=str(exc)))
            continue
        made.tools.append(shaped)
        made.index[tool.public_name] = {"serverId": tool.server, "name": tool.name}
    return made


def _shaped(wanted: Format, tool: Exportable) -> JSONObject:
    if not tool.is_enabled:
        raise UnusableSchemaError("disabled")
    if not PUBLIC_NAME.fullmatch(tool.public_name):
        raise UnusableSchemaError("name_not_allowed")
    return SHAPES[wanted](tool, schema_for(PROFILES[wanted], tool.item.get("inputSchema")))


def _mcp(tool: Exportable, _: JSONObject) -> JSONObject:
    return {**tool.item, "name": tool.public_name}


def _openai(tool: Exportable, schema: JSONObject) -> JSONObject:
    function: JSONObject = {
        "name": tool.public_name,
        "description": tool.description,
        "parameters": schema,
    }
    return {"type": "function", "function": function}


def _openai_responses(tool: Exportable, schema: JSONObject) -> JSONObject:
    return {
        "type": "function",
        "name": tool.public_name,
        "description": tool.description,
        "parameters": schema,
        "strict": False,
    }


def _anthropic(tool: Exportable, schema: JSONObject) -> JSONObject:
    return {
        "name": tool.public_name,
        "description": tool.description,
        "input_schema": schema,
    }


def _gemini(tool: Exportable, schema: JSONObject) -> JSONObject:
    return {
        "name": tool.public_name,
        "description": tool.description,
        "parametersJsonSchema": schema,
    }


def _gemini_openapi(tool: Exportable, schema: JSONObject) -> JSONObject:
    """Without properties `parameters` is left out: an OBJECT needs at least one."""
    made: JSONObject = {"name": tool.public_name, "description": tool.description}
    return {**made, "parameters": schema} if schema.get("properties") else made


def _json_schema(tool: Exportable, schema: JSONObject) -> JSONObject:
    return {
        "name": tool.public_name,
        "description": tool.description,
        "inputSchema": schema,
        "outputSchema": tool.item.get("outputSchema"),
    }


SHAPES: dict[Format, Callable[[Exportable, JSONObject], JSONObject]] = {
    Format.MCP: _mcp,
    Format.OPENAI: _openai,
    Format.OPENAI_RESPONSES: _openai_responses,
    Format.ANTHROPIC: _anthropic,
    Format.GEMINI: _gemini,
    Format.GEMINI_OPENAPI: _gemini_openapi,
    Format.JSON_SCHEMA: _json_schema,
}
