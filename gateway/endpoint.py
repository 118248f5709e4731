"""Which part of the hub a request is for: the aggregate or one server, narrowed by the query."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mcphub.core.ids import SLUG_MAX

PATH = re.compile(
    rf"/mcp(?:/s/(?P<server>[a-z][a-z0-9_-]{{0,{SLUG_MAX - 1}}}))?"
    r"(?P<sse>/sse(?P<messages>/messages)?)?/?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`server` None: the aggregate. `servers` and `tools` narrow; None: no narrowing.

    Tools are named as the endpoint names them: public names on the aggregate, else the server's.
    """

    server: str | None = None
    servers: frozenset[str] | None = None
    tools: frozenset[str] | None = None
    is_search: bool = False
    """Tools are searched for instead of listed (see methods.tool_search)."""

    @property
    def is_aggregate(self) -> bool:
        return self.server is None

    @property
    def path(self) -> str:
        return "/mcp" if self.server is None else f"/mcp/s/{self.server}"

    def has_server(self, slug: str) -> bool:
        if self.server is not None:
            return slug == self.server
        return self.servers is None or slug in self.servers

    def has_tool(self, name: str) -> bool:
        return self.tools is None or name in self.tools


def read_names(values: list[str]) -> frozenset[str] | None:
    """Return the names of a query parameter, repeated or separated by commas; None: not given."""
    if not values:
        return None
    names = (name.strip() for value in values for name in value.split(","))
    return frozenset(name for name in names if name)
