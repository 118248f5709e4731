"""Strict reading of an outbound URL into what is connected to and what is asked for; pure.

Only one spelling of each host is accepted, so that no two parsers can disagree about it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

import idna

from mcphub.core.egress.addresses import Address, parse
from mcphub.core.errors import BlockedUrlError

URL_MAX = 8192
HOST_MAX = 253
DEFAULT_PORTS = {"http": 80, "https": 443}
PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))
UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\x9f\\\s]")
URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>\[[0-9a-f:.]+\]|[^/?@:\[\]]+)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>[/?].*)?",
    re.IGNORECASE | re.ASCII,  # without ASCII, a long s is an s
)
# `str.lower` would turn some other letters into ASCII ones.
ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
# A last label that is a number makes the whole host an IPv4 address in disguise (WHATWG URL §3.5).
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Target:
    """One URL taken apart; `host` is lower-case ASCII without brackets and without final dot."""

    scheme: str
    host: str
    port: int
    path: str
    literal: Address | None

    @property
    def is_plain(self) -> bool:
        return self.scheme == "http"

    @property
    def origin(self) -> tuple[str, str, int]:
        return (self.scheme, self.host, self.port)

    @property
    def authority(self) -> str:
        """What the Host header says; the default port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


@lru_cache(maxsize=2048)
def read_url(url: str) -> Target:
    """Take `url` apart. Raises BlockedUrlError: scheme, user name, host spelling, port."""
    if len(url) > URL_MAX or UNPRINTABLE.search(url):
        raise BlockedUrlError("The URL is too long or has characters that a URL may not have.")
    if "#" in url:
        raise BlockedUrlError("The URL has a fragment (#…); leave it out.")
    found = URL.fullmatch(url)
    if found is None:
        raise BlockedUrlError("The URL is not of the form https://host/path without a user name.")
    scheme = found["scheme"].lower()
    host, literal = _host(found["host"])
    port = int(found["port"] or DEFAULT_PORTS[scheme])
    if not 0 < port < 65536:
        raise BlockedUrlError("The URL's port is not between 1 and 65535.")
    path = quote(found["path"] or "/", safe=PRINTABLE)
    return Target(scheme, host, port, path if path.startswith("/") else f"/{path}", literal)


def _host(text: str) -> tuple[str, Address | None]:
    if text.startswith("["):
        literal = parse(text[1:-1])
        if literal is None:
            raise BlockedUrlError("The URL's host is not an IPv6 address.")
        return str(literal), literal
    host = _ascii_host(text)
    labels = host.split(".")
    if NUMBER.fullmatch(labels[-1]):
        literal = parse(host)
        if literal is None:
            raise BlockedUrlError("The URL's host is an IP address in an unusual spelling.")
        return host, literal
    if len(host) > HOST_MAX or not all(LABEL.fullmatch(label) for label in labels):
        raise BlockedUrlError("The URL's host is not a host name.")
    return host, None


def _ascii_host(text: str) -> str:
    """Return the ASCII form; only names that are already valid IDNA 2008 have one (RFC 5891)."""
    text = text.translate(ASCII_LOWER)
    if not text.isascii():
        try:
            text = idna.encode(text).decode("ascii")
        except idna.IDNAError as exc:
            raise BlockedUrlError("The URL's host is not a valid international name.") from exc
    return text.removesuffix(".")
