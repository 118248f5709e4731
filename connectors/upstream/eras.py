"""The two protocol eras: what a request carries in each; chosen once by connect.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

from connectors.server_spec import Era
from connectors.upstream.contract import UpstreamRequest
from connectors.upstream.param_headers import ParamHeaders, name_header
from mcphub import __version__
from mcphub.core.types import JSONObject

__all__ = [
    "CLIENT_INFO",
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "LATEST_HANDSHAKE_VERSION",
    "LATEST_MODERN_VERSION",
    "MODERN_PROTOCOL_VERSIONS",
    "EraRules",
    "LegacyRules",
    "ModernRules",
]

CLIENT_INFO: JSONObject = {"name": "mcphub", "version": __version__}
UNTRACKED = frozenset({"initialize", "server/discover", "ping"})
"""Requests that carry no progress token: handshakes and probes."""


class EraRules(ABC):
    """How requests look in one era."""

    era: Era
    version: str

    @abstractmethod
    def stamp(self, request: UpstreamRequest, token: int) -> JSONObject:
        """Return the params with what the era puts into `_meta`; the caller's `_meta` is kept."""

    @abstractmethod
    def headers(self, method: str, params: JSONObject) -> dict[str, str]:
        """Return the HTTP headers of the era for one message."""


def _with_meta(params: JSONObject, extra: JSONObject) -> JSONObject:
    meta = params.get("_meta")
    return {**params, "_meta": {**meta, **extra} if isinstance(meta, dict) else extra}


@dataclass(slots=True)
class LegacyRules(EraRules):
    """Handshake era: a session that `initialize` opened (2024-11-05 to 2025-11-25)."""

    version: str = ""
    session_id: str = ""
    era = Era.LEGACY

    def stamp(self, request: UpstreamRequest, token: int) -> JSONObject:
        if request.method in UNTRACKED:
            return request.params
        return _with_meta(request.params, {"progressToken": token})

    def headers(self, method: str, params: JSONObject) -> dict[str, str]:
        headers: dict[str, str] = {}
        if method == "initialize":
            return headers
        if self.version:
            headers["mcp-protocol-version"] = self.version
        if self.session_id:
            headers["mcp-session-id"] = self.session_id
        return headers


@dataclass(slots=True)
class ModernRules(EraRules):
    """Per-request era (2026-07-28): every request says everything about itself."""

    client_capabilities: JSONObject
    version: str = LATEST_MODERN_VERSION
    param_headers: ParamHeaders = field(default_factory=ParamHeaders)
    era = Era.MODERN

    def stamp(self, request: UpstreamRequest, token: int) -> JSONObject:
        own = request.client_capabilities
        extra: JSONObject = {
            PROTOCOL_VERSION_META_KEY: self.version,
            CLIENT_INFO_META_KEY: CLIENT_INFO,
            CLIENT_CAPABILITIES_META_KEY: self.client_capabilities if own is None else own,
        }
        if request.method not in UNTRACKED:
            extra["progressToken"] = token
        return _with_meta(request.params, extra)

    def headers(self, method: str, params: JSONObject) -> dict[str, str]:
        headers = {"mcp-protocol-version": self.version, "mcp-method": method}
        if name := name_header(method, params):
            headers["mcp-name"] = name
        if method == "tools/call":
            headers.update(self.param_headers.of_call(params))
        return headers
