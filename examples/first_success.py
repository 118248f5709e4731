"""The first success: connect a server, call a tool, see every JSON-RPC message of it arrive.

.venv/bin/python examples/first_success.py URL API_KEY [MCP_SERVER_URL]
"""

from __future__ import annotations

import json
import sys

import httpx
from websockets.sync.client import connect
from websockets.typing import Subprotocol


def main(url: str, api_key: str, server_url: str | None = None) -> None:
    """Use the demo server, or add the MCP server at `server_url`."""
    headers = {"Authorization": f"Bearer {api_key}"}
    hub = httpx.Client(base_url=f"{url.rstrip('/')}/api/v1", headers=headers, timeout=70)

    server = "demo"
    if server_url:
        added = hub.post("/servers", json={"name": "My server", "url": server_url})
        server = added.raise_for_status().json()["id"]

    ticket = hub.post("/ws-tickets", json={}).raise_for_status().json()
    protocols = [Subprotocol("mcphub.v1"), Subprotocol(f"mcphub.ticket.{ticket['ticket']}")]
    with connect(ticket["url"], subprotocols=protocols) as events:
        events.send(json.dumps({"type": "subscribe", "topics": ["servers", "traces"]}))

        state = hub.post(f"/servers/{server}/connect", json={}).raise_for_status().json()
        print("connected:", state["name"], state["protocolVersion"])
        tools = hub.get(f"/servers/{server}/tools").raise_for_status().json()["tools"]
        print("tools:", ", ".join(tool["name"] for tool in tools))

        if server == "demo":
            path = f"/servers/{server}/tools/add/call"
            result = hub.post(path, json={"arguments": {"a": 40, "b": 2}}).raise_for_status()
            print("40 + 2 =", result.json()["content"][0]["text"])

        print("\nwhat went over the wire:")
        while True:
            try:
                event = json.loads(events.recv(timeout=2))
            except TimeoutError:
                return
            if event["type"] == "trace.message":
                trace = event["trace"]
                print(f"  {trace['direction']:8} {trace['type']:12} {trace['method']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
