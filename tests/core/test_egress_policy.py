"""The egress policy by URL alone, and by resolved address."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django.fixtures import Settings

from mcphub.core.egress import AllowRule, EgressPolicy, policy_from_settings
from mcphub.core.egress.targets import read_url
from mcphub.core.errors import BlockedUrlError

STRICT = EgressPolicy()
LISTED = EgressPolicy(
    allow=tuple(
        AllowRule.parse(item)
        for item in ("intra.test", "port.test:8080", "10.0.0.0/8", "[fd00::1]:9000")
    )
)
LOCAL = EgressPolicy(allow_loopback=True, own=frozenset({("127.0.0.1", 8000)}))

REFUSED = [
    "",
    "mcp.example.com",
    "//mcp.example.com/",
    "https:///mcp",
    "https://",
    "http://mcp.example.com/mcp",
    "ftp://mcp.example.com/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "unix:///run/x.sock",
    "https://user@mcp.example.com/",
    "https://user:secret@mcp.example.com/",
    "https://good.example\\@127.0.0.1/",
    "https://mcp.example.com\\.evil.test/",
    "https://mcp.example.com/#fragment",
    "https://mcp.example.com/a b",
    "https://mcp.example.com/\r\nHost: x",
    " https://mcp.example.com/",
    "https://mcp.example.com/\x00",
    "https://mcp.example.com:8443/",
    "https://mcp.example.com:0/",
    "https://mcp.example.com:99999/",
    "https://mcp.example.com:/",
    "https://-a.example.com/",
    "https://a..example.com/",
    "https://exa%6dple.com/",
    "https://exa_mple.com:x/",
    "https://localhost/",
    "https://a.localhost/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://0177.0.0.1/",
    "https://0x7f.1/",
    "https://0x7f000001/",
    "https://2130706433/",
    "https://017700000001/",
    "https://127.0.0.1./",
    "https://127。0。0。1/",
    "https://①②⑦.0.0.1/",
    "https://ⓔxample.com/",
    "https://\u212aelvin.example/",
    "http\u017f://mcp.example.com/",
    "https://\uff11.0.0.1/",
    "https://10.0.0.1/",
    "https://100.64.0.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[fd00:ec2::254]/",
    "https://[fe80::1%25eth0]/",
    "https://[::1/",
    "https://[v1.x]/",
    "https://[1:2]/",
    "https://mcp.example.com/" + "a" * 9000,
]


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_gives_itself_away_is_blocked(url: str) -> None:
    with pytest.raises(BlockedUrlError) as caught:
        STRICT.check_url(url)
    assert caught.value.problem_code == "blocked_url"
    assert not caught.value.was_sent


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example.com",
        "https://mcp.example.com/mcp?tenant=1&x=%20",
        "HTTPS://MCP.Example.COM:443/mcp",
        "https://mcp.example.com./mcp",
        "https://bücher.example/mcp",
        "https://xn--bcher-kva.example/mcp",
        "https://8.8.8.8/",
        "https://[2606:4700:4700::1111]/",
        "https://mcp.example.com/pfad/ü",
    ],
)
def test_a_public_https_url_passes(url: str) -> None:
    STRICT.check_url(url)


def test_a_url_is_taken_apart_into_one_canonical_spelling() -> None:
    assert read_url("HTTPS://Bücher.Example.:8443?q=ü").url == (
        "https://xn--bcher-kva.example:8443/?q=%C3%BC"
    )
    assert read_url("http://[FD00::0:1]:80/x").url == "http://[fd00::1]/x"


@pytest.mark.parametrize(
    "url",
    [
        "http://intra.test/",
        "http://INTRA.test.:81/",
        "http://port.test:8080/",
        "http://10.1.2.3:7/",
        "http://[fd00::1]:9000/",
    ],
)
def test_what_the_operator_lists_may_be_plain_and_private(url: str) -> None:
    LISTED.check_url(url)


@pytest.mark.parametrize("url", ["http://11.0.0.1/", "http://192.168.0.1/", "http://[fd00::1]/"])
def test_what_the_operator_does_not_list_stays_blocked(url: str) -> None:
    with pytest.raises(BlockedUrlError):
        LISTED.check_url(url)


def test_a_name_is_allowed_plain_only_when_it_resolves_into_a_listed_range() -> None:
    LISTED.check_url("http://any.test:8080/")
    assert LISTED.may_connect("any.test", ip_address("10.1.2.3"), 8080, is_plain=True)
    assert not LISTED.may_connect("any.test", ip_address("8.8.8.8"), 443, is_plain=True)
    assert not LISTED.may_connect("any.test", ip_address("8.8.8.8"), 8080)
    assert LISTED.may_connect("any.test", ip_address("8.8.8.8"), 443)
    assert not LISTED.may_connect("any.test", ip_address("192.168.0.1"), 443)


def test_a_listed_host_is_trusted_wherever_it_resolves_to() -> None:
    assert LISTED.may_connect("intra.test", ip_address("192.168.0.1"), 80, is_plain=True)
    assert not LISTED.may_connect("port.test", ip_address("192.168.0.1"), 81)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/", "http://localhost:9/", "http://[::1]:9/", "http://x.localhost/"]
)
def test_loopback_may_be_allowed_on_every_port(url: str) -> None:
    LOCAL.check_url(url)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/", "http://localhost:8000/", "http://[::1]:8000/mcp"]
)
def test_the_hub_never_calls_itself(url: str) -> None:
    with pytest.raises(BlockedUrlError):
        LOCAL.check_url(url)


def test_a_name_that_resolves_to_the_hub_is_refused() -> None:
    assert not LOCAL.may_connect("x.test", ip_address("127.0.0.2"), 8000)
    assert not LOCAL.may_connect("x.test", ip_address("::ffff:127.0.0.1"), 8000)
    assert LOCAL.may_connect("x.test", ip_address("127.0.0.1"), 8001)


@pytest.mark.parametrize(
    "url", ["http://192.168.0.1/", "http://8.8.8.8/", "https://8.8.8.8:8443/", "http://0.0.0.0:9/"]
)
def test_allowing_loopback_allows_nothing_else(url: str) -> None:
    with pytest.raises(BlockedUrlError):
        LOCAL.check_url(url)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Host.Test", ("host.test", None, None)),
        ("host.test:80", ("host.test", None, 80)),
        ("host.test:*", ("host.test", None, None)),
        ("10.0.0.0/8", (None, "10.0.0.0/8", None)),
        ("10.0.0.0/8:80", (None, "10.0.0.0/8", 80)),
        ("10.1.2.3:8080", (None, "10.1.2.3/32", 8080)),
        ("::1", (None, "::1/128", None)),
        ("fd00::/8", (None, "fd00::/8", None)),
        ("[::1]:9000", (None, "::1/128", 9000)),
        ("[fd00::]/8", (None, "fd00::/8", None)),
        ("[fd00::/8]:443", (None, "fd00::/8", 443)),
    ],
)
def test_an_allow_rule_reads_each_documented_form(
    text: str, expected: tuple[str | None, str | None, int | None]
) -> None:
    rule = AllowRule.parse(text)
    network = None if rule.network is None else str(rule.network)
    assert (rule.host, network, rule.port) == expected


@pytest.mark.parametrize(
    "text", ["", ":80", "host:99999", "host:x", "10.0.0.0/99", "https://a.test", "a b", "127.1"]
)
def test_an_allow_rule_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|has a port"):
        AllowRule.parse(text)


def test_the_policy_comes_from_the_settings(settings: Settings) -> None:
    settings.EGRESS_ALLOW = ["a.test:80"]
    settings.EGRESS_ALLOW_LOOPBACK = False
    settings.EGRESS_PORTS = [443, 8443]
    settings.BASE_URL = "https://hub.test"
    assert policy_from_settings() == EgressPolicy(
        allow=(AllowRule(host="a.test", port=80),),
        ports=frozenset({443, 8443}),
        own=frozenset({("hub.test", 443)}),
    )
    with pytest.raises(BlockedUrlError):
        policy_from_settings().check_url("https://hub.test/mcp")


@pytest.mark.parametrize(
    ("name", "value"), [("EGRESS_ALLOW", ["10.0.0.0/99"]), ("BASE_URL", "http://a b")]
)
def test_a_setting_that_cannot_be_read_stops_the_start(
    settings: Settings, name: str, value: object
) -> None:
    setattr(settings, name, value)
    with pytest.raises(ImproperlyConfigured, match="MCPHUB_"):
        policy_from_settings()
