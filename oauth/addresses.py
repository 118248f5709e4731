"""Which addresses an authorization may use, and which resource covers which server; pure."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

from oauth.errors import InsecureOAuthUrlError

LONGEST = 2000
PLAIN = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!&*+,;=%]+")
"""RFC 3986 without the characters that a shell or a page might read: quotes, $, (, )."""
DEFAULT_PORTS = {"http": 80, "https": 443}


def split(url: object) -> SplitResult | None:
    """Return the parts of a plain http(s) URL with a host; None for everything else."""
    if not isinstance(url, str) or len(url) > LONGEST or PLAIN.fullmatch(url) is None:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    is_usable = parts.scheme in DEFAULT_PORTS and parts.hostname and port != 0
    if not is_usable or parts.fragment or parts.username is not None:
        return None
    return parts


def origin(parts: SplitResult) -> tuple[str, str, int]:
    return (
        parts.scheme,
        (parts.hostname or "").lower(),
        parts.port or DEFAULT_PORTS[parts.scheme],
    )


def origin_text(url: str) -> str:
    """Return `https://host[:port]` as a browser spells it; "" when `url` is no usable URL."""
    parts = split(url)
    if parts is None:
        return ""
    scheme, host, port = origin(parts)
    spelled = f"[{host}]" if ":" in host else host
    return f"{scheme}://{spelled}" + ("" if DEFAULT_PORTS[scheme] == port else f":{port}")


def is_loopback(parts: SplitResult) -> bool:
    host = (parts.hostname or "").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_secure(parts: SplitResult, *, allow_plain: bool) -> None:
    """Raise InsecureOAuthUrlError for http beyond loopback."""
    if parts.scheme == "http" and not allow_plain and not is_loopback(parts):
        raise InsecureOAuthUrlError(
            "The server names an http address for its authorization; it has to be https. "
            "Ask its operator to correct the metadata."
        )


def canonical(server_url: str) -> str:
    """Return the canonical resource URI of a server: as configured, without query (RFC 8707 §2)."""
    bare = server_url.partition("#")[0].partition("?")[0]
    parts = urlsplit(bare)
    return bare[:-1] if parts.path == "/" else bare


def covers(resource: str, server_url: str) -> bool:
    """Whether `resource` is the server or a parent path of it on the same origin, by segments."""
    wide, narrow = split(resource), split(canonical(server_url))
    if wide is None or narrow is None or origin(wide) != origin(narrow):
        return False
    parent = wide.path.rstrip("/")
    return f"{narrow.path.rstrip('/')}/".startswith(f"{parent}/")


def resource_metadata_urls(server_url: str, named: str = "") -> list[str]:
    """Return where RFC 9728 metadata may be, in the order of the MCP specification."""
    parts = urlsplit(canonical(server_url))
    base = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
    path = parts.path.rstrip("/")
    return list(dict.fromkeys(filter(None, (named, f"{base}{path}", base))))


def issuer_metadata_urls(issuer: str) -> list[str]:
    """Return where RFC 8414 and OpenID metadata may be, in the order of the MCP specification."""
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    oauth, openid = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
    if not path:
        return [base + oauth, base + openid]
    return [base + oauth + path, base + openid + path, base + path + openid]
