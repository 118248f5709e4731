"""Opening a session over HTTP: era detection, version agreement and the SSE fallback rule.

Only an answer is a verdict about the server: outages, overload and refused authorization never
change the era or the transport (basic/transports#backwards-compatibility).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from mcp_types import SERVER_INFO_META_KEY
from mcp_types.jsonrpc import UNSUPPORTED_PROTOCOL_VERSION

from connectors.server_spec import Era, ServerSpec, Transport, declared_per_request
from connectors.upstream import errors
from connectors.upstream.adoption import adopt, stored_of
from connectors.upstream.base import BaseSession
from connectors.upstream.contract import Opened, Session, SessionListener, UpstreamRequest
from connectors.upstream.eras import (
    CLIENT_INFO,
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
    LegacyRules,
    ModernRules,
)
from connectors.upstream.errors import HttpStatusError, PeerError
from connectors.upstream.legacy_sse import SseSession
from connectors.upstream.streamable_http import HttpSession
from mcphub.core.clock import Deadline
from mcphub.core.egress import EgressClient
from mcphub.core.errors import HubError, UpstreamError, UpstreamTimeoutError
from mcphub.core.types import JSONObject, JSONValue

SSE_FALLBACK_STATUS = frozenset({400, 404, 405})
PROBE_SHARE = 0.5
"""Part of the connect time that the era probe may take: a legacy server may ignore it."""
_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What one attempt to connect works with."""

    spec: ServerSpec
    http: EgressClient
    listener: SessionListener
    deadline: Deadline


async def open_http(attempt: Attempt) -> Session:
    """Open a session by the negotiation table. Raises HubError."""
    if attempt.spec.transport is Transport.SSE:
        return await _open_sse(attempt)
    attempt.listener.on_step("transport", {"transport": Transport.STREAMABLE_HTTP.value})
    if (adopted := await adopt(attempt)) is not None:
        return _begun(adopted, attempt)
    session = HttpSession(attempt.spec, attempt.http, attempt.listener, LegacyRules())
    try:
        await _negotiate(session, attempt)
    except (HttpStatusError, PeerError) as exc:
        if attempt.spec.transport is not Transport.AUTO or not _may_be_sse(exc):
            raise
        attempt.listener.on_step("fallback", {"transport": "sse", "status": exc.http_status})
        return await _fall_back(attempt, exc)
    except BaseException:
        session.end(errors.session_closed(), is_announced=False)
        raise
    return _begun(session, attempt)


def _begun(session: HttpSession, attempt: Attempt) -> Session:
    """Start to listen, and say how a later holder goes on with the session."""
    earlier = attempt.spec.stored_session
    holders = 1 + (earlier.holders if earlier and session.is_adopted else 0)
    stored = stored_of(session, attempt.spec, holders=holders)
    session.opened = replace(session.opened, stored=stored)
    session.start()
    return session


def _may_be_sse(error: HttpStatusError | PeerError) -> bool:
    if isinstance(error, PeerError) and error.is_modern:
        return False
    return error.http_status in SSE_FALLBACK_STATUS


async def _fall_back(attempt: Attempt, first: HubError) -> Session:
    try:
        return await _open_sse(attempt)
    except (HttpStatusError, PeerError) as exc:
        attempt.listener.on_step("fallback_failed", {"status": exc.http_status})
        raise first from exc


async def _open_sse(attempt: Attempt) -> Session:
    attempt.listener.on_step("transport", {"transport": Transport.SSE.value})
    session = SseSession(attempt.spec, attempt.http, attempt.listener)
    try:
        await session.open(attempt.deadline)
        session.opened = await initialize(session, attempt, Transport.SSE)
    except BaseException:
        await session.close()
        raise
    return session


async def _negotiate(session: HttpSession, attempt: Attempt) -> None:
    if attempt.spec.era_hint is Era.LEGACY:
        try:
            session.opened = await initialize(session, attempt, Transport.STREAMABLE_HTTP)
        except (HttpStatusError, PeerError) as exc:
            if isinstance(exc, HttpStatusError) and exc.is_transient:
                raise
            attempt.listener.on_step("era_hint_failed", {"era": Era.LEGACY.value})
        else:
            return
    verdict = await probe(session, attempt, Transport.STREAMABLE_HTTP)
    if isinstance(verdict, Opened):
        session.opened = verdict
        return
    session.opened = await shake_hands(
        session, attempt, Transport.STREAMABLE_HTTP, is_era_certain=verdict
    )


async def shake_hands(
    session: BaseSession, attempt: Attempt, transport: Transport, *, is_era_certain: bool
) -> Opened:
    """Do the handshake that a probe led to; a refusal may show that the probe was only slow."""
    try:
        return await initialize(session, attempt, transport, is_era_certain=is_era_certain)
    except PeerError as exc:
        if is_era_certain or not exc.is_modern:
            raise
        verdict = await probe(session, attempt, transport)
        if isinstance(verdict, Opened):
            return verdict
        raise


# --- server/discover


