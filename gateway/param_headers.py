"""`Mcp-Param-*` headers (2026-07-28) against the arguments that they repeat, by the SDK's rules.

Only tools whose schema asks for such headers are looked at, so that the SDK's import waits for one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from connectors.selectors import ToolView
from connectors.upstream.param_headers import load_rules
from gateway.wire import RpcFault
from mcphub.core.types import JSONObject

ANNOTATION = '"x-mcp-header"'
MOST_KNOWN = 5000


async def check(tool: ToolView | None, arguments: JSONObject, headers: Mapping[str, str]) -> None:
    """Raise RpcFault (HEADER_MISMATCH) where a header and its argument differ."""
    if tool is None or not _is_annotated(tool):
        return
    await load_rules()
    from mcp.shared.inbound import validate_mcp_param_headers  # noqa: PLC0415  (see above)

    refused = validate_mcp_param_headers(tool.item.get("inputSchema"), arguments, headers)
    if refused is not None:
        raise RpcFault(refused.code, refused.message)


_annotated: dict[str, bool] = {}
"""What is known of tools, by the digest of their definition."""


def _is_annotated(tool: ToolView) -> bool:
    known = _annotated.get(tool.digest)
    if known is None:
        if len(_annotated) >= MOST_KNOWN:
            _annotated.clear()
        known = _annotated[tool.digest] = ANNOTATION in json.dumps(tool.item.get("inputSchema"))
    return known
