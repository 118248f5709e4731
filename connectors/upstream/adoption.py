"""Going on with a session of the handshake era that an earlier holder left open.

Only Streamable HTTP has sessions that outlive a connection. The server is asked once whether it
still knows the session; only a session that it has forgotten leads to a new handshake.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from connectors.server_spec import Era, ServerSpec, StoredSession, Transport
from connectors.upstream import errors
from connectors.upstream.contract import Opened, UpstreamRequest
from connectors.upstream.eras import HANDSHAKE_PROTOCOL_VERSIONS, LegacyRules
from connectors.upstream.errors import PeerError
from connectors.upstream.streamable_http import HttpSession
from mcphub.core.errors import UpstreamError

if TYPE_CHECKING:
    from connectors.upstream.connect import Attempt

IDS_OF_HOLDER = 1 << 32
"""Request ids are not used twice in a session: each holder counts from a start of its own."""
MOST_HOLDERS = 1 << 20


def stored_of(session: HttpSession, spec: ServerSpec, *, holders: int = 1) -> StoredSession | None:
    """Return what a later holder needs to go on with an open session, None when it cannot."""
    if not session.session_id or holders > MOST_HOLDERS:
        return None
    opened = session.opened
    return StoredSession(
        session_id=session.session_id,
        protocol_version=opened.protocol_version,
        server_info=opened.server_info,
        capabilities=opened.capabilities,
        instructions=opened.instructions,
        fingerprint=fingerprint(spec),
        holders=holders,
    )


def fingerprint(spec: ServerSpec) -> str:
    """Return a digest of what a session is opened with; kept sealed, since it covers secrets."""
    headers = {name.lower(): secret.value for name, secret in spec.headers.items()}
    told = [spec.url, headers, spec.client_capabilities]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


async def adopt(attempt: Attempt) -> HttpSession | None:
    """Return the stored session, open; None when there is none, or the server has forgotten it.

    Raises HubError where the answer says nothing about the session.
    """
    stored = attempt.spec.stored_session
    if stored is None or not _fits(stored, attempt.spec):
        return None
    rules = LegacyRules(version=stored.protocol_version, session_id=stored.session_id)
    session = HttpSession(attempt.spec, attempt.http, attempt.listener, rules)
    session.calls.start_after(stored.holders * IDS_OF_HOLDER)
    try:
        await session.request(UpstreamRequest(method="ping", params={}, deadline=attempt.deadline))
    except PeerError:
        pass  # an answer in the session, whatever it says
    except UpstreamError as exc:
        session.end(errors.session_closed(), is_announced=False)
        if exc.problem_code != "session_lost":
            raise
        attempt.listener.on_step("session_forgotten", {})
        return None
    session.is_adopted = True
    session.opened = Opened(
        era=Era.LEGACY,
        transport=Transport.STREAMABLE_HTTP,
        protocol_version=stored.protocol_version,
        server_info=stored.server_info,
        capabilities=stored.capabilities,
        instructions=stored.instructions,
    )
    attempt.listener.on_step("session_adopted", {"version": stored.protocol_version})
    return session


def _fits(stored: StoredSession, spec: ServerSpec) -> bool:
    is_http = spec.transport in {Transport.AUTO, Transport.STREAMABLE_HTTP}
    is_known = stored.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
    return is_http and is_known and stored.fingerprint == fingerprint(spec)
