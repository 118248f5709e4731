"""Public URIs of the aggregate endpoint: reversible without a table, never equal for two servers.

    file:///notes/a.md   of server "docs"   →  mcphub://docs/file:///notes/a.md
    ui://cards/map.html  of server "maps"   →  ui://maps/cards/map.html
    note://käse          of server "docs"   →  mcphub://docs.enc/note%3A%2F%2Fk%C3%A4se

The authority names the server, so no normalisation of a path leads to another one. What follows is
the server's own URI, unchanged wherever that makes a valid URI; therefore a template needs nothing
but the same prefix, and expanding it gives the public form of what the server's own would give.
A URI that would not survive there (characters RFC 3986 does not allow, dot segments, a second
fragment) is percent-encoded as a whole, and the authority says so.

`ui://` stays `ui://`: hosts of MCP Apps look at the scheme.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

SCHEME = "mcphub://"
UI_SCHEME = "ui://"
ENCODED = ".enc"
"""Ends an authority whose URI is percent-encoded; a server id has no dot."""

_CHARACTERS = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*"
_PLAIN = re.compile(rf"{_CHARACTERS}(?:#{_CHARACTERS})?")
_DOT_SEGMENT = re.compile(r"(?:^|/)(?:\.|%2e){1,2}(?=[/?#]|$)", re.IGNORECASE)
_PUBLIC = re.compile(
    r"(?P<scheme>mcphub|ui)://(?P<server>[a-z][a-z0-9_-]*)(?P<encoded>\.enc)?/(?P<rest>.*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Origin:
    """A server's own URI."""

    server: str
    uri: str


def public_uri(server: str, uri: str) -> str:
    """Return the URI under which the aggregate shows `uri` of `server`."""
    scheme, rest = _split(uri)
    if _PLAIN.fullmatch(rest) and not _DOT_SEGMENT.search(rest):
        return f"{scheme}{server}/{rest}"
    return f"{scheme}{server}{ENCODED}/{_encoded(rest)}"


def public_template(server: str, template: str) -> str:
    """Return the URI template (RFC 6570) whose expansions lead back to those of `template`."""
    scheme, rest = _split(template)
    return f"{scheme}{server}/{rest}"


def origin_of(public: str) -> Origin | None:
    """Return whose URI this is; None for one that the hub never showed.

    Templates lead back in the same way as what they expand to.
    """
    found = _PUBLIC.fullmatch(public)
    if found is None:
        return None
    rest = found["rest"]
    if found["encoded"]:
        rest = unquote(rest, errors="surrogatepass")
    own = UI_SCHEME + rest if found["scheme"] == "ui" else rest
    return Origin(found["server"], own)


def _split(uri: str) -> tuple[str, str]:
    if uri.startswith(UI_SCHEME):
        return UI_SCHEME, uri.removeprefix(UI_SCHEME)
    return SCHEME, uri


def _encoded(text: str) -> str:
    return quote(text, safe="", errors="surrogatepass")
