"""A stdio MCP server without dependencies, run as a script; its argument says how it behaves."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def result_for(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "stdio", "version": "0"},
        }
    if method == "server/discover" and MODE in {"modern", "slow"}:
        return {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": run(params["name"])}]}
    return None


def run(tool: str) -> str:
    match tool:
        case "crash":
            os._exit(3)
        case "hang":
            time.sleep(60)
        case "environment":
            return json.dumps(dict(os.environ))
        case "directory":
            return f"{Path.cwd()} {os.getpgid(0) == os.getpid()}"
        case "noise":
            sys.stdout.write("not json\n")
            sys.stderr.write("secret text\n" * 10_000)
        case "big":
            return "x" * 300_000
    return tool


def main() -> None:
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    seen: list[str] = []
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if MODE == "strict" and message["method"] == "server/discover":
            os._exit(1)
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        error: dict[str, Any] = {"code": -32601, "message": "Method not found"}
        result = result_for(message["method"], message.get("params", {}))
        if MODE == "slow" and message["method"] == "initialize":
            supported = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
            result, error = None, {"code": -32022, "message": "Unsupported", "data": supported}
        elif MODE == "slow" and not seen:
            time.sleep(1.8)
        seen.append(message["method"])
        send(answer | ({"error": error} if result is None else {"result": result}))
    while MODE == "stubborn":
        time.sleep(60)


main()
