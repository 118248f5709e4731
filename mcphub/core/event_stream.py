"""What a principal's event stream is: its keys, its numbering, and how one event is routed.

One capped Redis stream per principal is the only place that orders events. Its entries are numbered
without holes by a script, so that a reader sees every loss as a hole, whatever lost it: a full
queue, Redis away, a trimmed or a flushed stream. A message without content on the group's doorbell
channel says that there is something to read; who listens for traces is the number of subscribers
of a second channel, so that it is exact and needs no clean-up.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Protocol

from mcphub.core import redis
from mcphub.core.types import JSONObject, JSONValue

STREAM_LENGTH = 2000
IDLE_SECONDS = 86_400

# A counter that is missing starts at the Redis server's Unix milliseconds: it never goes back.
START = """
local counter = redis.call('GET', KEYS[2])
if not counter then
  local time = redis.call('TIME')
  counter = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[2], counter, 'EX', ARGV[1])
end
"""

# KEYS: stream, counter. ARGV: ttl. Answer: the number of the newest event.
CURRENT = START + "return counter"

# KEYS: stream, counter. ARGV: ttl, length, doorbell, trace channel, "1" when events were lost
# before these, then (only if traced, route, text) per event. A lost event takes a number.
APPEND = (
    START
    + """
if ARGV[5] == '1' then redis.call('INCR', KEYS[2]) end
local traced
local kept = 0
for at = 6, #ARGV, 3 do
  local is_wanted = true
  if ARGV[at] == '1' then
    if traced == nil then traced = redis.call('PUBSUB', 'NUMSUB', ARGV[4])[2] end
    is_wanted = traced > 0
  end
  if is_wanted then
    local seq = redis.call('INCR', KEYS[2])
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], string.format('%.0f-0', seq),
               'r', ARGV[at + 1], 'e', ARGV[at + 2])
    kept = kept + 1
  end
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[1])
if kept > 0 or ARGV[5] == '1' then redis.call('PUBLISH', ARGV[3], '') end
return kept
"""
)


class _Member(Protocol):
    @property
    def tenant_id(self) -> uuid.UUID: ...
    @property
    def member_id(self) -> uuid.UUID: ...


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Whose events they are: one stream, one order, one `seq` per member of a tenant."""

    tenant_id: uuid.UUID
    member_id: uuid.UUID

    @classmethod
    def of(cls, member: _Member) -> EventGroup:
        """Return the group of anything that has a tenant and a member (a Principal, a row)."""
        return cls(member.tenant_id, member.member_id)

    @property
    def stream(self) -> str:
        return redis.key("events", self._name)

    @property
    def counter(self) -> str:
        return redis.key("events-seq", self._name)

    @property
    def doorbell(self) -> str:
        return redis.key("events-bell", self._name)

    @property
    def trace_channel(self) -> str:
        return redis.key("events-traced", self._name)

    @property
    def _name(self) -> str:
        return f"{self.tenant_id.hex}:{self.member_id.hex}"


@dataclass(frozen=True, slots=True)
class Route:
    """What subscriptions are matched against, so that no reader parses the event itself."""

    type: str
    server: str = ""
    call: str = ""

    @classmethod
    def of(cls, event: JSONObject) -> Route:
        """Find whom the event concerns.

        `server` and `call` are ids, or objects with an `id`, at the top or inside `call`, `trace`
        or `elicitation`; a bare `id` is the server's in `server.*` and `tool.*`, the call's in
        `call.*`.
        """
        kind = str(event.get("type", ""))
        server, call = _id_in(event, "server"), _id_in(event, "call")
        if not server and kind.startswith(("server.", "tool.")):
            server = _id_of(event.get("id"))
        if not call and kind.startswith("call."):
            call = _id_of(event.get("id"))
        return cls(kind, server, call)

    @classmethod
    def parse(cls, text: str) -> Route:
        return cls(*text.split("|", 2))

    def __str__(self) -> str:
        return f"{self.type}|{self.server}|{self.call}"


def _id_in(event: JSONObject, name: str) -> str:
    if found := _id_of(event.get(name)):
        return found
    for part in ("call", "trace", "elicitation"):
        value = event.get(part)
        if isinstance(value, dict) and (found := _id_of(value.get(name))):
            return found
    return ""


def _id_of(value: JSONValue) -> str:
    if isinstance(value, dict):
        value = value.get("id")
    return value.replace("|", "_") if isinstance(value, str) else ""
