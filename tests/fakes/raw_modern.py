"""A raw server of the 2026-07-28 revision; a scenario is a subclass, as in raw_server."""

from __future__ import annotations

from typing import ClassVar

from mcp_types import SERVER_INFO_META_KEY

from mcphub.core.types import JSONObject
from tests.fakes.raw_server import RawServer, Request, Wire, error, note, result


class RawModern(RawServer):
    """Answers `server/discover`, refuses `initialize`, accepts every listener."""

    supported: ClassVar[list[str]] = ["2026-07-28"]

    async def on_discover(self, request: Request, wire: Wire) -> None:
        body: JSONObject = {
            "supportedVersions": list(self.supported),
            "capabilities": self.capabilities,
            "resultType": "complete",
            "_meta": {SERVER_INFO_META_KEY: {"name": "raw-modern", "version": "0"}},
        }
        await wire.answer(result(request.id, body))

    async def on_initialize(self, request: Request, wire: Wire) -> None:
        await wire.answer(
            error(request.id, -32022, "no", {"supported": list(self.supported)}), status=400
        )

    async def on_message(self, request: Request, wire: Wire) -> None:
        if request.rpc_method == "subscriptions/listen":
            await self.on_listen(request, wire)
        else:
            await super().on_message(request, wire)

    async def on_listen(self, request: Request, wire: Wire) -> None:
        await wire.open_stream()
        await wire.event(acknowledged(request))
        await wire.until_gone()


def acknowledged(request: Request) -> JSONObject:
    return note(
        "notifications/subscriptions/acknowledged",
        {"notifications": request.params.get("notifications")},
    )
