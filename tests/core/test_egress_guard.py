"""Nothing reaches an inner address: rebinding, mixed answers, proxies, TLS names, equal errors."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcphub.core.clock import Deadline
from mcphub.core.egress import AllowRule, EgressClient, EgressPolicy, EgressRequest, connections
from mcphub.core.egress import sockets as egress_sockets
from mcphub.core.egress.addresses import Address
from mcphub.core.errors import BlockedUrlError, HubError, UpstreamError
from tests.core.raw_server import RawServer, raw_server, response

PUBLIC = "93.184.216.34"


@pytest.fixture
async def canary() -> AsyncIterator[RawServer]:
    async with raw_server() as server:
        yield server


def names(**answers: list[str]) -> connections.Resolve:
    """Resolve `a_test=…` for the name a.test; every other name is unknown."""

    async def resolve(host: str, port: int) -> list[str]:
        try:
            return answers[host.replace(".", "_")]
        except KeyError:
            raise socket.gaierror(socket.EAI_NONAME, "unknown") from None

    return resolve


def ask(url: str) -> EgressRequest:
    return EgressRequest(method="POST", url=url, content=b"{}", deadline=Deadline.after(5))


def listed(*items: str) -> EgressPolicy:
    return EgressPolicy(allow=tuple(AllowRule.parse(item) for item in items))


async def failure(client: EgressClient, url: str) -> HubError:
    with pytest.raises(HubError) as caught:
        await client.fetch(ask(url))
    await client.aclose()
    return caught.value


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["fd00:ec2::254"],
        ["64:ff9b::7f00:1"],
        ["0.0.0.0"],
        [PUBLIC, "127.0.0.1"],
        ["127.0.0.1", PUBLIC],
        ["nonsense"],
        ["0177.0.0.1"],
    ],
)
async def test_a_name_that_resolves_inside_is_blocked_before_any_connection(
    canary: RawServer, answers: list[str]
) -> None:
    policy = EgressPolicy(ports=frozenset({443, canary.port}))
    client = EgressClient(policy, resolve=names(inner_test=answers))
    error = await failure(client, f"https://inner.test:{canary.port}/")
    assert (error.problem_code, error.was_sent) == ("blocked_url", False)
    assert error.detail == BlockedUrlError.title
    assert canary.connections == 0


@pytest.mark.parametrize("spelling", ["127.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]"])
async def test_a_literal_inner_address_is_blocked_before_any_connection(
    canary: RawServer, spelling: str
) -> None:
    client = EgressClient(EgressPolicy(ports=frozenset({canary.port})))
    error = await failure(client, f"https://{spelling}:{canary.port}/")
    assert error.problem_code == "blocked_url"
    assert canary.connections == 0


async def test_every_new_connection_is_checked_again(
    canary: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = iter([[PUBLIC], ["127.0.0.1"]])

    async def resolve(host: str, port: int) -> list[str]:
        return next(turns)

    opened = record_connects(monkeypatch)
    policy = EgressPolicy(ports=frozenset({canary.port}))
    client = EgressClient(policy, resolve=resolve)
    url = f"https://rebind.test:{canary.port}/"
    with pytest.raises(UpstreamError):
        await client.fetch(ask(url))
    with pytest.raises(BlockedUrlError):
        await client.fetch(ask(url))
    assert opened == [PUBLIC]
    assert canary.connections == 0


def record_connects(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let every connection be refused, and record to which addresses it went."""
    opened: list[str] = []

    async def refuse(
        address: Address, port: int, *, host: str, tls: ssl.SSLContext | None
    ) -> egress_sockets.SocketStream:
        opened.append(str(address))
        raise ConnectionRefusedError

    monkeypatch.setattr(egress_sockets, "connect", refuse)
    return opened


async def test_at_most_four_addresses_are_tried_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = record_connects(monkeypatch)
    many = [f"93.184.216.{number}" for number in range(1, 9)]
    client = EgressClient(EgressPolicy(), resolve=names(many_test=many))
    await failure(client, "https://many.test/")
    assert opened == many[:4]


async def test_every_failure_of_a_stranger_looks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    faults: list[OSError] = [
        ConnectionRefusedError(),
        ConnectionResetError(),
        TimeoutError(),
        ssl.SSLCertVerificationError("hostname mismatch"),
        ssl.SSLError("wrong version"),
        OSError(113, "no route"),
    ]
    seen = set()
    for fault in faults:
        monkeypatch.setattr(egress_sockets, "connect", failing(fault))
        client = EgressClient(EgressPolicy(), resolve=names(a_test=[PUBLIC]))
        seen.add(told(await failure(client, "https://a.test/")))
    no_addresses: list[str] = []
    for resolve in (names(a_test=no_addresses), names()):
        client = EgressClient(EgressPolicy(), resolve=resolve)
        seen.add(told(await failure(client, "https://a.test/")))
    assert seen == {("upstream_unreachable", 502, UpstreamError.title, False)}


def failing(fault: OSError) -> Callable[..., Awaitable[egress_sockets.SocketStream]]:
    async def connect(*_: object, **__: object) -> egress_sockets.SocketStream:
        raise fault

    return connect


def told(error: HubError) -> tuple[str, int, str, bool]:
    return (error.problem_code, error.status, error.detail, error.was_sent)


