"""Where a client may be sent back to, and what a token may be for. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from mcphub.core import ids

URI_MAX = 2000
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
AUTHORITY = re.compile(r"[A-Za-z0-9._:\[\]-]*")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
NOT_PRIVATE = frozenset(
    {"http", "https", "javascript", "data", "vbscript", "file", "blob", "about"}
)
AGGREGATE = "/mcp"
SERVER = "/mcp/s/"


class Mode(StrEnum):
    """Which clients may let somebody sign in."""

    OFF = "OFF"
    LOOPBACK = "LOOPBACK"
    """Programs on the person's own machine only: loopback addresses and private-use schemes."""
    ANY = "ANY"


def may_redirect(uri: str, mode: Mode, schemes: frozenset[str]) -> bool:
    """Whether an authorization response may go to `uri`.

    RFC 8252: plain http only to this machine, private-use schemes only those the operator named;
    RFC 9700 §2.1: no fragment, no credentials, nothing that could be read in two ways.
    """
    parts = _split(uri)
    if parts is None or "#" in uri or not AUTHORITY.fullmatch(parts.netloc):
        return False
    if parts.scheme == "http":
        return parts.hostname in LOOPBACK_HOSTS
    if parts.scheme == "https":
        return bool(parts.hostname) and mode is Mode.ANY
    return parts.scheme in schemes


def check_scheme(scheme: str) -> None:
    """Raise ValueError unless a private-use scheme (RFC 8252 §7.1) may have this name."""
    if not SCHEME.fullmatch(scheme) or scheme in NOT_PRIVATE:
        raise ValueError("not the name of an application's own URI scheme, like `cursor`")


def is_on_this_machine(uri: str) -> bool:
    """Whether only a program on the person's own machine receives what is sent to `uri`."""
    return not uri.startswith("https://")


def origin_of(uri: str) -> str:
    """Return what a person or a policy calls the place: scheme and authority."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else f"{parts.scheme}:"


def source_of(uri: str) -> str:
    """Return the place as a source of a Content-Security-Policy, which knows no IPv6 address."""
    parts = urlsplit(uri)
    is_named = parts.scheme in {"http", "https"} and "[" not in parts.netloc
    return origin_of(uri) if is_named else f"{parts.scheme}:"


def endpoint_of(resource: str, base_url: str) -> str:
    """Return the path of the gateway endpoint that `resource` names; "" when it names none."""
    if not resource.startswith(base_url):
        return ""
    path = resource.removeprefix(base_url).removesuffix("/")
    is_server = path.startswith(SERVER) and ids.is_slug(path.removeprefix(SERVER))
    return path if path == AGGREGATE or is_server else ""


def covers(granted: str, resource: str) -> bool:
    """Whether a token for `granted` is one for `resource`: the same, or a server below `/mcp`."""
    return resource == granted or resource.startswith(f"{granted}/")


def _split(uri: str) -> SplitResult | None:
    if not uri.isascii() or not uri.isprintable() or re.search(r"[\s\\]", uri):
        return None
    if len(uri) > URI_MAX:
        return None
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.scheme else None
