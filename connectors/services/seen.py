"""From the messages of sessions to trace records: whose they are and what they belong to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from connectors import selectors
from connectors.definitions import canonical
from connectors.upstream.host import SessionKey
from connectors.upstream.session import SeenMessage
from mcphub.core.types import JSONObject, JSONValue
from tracing import recorder
from tracing.models import Direction
from tracing.redaction import secret_names
from tracing.rows import TracedSession, TraceRecord

LARGEST = 10_000
"""Requests of one session whose answers are still expected, at most."""

NOTHING: frozenset[str] = frozenset()
ToolSecrets = Mapping[str, frozenset[str]]


def tool_secrets(tools: Iterable[JSONObject]) -> ToolSecrets:
    """Return which arguments of which tools are secret; slow for large lists, not for a loop."""
    found = {}
    for tool in tools:
        text = canonical(tool.get("inputSchema"))
        if "password" in text or "writeOnly" in text:
            found[str(tool.get("name"))] = secret_names(tool.get("inputSchema"))
    return found


class Traces:
    """Records what sessions show; one for a session host, on its loop."""

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[SessionKey, _Trace] = WeakKeyDictionary()
        self._secrets: WeakKeyDictionary[SessionKey, ToolSecrets] = WeakKeyDictionary()

    def record(self, key: SessionKey, seen: SeenMessage) -> None:
        """Record one message; never blocks."""
        trace = self._sessions.get(key)
        if trace is None:
            trace = self._sessions[key] = _Trace(key)
        trace.record(seen, self._secrets.get(key, {}))

    def learn(self, key: SessionKey, secrets: ToolSecrets) -> None:
        """Hide these arguments of the session's tools from now on."""
        self._secrets[key] = secrets

    def hide(self, key: SessionKey) -> None:
        """Hide the secrets that the session has by now."""
        trace = self._sessions.get(key)
        if trace is None:
            trace = self._sessions[key] = _Trace(key)
        trace.hide(key)


class _Trace:
    """One session: answers carry no method, so the requests are remembered until then."""

    def __init__(self, key: SessionKey) -> None:
        self._session = TracedSession(
            tenant_id=key.spec.tenant_id,
            member_id=key.spec.member_id,
            connection_id=key.spec.connection_id,
            server=key.spec.slug,
            secrets=selectors.secret_texts(key.spec),
        )
        self._asked: OrderedDict[tuple[str, JSONValue], tuple[str, frozenset[str]]] = OrderedDict()

    def hide(self, key: SessionKey) -> None:
        self._session.know(selectors.secret_texts(key.spec))

    def record(self, seen: SeenMessage, secrets: ToolSecrets) -> None:
        method, names = self._explain(seen, secrets)
        recorder.record(
            TraceRecord(
                session=self._session,
                direction=Direction(seen.direction),
                message=seen.message,
                size=seen.size,
                at=seen.at,
                raw=seen.raw or b"",
                method=method,
                call_id=seen.call_id,
                attempt=seen.attempt or 1,
                synthetic=seen.synthetic,
                duration_ms=seen.duration_ms,
                http=seen.http.wire if seen.http else None,
                secret_names=names,
            )
        )

    def _explain(self, seen: SeenMessage, secrets: ToolSecrets) -> tuple[str, frozenset[str]]:
        """Return the method that a message belongs to and the names of its secret arguments."""
        message = seen.message
        if message is None:
            return "", NOTHING
        rpc_id = message.get("id")
        if isinstance(rpc_id, dict | list):
            return "", NOTHING
        method = message.get("method")
        if not isinstance(method, str):
            other = "received" if seen.direction == "sent" else "sent"
            return self._asked.pop((other, rpc_id), ("", NOTHING))
        names = NOTHING
        if method == "tools/call" and secrets:
            params = message.get("params")
            target = params.get("name") if isinstance(params, dict) else None
            names = secrets.get(target, NOTHING) if isinstance(target, str) else NOTHING
        if "id" in message:
            self._asked[seen.direction, rpc_id] = (method, names)
            if len(self._asked) > LARGEST:
                self._asked.popitem(last=False)
        return method, names
