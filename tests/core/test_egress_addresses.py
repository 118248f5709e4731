"""The address table: which addresses are public, on every supported Python."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from mcphub.core.egress import addresses

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "::ffff:8.8.8.8",
    "2606:4700:4700::1111",
    "2a00:1450:4001:80e::200e",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses_are_public(text: str) -> None:
    assert addresses.is_public(ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_special_addresses_are_not_public(text: str) -> None:
    assert not addresses.is_public(ip_address(text))


@pytest.mark.parametrize(
    "text", ["127.1", "0177.0.0.1", "0x7f.1", "2130706433", "①②⑦.0.0.1", "127。0。0。1", "", "a"]
)
def test_only_the_canonical_spelling_is_an_address(text: str) -> None:
    assert addresses.parse(text) is None


def test_the_mapped_form_of_loopback_is_loopback() -> None:
    assert addresses.is_loopback(ip_address("::ffff:127.0.0.1"))
