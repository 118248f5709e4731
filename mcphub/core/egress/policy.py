"""The egress policy: which URLs and which addresses the hub may call; pure.

One rule for all outbound HTTP. What the operator lists (a host, an address range, either with a
port) may be plain http and private. Everything else is https, on the listed ports, to public
addresses. The hub's own address is never called.

What an answer tells: an address that the policy refuses gives `blocked_url` before any connection
is opened, and it does not matter whether the URL spells it or a name resolves to it. A host that
is not listed and refuses, hangs, fails in TLS or does not resolve always gives the same
`upstream_unreachable`. So neither code, text nor time tell anything about the inner network.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_network

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from mcphub.core.egress.addresses import Address, Network, is_loopback, is_public, parse, unwrapped
from mcphub.core.egress.targets import Target, read_url
from mcphub.core.errors import BlockedUrlError

LOOPBACK = parse("127.0.0.1")


@dataclass(frozen=True, slots=True)
class AllowRule:
    """One item of the operator's list: a host name or a range of addresses, any port or one."""

    host: str | None = None
    network: Network | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> AllowRule:
        """Read `host`, `host:8080`, `host:*`, `10.0.0.0/8`, `10.1.2.3:80`, `[::1]:9000`.

        Raises ValueError.
        """
        host, port = _split_port(text.strip().lower())
        try:
            return cls(network=ip_network(host, strict=False), port=port)
        except ValueError:
            pass
        if "/" in host:
            raise ValueError(f"{text!r} is not an address range such as 10.0.0.0/8")
        try:
            target = read_url(f"http://{host}/")
        except BlockedUrlError as exc:
            raise ValueError(f"{text!r} is not a host name, an address or a range") from exc
        return cls(host=target.host, port=port)

    def covers_port(self, port: int) -> bool:
        return self.port is None or self.port == port

    def covers(self, host: str, address: Address, port: int) -> bool:
        if not self.covers_port(port):
            return False
        if self.network is not None:
            return unwrapped(address) in self.network or address in self.network
        return self.host == host


def _split_port(text: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if text.startswith("["):
        inner, _, rest = text[1:].partition("]")
        host, colon, port = (
            (inner + rest).rpartition(":") if ":" in rest else (inner + rest, "", "")
        )
    elif text.count(":") != 1:
        colon = ""
        host = text
    if not colon:
        return host or text, None
    if port == "*":
        return host, None
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} has a port that is not a number between 1 and 65535")
    return host, int(port)


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """What may be called; `own` holds the (host, port) pairs under which the hub itself listens."""

    allow: tuple[AllowRule, ...] = ()
    allow_loopback: bool = False
    ports: frozenset[int] = frozenset({443})
    own: frozenset[tuple[str, int]] = field(default=frozenset())

    def check_url(self, url: str) -> None:
        """Refuse what the URL alone gives away. Raises BlockedUrlError. Resolves nothing."""
        self.check_target(read_url(url))

    def check_target(self, target: Target) -> None:
        """As `check_url`, for a URL that is already taken apart."""
        literal = target.literal
        if literal is None and (target.host == "localhost" or target.host.endswith(".localhost")):
            literal = LOOPBACK  # RFC 6761 §6.3
        if (target.host, target.port) in self.own:
            raise BlockedUrlError("The hub does not call itself.")
        if not self._may_be_listed(target, literal):
            if target.is_plain:
                raise BlockedUrlError("Only https addresses may be called.")
            if target.port not in self.ports:
                raise BlockedUrlError("This port may not be called.")
        if literal is not None and not self.may_connect(target.host, literal, target.port):
            raise BlockedUrlError

    def may_connect(
        self, host: str, address: Address, port: int, *, is_plain: bool = False
    ) -> bool:
        """Whether a connection for `host` may be opened to this resolved address."""
        if self._is_own(address, port):
            return False
        if self.lists(host, address, port):
            return True
        return not is_plain and port in self.ports and is_public(address)

    def lists(self, host: str, address: Address, port: int) -> bool:
        """Whether the operator listed this host or address (or allows all of loopback)."""
        if self.allow_loopback and is_loopback(address):
            return True
        return any(rule.covers(host, address, port) for rule in self.allow)

    def lists_host(self, host: str, port: int) -> bool:
        return any(rule.host == host and rule.covers_port(port) for rule in self.allow)

    def _may_be_listed(self, target: Target, literal: Address | None) -> bool:
        """Whether the URL is listed, or is a name that may resolve into a listed range."""
        if literal is not None:
            return self.lists(target.host, literal, target.port)
        if self.lists_host(target.host, target.port) or self.allow_loopback:
            return True
        return any(rule.network and rule.covers_port(target.port) for rule in self.allow)

    def _is_own(self, address: Address, port: int) -> bool:
        local = is_loopback(address) or unwrapped(address).is_unspecified
        for host, own_port in self.own:
            own = parse(host) or (LOOPBACK if host == "localhost" else None)
            if own is None or own_port != port:
                continue
            if unwrapped(address) == own or (local and is_loopback(own)):
                return True
        return False


def policy_from_settings() -> EgressPolicy:
    """Return the policy of MCPHUB_EGRESS_* and MCPHUB_BASE_URL. Raises ImproperlyConfigured."""
    return EgressPolicy(
        allow=_rules(settings.EGRESS_ALLOW),
        allow_loopback=settings.EGRESS_ALLOW_LOOPBACK,
        ports=frozenset(settings.EGRESS_PORTS),
        own=_own(settings.BASE_URL),
    )


def _rules(items: Iterable[str]) -> tuple[AllowRule, ...]:
    try:
        return tuple(AllowRule.parse(item) for item in items)
    except ValueError as exc:
        raise ImproperlyConfigured(f"MCPHUB_EGRESS_ALLOW: {exc}") from exc


def _own(base_url: str) -> frozenset[tuple[str, int]]:
    try:
        target = read_url(base_url)
    except BlockedUrlError as exc:
        raise ImproperlyConfigured(f"MCPHUB_BASE_URL: {exc.detail}") from exc
    return frozenset({(target.host, target.port)})
