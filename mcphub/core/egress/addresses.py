"""Which IP addresses are public; pure. The classifier of Smokescreen, written for `ipaddress`.

`ipaddress.is_global` alone is not enough: it is true for multicast, NAT64, 6to4 and IPv4-compatible
addresses, all of which can lead into a private network.
"""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Global unicast is the only part of IPv6 that IANA has handed out (RFC 4291 §2.4); everything
# outside of it is special: ::/96, 64:ff9b::/96, 64:ff9b:1::/48, fc00::/7, fe80::/10, fec0::/10, ….
GLOBAL_UNICAST = IPv6Network("2000::/3")
SPECIAL: tuple[Network, ...] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, RFC 6598
        "192.0.0.0/24",
        "192.88.99.0/24",  # 6to4 relay anycast, RFC 7526
        "2001::/23",  # Teredo, ORCHID, benchmarking: IETF protocol assignments, RFC 2928
        "2001:db8::/32",
        "2002::/16",  # 6to4 embeds an IPv4 address
        "3fff::/20",  # documentation, RFC 9637; `ipaddress` knows it since 3.14
    )
)


def parse(text: str) -> Address | None:
    """Return the address that `text` spells canonically; None for names and odd spellings."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def unwrapped(address: Address) -> Address:
    """Return the IPv4 address inside an IPv4-mapped one, else the address itself."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: Address) -> bool:
    """Whether the address may belong to a stranger's server on the Internet."""
    address = unwrapped(address)
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, IPv6Address) and (
        address.scope_id is not None or address not in GLOBAL_UNICAST
    ):
        return False
    return not any(address in network for network in SPECIAL)


def is_loopback(address: Address) -> bool:
    return unwrapped(address).is_loopback
