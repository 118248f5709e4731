"""The HTTP exchange below an answer, for the trace: status, times, headers that may be seen.

Values are shown of the headers that are known to be harmless; of all others the name alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from mcphub.core.types import JSONObject

HIDDEN = "[redacted]"
MOST_HEADERS = 40
LONGEST_VALUE = 300
HARMLESS = frozenset(
    {
        *("accept", "accept-encoding", "allow", "cache-control", "connection", "content-encoding"),
        *("content-language", "content-length", "content-type", "date", "expires", "keep-alive"),
        *("last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "retry-after"),
        *("server", "transfer-encoding", "user-agent", "vary", "via", "www-authenticate"),
        *("x-request-id", "ratelimit", "ratelimit-policy", "x-ratelimit-remaining"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSeen:
    """One exchange as it was; `duration_ms` is until the answer's head was there."""

    method: str
    status: int
    duration_ms: float
    request_headers: Mapping[str, str]
    response_headers: Mapping[str, str]

    @property
    def wire(self) -> JSONObject:
        return {
            "method": self.method,
            "status": self.status,
            "durationMs": round(self.duration_ms, 1),
            "requestHeaders": _shown(self.request_headers),
            "responseHeaders": _shown(self.response_headers),
        }


def _shown(headers: Mapping[str, str]) -> JSONObject:
    return {
        name.lower()[:LONGEST_VALUE]: value[:LONGEST_VALUE] if name.lower() in HARMLESS else HIDDEN
        for name, value in islice(headers.items(), MOST_HEADERS)
    }
