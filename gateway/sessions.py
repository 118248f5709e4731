"""Sessions of the handshake era: records in Redis, found from any process; no secret in them.

A session belongs to one member and one endpoint. Somebody else's is as unknown as one that ended.
"""

from __future__ import annotations

import json
import secrets
import time
import uuid
from dataclasses import asdict, dataclass, field, replace

from connectors.queue import tick_pipeline
from gateway.endpoint import Endpoint
from mcphub.core import redis
from mcphub.core.errors import NotFoundError
from mcphub.core.types import JSONObject
from tenants.principal import Principal

IDLE_SECONDS = 30 * 60
MOST_PER_MEMBER = 1000
ID_LENGTH = 200


class UnknownSessionError(NotFoundError):
    code = "unknown_session"
    title = "There is no such session; open a new one with `initialize`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session; `address` is set where one process holds its stream (HTTP+SSE)."""

    id: str
    tenant_id: uuid.UUID
    member_id: uuid.UUID
    endpoint: Endpoint
    version: str
    capabilities: JSONObject = field(default_factory=dict)
    client_info: JSONObject = field(default_factory=dict)
    log_level: str = ""
    address: str = ""

    @property
    def is_open(self) -> bool:
        """Whether `initialize` has happened; an HTTP+SSE stream has an id before."""
        return bool(self.version)

    def encode(self) -> str:
        fields = asdict(self) | {"tenant_id": self.tenant_id.hex, "member_id": self.member_id.hex}
        for name in ("servers", "tools"):
            names = fields["endpoint"][name]
            fields["endpoint"][name] = None if names is None else sorted(names)
        return json.dumps(fields)

    @classmethod
    def decode(cls, text: bytes) -> Session:
        fields = json.loads(text)
        endpoint = fields.pop("endpoint")
        for name in ("servers", "tools"):
            names = endpoint[name]
            endpoint[name] = None if names is None else frozenset(names)
        return cls(
            endpoint=Endpoint(**endpoint),
            tenant_id=uuid.UUID(hex=fields.pop("tenant_id")),
            member_id=uuid.UUID(hex=fields.pop("member_id")),
            **fields,
        )


def new(principal: Principal, endpoint: Endpoint, *, address: str = "") -> Session:
    """Return a session that is neither stored nor open yet."""
    return Session(
        id=secrets.token_urlsafe(32),
        tenant_id=principal.tenant_id,
        member_id=principal.member_id,
        endpoint=endpoint,
        version="",
        address=address,
    )


async def store(session: Session) -> None:
    """Write the record; past the most that a member may have, the one idle longest ends.

    Raises UnavailableError.
    """
    index, moment = _index(session.tenant_id, session.member_id), time.time()
    pipeline = tick_pipeline()
    pipeline.send("ZREMRANGEBYSCORE", index, "-inf", moment - IDLE_SECONDS)
    pipeline.send("ZADD", index, moment, session.id)
    pipeline.send("EXPIRE", index, IDLE_SECONDS)
    await pipeline.call("SET", _key(session.id), session.encode(), "EX", IDLE_SECONDS)
    surplus = int(await pipeline.call("ZCARD", index)) - MOST_PER_MEMBER
    if surplus > 0:
        for ended, _ in _pairs(await pipeline.call("ZPOPMIN", index, surplus)):
            pipeline.send("DEL", _key(ended.decode()))


async def find(principal: Principal, endpoint: Endpoint, session_id: str) -> Session:
    """Return a session and keep it alive. Raises UnknownSessionError, UnavailableError."""
    if not session_id or len(session_id) > ID_LENGTH or not session_id.isascii():
        raise UnknownSessionError
    pipeline = tick_pipeline()
    found = await pipeline.call("GETEX", _key(session_id), "EX", IDLE_SECONDS)
    if found is None:
        raise UnknownSessionError
    session = Session.decode(found)
    owner = (session.tenant_id, session.member_id, session.endpoint.server)
    if owner != (principal.tenant_id, principal.member_id, endpoint.server):
        raise UnknownSessionError
    index = _index(session.tenant_id, session.member_id)
    pipeline.send("ZADD", index, "XX", time.time(), session.id)
    pipeline.send("EXPIRE", index, IDLE_SECONDS)
    return session


async def claim_stream(session: Session) -> str:
    """Make a new stream the one of its session, whichever process has it. Raises UnavailableError.

    A message is sent on one stream of a session only (basic/transports, "Multiple Connections").
    """
    claim = secrets.token_hex(8)
    await tick_pipeline().call("SET", _stream_key(session.id), claim, "EX", IDLE_SECONDS)
    return claim


async def keeps_stream(session: Session, claim: str) -> bool:
    """Keep a session alive whose stream is open; False: a newer stream has taken its place.

    Raises UnavailableError.
    """
    pipeline, index = tick_pipeline(), _index(session.tenant_id, session.member_id)
    pipeline.send("EXPIRE", _key(session.id), IDLE_SECONDS)
    pipeline.send("ZADD", index, "XX", time.time(), session.id)
    pipeline.send("EXPIRE", index, IDLE_SECONDS)
    newest = await pipeline.call("GETEX", _stream_key(session.id), "EX", IDLE_SECONDS)
    return newest is None or newest.decode() == claim


async def change(session: Session, **fields: object) -> Session:
    """Store a session with other values, such as its `log_level`. Raises UnavailableError."""
    changed = replace(session, **fields)  # type: ignore[arg-type]  # of the dataclass itself
    await tick_pipeline().call("SET", _key(session.id), changed.encode(), "EX", IDLE_SECONDS, "XX")
    return changed


async def end(session: Session) -> None:
    """Remove the record. Raises UnavailableError."""
    tick_pipeline().send("ZREM", _index(session.tenant_id, session.member_id), session.id)
    await tick_pipeline().call("DEL", _key(session.id))


def _key(session_id: str) -> str:
    return redis.key("gateway", "session", session_id)


def _stream_key(session_id: str) -> str:
    return redis.key("gateway", "stream", session_id)


def _index(tenant_id: uuid.UUID, member_id: uuid.UUID) -> str:
    return redis.key("gateway", "sessions", tenant_id.hex, member_id.hex)


def _pairs(flat: list[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