async def test_a_listed_host_is_told_why_it_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = set()
    for fault in (ConnectionRefusedError(), TimeoutError(), ssl.SSLError("x")):
        monkeypatch.setattr(egress_sockets, "connect", failing(fault))
        client = EgressClient(listed("a.test"), resolve=names(a_test=["10.0.0.1"]))
        texts.add((await failure(client, "https://a.test/")).detail)
    client = EgressClient(listed("a.test"), resolve=names())
    texts.add((await failure(client, "https://a.test/")).detail)
    assert len(texts - {UpstreamError.title}) == 4


async def test_a_listed_private_host_is_reached_and_another_is_not(canary: RawServer) -> None:
    resolve = names(good_test=["127.0.0.1"], other_test=["127.0.0.1"])
    client = EgressClient(listed(f"good.test:{canary.port}"), resolve=resolve)
    assert (await client.fetch(ask(f"http://good.test:{canary.port}/"))).status == 200
    error = await failure(client, f"http://other.test:{canary.port}/")
    assert error.problem_code == "blocked_url"
    assert canary.requests[0].split("\r\n")[1] == f"Host: good.test:{canary.port}"


async def test_a_listed_range_is_reached_by_name(canary: RawServer) -> None:
    client = EgressClient(listed("127.0.0.0/8"), resolve=names(good_test=["127.0.0.1"]))
    assert (await client.fetch(ask(f"http://good.test:{canary.port}/"))).status == 200
    await client.aclose()


async def test_the_hubs_own_address_is_refused_even_where_loopback_is_allowed(
    canary: RawServer,
) -> None:
    own = frozenset({("127.0.0.1", canary.port)})
    policy = EgressPolicy(allow_loopback=True, own=own)
    client = EgressClient(policy, resolve=names(x_test=["127.0.0.1"]))
    for host in ("127.0.0.1", "localhost", "x.test"):
        error = await failure(client, f"http://{host}:{canary.port}/")
        assert error.problem_code == "blocked_url"
    assert canary.connections == 0


async def test_a_proxy_of_the_environment_is_ignored(
    canary: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
    client = EgressClient(EgressPolicy(allow_loopback=True))
    async with raw_server() as server:
        assert (await client.fetch(ask(server.url))).status == 200
    await client.aclose()
    assert canary.connections == 0


async def test_a_check_without_a_request_resolves_and_connects_to_nothing(
    canary: RawServer,
) -> None:
    policy = EgressPolicy(ports=frozenset({443, canary.port}))
    client = EgressClient(policy, resolve=names(inner_test=["127.0.0.1"], outer_test=[PUBLIC]))
    await client.check("https://outer.test/")
    await client.check("https://unknown.test/")
    with pytest.raises(BlockedUrlError):
        await client.check(f"https://inner.test:{canary.port}/")
    assert canary.connections == 0


async def test_the_system_resolver_answers_addresses_once() -> None:
    found = await connections.resolve_by_system("localhost", 80)
    assert found
    assert len(set(found)) == len(found)


async def test_a_resolver_that_hangs_ends_at_the_deadline() -> None:
    async def hang(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    client = EgressClient(EgressPolicy(), resolve=hang)
    with pytest.raises(UpstreamError) as caught:
        await client.fetch(
            EgressRequest(method="GET", url="https://a.test/", deadline=Deadline.after(0.05))
        )
    assert told(caught.value) == ("upstream_unreachable", 502, UpstreamError.title, False)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate with its key for the name good.test."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "good.test")])
    now = datetime.now(tz=UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("good.test")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "good.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + built.public_bytes(serialization.Encoding.PEM)
    )
    return file


def contexts(certificate: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    return server, ssl.create_default_context(cafile=str(certificate))


async def test_tls_checks_the_certificate_against_the_name_not_the_address(
    certificate: Path,
) -> None:
    of_server, of_client = contexts(certificate)
    resolve = names(good_test=["127.0.0.1"], bad_test=["127.0.0.1"])
    policy = listed("good.test", "bad.test")
    client = EgressClient(policy, resolve=resolve, tls=of_client)
    async with raw_server(response(b"safe"), tls=of_server) as server:
        answer = await client.fetch(ask(f"https://good.test:{server.port}/"))
        assert answer.body == b"safe"
        assert (await client.fetch(ask(f"https://good.test:{server.port}/"))).body == b"safe"
        error = await failure(client, f"https://bad.test:{server.port}/")
    assert "TLS" in error.detail
    assert (len(server.requests), error.was_sent) == (2, False)


async def test_tls_of_an_unknown_issuer_is_refused(certificate: Path) -> None:
    of_server, _ = contexts(certificate)
    client = EgressClient(listed("good.test"), resolve=names(good_test=["127.0.0.1"]))
    async with raw_server(tls=of_server) as server:
        error = await failure(client, f"https://good.test:{server.port}/")
    assert "TLS" in error.detail
    assert server.requests == []


async def test_a_server_that_never_answers_the_tls_greeting_ends_at_the_deadline(
    canary: RawServer,
) -> None:
    client = EgressClient(listed("good.test"), resolve=names(good_test=["127.0.0.1"]))
    url = f"https://good.test:{canary.port}/"
    with pytest.raises(UpstreamError) as caught:
        await client.fetch(EgressRequest(method="GET", url=url, deadline=Deadline.after(0.2)))
    assert (caught.value.problem_code, caught.value.was_sent) == ("upstream_unreachable", False)
    assert canary.requests == []