async def probe(session: BaseSession, attempt: Attempt, transport: Transport) -> Opened | bool:
    """Ask `server/discover`; return what it said, or whether the era is certainly legacy.

    Raises HubError where the failure says nothing about the era, or nothing can be done about it.
    """
    rules = ModernRules(
        client_capabilities=declared_per_request(attempt.listener.client_capabilities)
    )
    session.rules = rules
    for _ in range(2):
        try:
            result = await _ask(
                session,
                "server/discover",
                {},
                Deadline.after(attempt.deadline.remaining * PROBE_SHARE),
            )
        except UpstreamTimeoutError as exc:
            if not exc.was_sent:
                raise
            attempt.listener.on_step("era_probe", {"outcome": "timeout"})
            return False
        except (HttpStatusError, PeerError, UpstreamError) as exc:
            version = _judge_refusal(exc, rules.version)
            if version is not None:
                rules.version = version
                continue
            attempt.listener.on_step("era_probe", {"outcome": "refused"})
            return True
        return _judge_discovery(result, rules, attempt, transport)
    raise errors.incompatible_version()


def _judge_refusal(error: HubError, offered: str) -> str | None:
    """Return the modern version to try next, None for "speak legacy". Raises what is no verdict."""
    if isinstance(error, PeerError):
        if error.rpc.code == UNSUPPORTED_PROTOCOL_VERSION:
            return _version_for(error, offered)
        if error.is_modern:
            raise error
        if error.http_status >= 500 or error.http_status in errors.TRANSIENT_STATUS:
            raise error
        return None
    if isinstance(error, HttpStatusError):
        if error.is_transient or error.http_status < 400:
            raise error
        return None
    if error.problem_code in {"protocol_error", "not_mcp_endpoint"}:
        return None
    raise error


def _version_for(error: PeerError, offered: str) -> str | None:
    listed = error.rpc.data.get("supported") if isinstance(error.rpc.data, dict) else None
    supported = listed if isinstance(listed, list) else []
    modern = [v for v in reversed(MODERN_PROTOCOL_VERSIONS) if v in supported and v != offered]
    if modern:
        return modern[0]
    if any(version in HANDSHAKE_PROTOCOL_VERSIONS for version in supported):
        return None
    raise errors.incompatible_version() from error


def _judge_discovery(
    result: JSONObject, rules: ModernRules, attempt: Attempt, transport: Transport
) -> Opened | bool:
    listed = result.get("supportedVersions")
    supported = listed if isinstance(listed, list) else []
    common = [v for v in reversed(MODERN_PROTOCOL_VERSIONS) if v in supported]
    if not common:
        attempt.listener.on_step("era_probe", {"outcome": "handshake_only"})
        return True
    rules.version = common[0]
    attempt.listener.on_step("era_probe", {"outcome": "modern", "version": common[0]})
    meta = _object(result.get("_meta"))
    return Opened(
        era=Era.MODERN,
        transport=transport,
        protocol_version=common[0],
        server_info=_object(meta.get(SERVER_INFO_META_KEY)),
        capabilities=_object(result.get("capabilities")),
        instructions=_text(result.get("instructions")),
    )


# --- initialize


async def initialize(
    session: BaseSession, attempt: Attempt, transport: Transport, *, is_era_certain: bool = True
) -> Opened:
    """Do the handshake; one more time with a version that the server named. Raises HubError."""
    session.rules = rules = LegacyRules()
    try:
        result = await _offer(session, attempt, LATEST_HANDSHAKE_VERSION)
    except (HttpStatusError, PeerError) as exc:
        version = _named_version(exc)
        if version is None:
            raise
        attempt.listener.on_step("version_retry", {"version": version})
        session.rules = rules = LegacyRules()
        result = await _offer(session, attempt, version)
    agreed = result.get("protocolVersion")
    if agreed not in HANDSHAKE_PROTOCOL_VERSIONS:
        raise errors.incompatible_version()
    rules.version = str(agreed)
    await _confirm(session, attempt)
    attempt.listener.on_step("initialized", {"version": rules.version})
    return Opened(
        era=Era.LEGACY,
        transport=transport,
        protocol_version=rules.version,
        server_info=_object(result.get("serverInfo")),
        capabilities=_object(result.get("capabilities")),
        instructions=_text(result.get("instructions")),
        is_era_certain=is_era_certain,
    )


async def _offer(session: BaseSession, attempt: Attempt, version: str) -> JSONObject:
    params: JSONObject = {
        "protocolVersion": version,
        "capabilities": attempt.listener.client_capabilities,
        "clientInfo": CLIENT_INFO,
    }
    return await _ask(session, "initialize", params, attempt.deadline)


def _named_version(error: HttpStatusError | PeerError) -> str | None:
    """Return the newest older version that a refusal of ours names, in its data or its text."""
    if isinstance(error, PeerError):
        if error.is_modern:
            return None
        text = f"{error.rpc.data!r} {error.rpc.message}"[:4096]
        named = set(_VERSION.findall(text))
    else:
        named = set(error.named_versions) if error.http_status == 400 else set()
    known = [v for v in HANDSHAKE_PROTOCOL_VERSIONS if v in named]
    known = [v for v in known if v != LATEST_HANDSHAKE_VERSION]
    return known[-1] if known else None


async def _confirm(session: BaseSession, attempt: Attempt) -> None:
    """Send `notifications/initialized`; servers answer it in many ways, few of which matter."""
    try:
        await session.notify("notifications/initialized", {})
    except HttpStatusError as exc:
        attempt.listener.on_step("initialized_refused", {"status": exc.http_status})


async def _ask(
    session: BaseSession, method: str, params: JSONObject, deadline: Deadline
) -> JSONObject:
    return await session.request(UpstreamRequest(method=method, params=params, deadline=deadline))


def _object(value: JSONValue) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _text(value: JSONValue) -> str:
    return value if isinstance(value, str) else ""
