"""Tool search: two tools of the hub's own in place of hundreds, for clients that cannot take those.

Only where the address (`/mcp?mode=search`) or the key says so, and never in silence: the list says
how many tools are found by searching, and so do the instructions.
"""

from __future__ import annotations

import json
from dataclasses import replace

from mcp_types.jsonrpc import INVALID_PARAMS

from gateway import eras
from gateway.exchange import Exchange
from gateway.wire import RpcFault
from mcphub.core.types import JSONObject, JSONValue

SEARCH = "search_tools"
CALL = "call_tool"
MODE_META_KEY = "mcphub/toolSearch"
MOST_FOUND = 50
USUALLY_FOUND = 10
SHOWN = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
INSTRUCTIONS = (
    f"The tools of these servers are not listed: `{SEARCH}` finds them, `{CALL}` calls one by the "
    "name that was found."
)
TOOLS: list[JSONObject] = [
    {
        "name": SEARCH,
        "title": "Search tools",
        "description": "Find tools of the connected servers by words of their names and "
        f"descriptions. Call what is found with `{CALL}`.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words; empty finds every tool."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND},
            },
            "required": ["query"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": CALL,
        "title": "Call a tool",
        "description": f"Call a tool that `{SEARCH}` found, with arguments that fit its schema.",
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["name"],
        },
    },
]


def is_active(exchange: Exchange) -> bool:
    """Whether tools are searched for here instead of listed."""
    endpoint = exchange.endpoint
    return endpoint.is_aggregate and (endpoint.is_search or exchange.principal.finds_tools)


def found_in(exchange: Exchange, tools: list[JSONObject]) -> JSONObject:
    """Return the result of a call of `search_tools` over what would be listed otherwise."""
    arguments = _arguments(exchange.params)
    query, limit = arguments.get("query", ""), arguments.get("limit", USUALLY_FOUND)
    if not isinstance(query, str) or isinstance(limit, bool) or not isinstance(limit, int):
        raise RpcFault(INVALID_PARAMS, "`query` is a text, `limit` a whole number.")
    words = query.lower().split()
    scored = [(_score(tool, words), tool) for tool in tools]
    matching = [tool for score, tool in sorted(scored, key=lambda one: -one[0]) if score]
    shown: list[JSONValue] = [
        {key: tool[key] for key in SHOWN if key in tool}
        for tool in matching[: max(1, min(limit, MOST_FOUND))]
    ]
    found: JSONObject = {"tools": shown, "matching": len(matching), "all": len(tools)}
    result: JSONObject = {
        "content": [{"type": "text", "text": json.dumps(found, ensure_ascii=False)}],
        "structuredContent": found,
    }
    return eras.result_for(exchange.era, exchange.request.method, result)


def unwrapped(exchange: Exchange) -> Exchange:
    """Return the exchange in which the tool that `call_tool` names is called itself."""
    arguments = _arguments(exchange.params)
    name, inner = arguments.get("name"), arguments.get("arguments", {})
    if not isinstance(name, str) or name in {SEARCH, CALL} or not isinstance(inner, dict):
        raise RpcFault(INVALID_PARAMS, f"`{CALL}` takes the name of a tool and its arguments.")
    params: JSONObject = {**exchange.params, "name": name, "arguments": inner}
    return replace(exchange, request=replace(exchange.request, params=params))


def _arguments(params: JSONObject) -> JSONObject:
    found = params.get("arguments")
    return found if isinstance(found, dict) else {}


def _score(tool: JSONObject, words: list[str]) -> int:
    """Return 0 unless every word is in the tool's texts; words in names count more."""
    texts = [str(tool.get(key, "")).lower() for key in ("name", "title", "description")]
    if not all(any(word in text for text in texts) for word in words):
        return 0
    named = sum(word in text for word in words for text in texts[:2])
    return 1 + named
