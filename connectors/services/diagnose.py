"""An ordered checklist of one server: name, address, TCP, TLS, HTTP, era, authorization.

Runs where it is called, through the guarded egress: an address that the policy refuses is never
connected to. A server that takes tokens gets the grant's, refreshed when that is due. Each step is
`ok`, `failed` or `skipped`; after a failure the rest is skipped. No text of the server gets into a
step. Opening here does not touch the session that a worker may hold.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from connectors.server_spec import ServerSpec, Transport
from connectors.services.faults import HINTS
from connectors.upstream.authorized import AuthorizedClient
from connectors.upstream.session import (
    Opened,
    SeenMessage,
    Session,
    UpstreamRequest,
    open_session,
)
from mcphub.core.clock import Deadline
from mcphub.core.egress import EgressClient, EgressPolicy, policy_from_settings, sockets
from mcphub.core.egress.addresses import Address, parse
from mcphub.core.egress.connections import Resolve, resolve_by_system, tls_context
from mcphub.core.egress.targets import Target, read_url
from mcphub.core.errors import (
    AuthorizationNeededError,
    BlockedUrlError,
    HubError,
    ProtocolError,
    UpstreamError,
)
from mcphub.core.offload import DatabaseThreads
from mcphub.core.types import JSONObject
from oauth import bearer
from oauth.means import Means

NAMES = ("dns", "address", "tcp", "tls", "http", "era", "auth")
STEP_SECONDS = 5.0
Word = Literal["ok", "failed", "skipped"]

UNREACHED = frozenset({"upstream_unreachable", "timeout", "redirect_refused", "encoding_refused"})
"""Codes of an opening that never got a usable HTTP answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the checklist."""

    name: str
    outcome: Word
    code: str | None = None
    hint: str | None = None
    duration_ms: float | None = None
    detail: JSONObject = field(default_factory=dict)

    @property
    def as_json(self) -> JSONObject:
        return {
            "name": self.name,
            "outcome": self.outcome,
            "code": self.code,
            "hint": self.hint,
            "durationMs": self.duration_ms,
            "detail": self.detail,
        }


class StepError(Exception):
    """Ends the checklist with a failed step."""

    def __init__(self, code: str, hint: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.hint = hint or HINTS.get(code)


class Silent:
    """A listener that hears and offers nothing."""

    client_capabilities: JSONObject = {}

    def on_message(self, seen: SeenMessage) -> None:
        """Keep nothing: the checklist tells enough."""

    def on_notification(
        self, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> None:
        """Keep nothing."""

    def on_step(self, kind: str, detail: JSONObject) -> None:
        """Keep nothing: these steps are for a connection's timeline."""

    def on_lost(self, error: HubError) -> None:
        """Do nothing: it is closed at once anyway."""

    async def on_request(
        self, method: str, params: JSONObject, asker: UpstreamRequest | None
    ) -> JSONObject:
        raise ProtocolError(rpc_code=-32601, rpc_message="Method not found")


@dataclass(slots=True)
class Checklist:
    """The steps taken so far."""

    steps: list[Step] = field(default_factory=list)

    async def take(self, name: str, work: Callable[[], Awaitable[JSONObject | None]]) -> bool:
        """Take one step; None from `work` skips it. False: it failed."""
        started = time.monotonic()
        code, hint, detail = None, None, None
        try:
            detail = await work()
            word: Word = "skipped" if detail is None else "ok"
        except StepError as exc:
            word, code, hint = "failed", exc.code, exc.hint
        self.steps.append(
            Step(
                name=name,
                outcome=word,
                code=code,
                hint=hint,
                duration_ms=round((time.monotonic() - started) * 1000, 1),
                detail=detail or {},
            )
        )
        return word != "failed"

    def rest_skipped(self) -> list[Step]:
        done = {step.name for step in self.steps}
        rest = [Step(name=name, outcome="skipped") for name in NAMES if name not in done]
        return [*self.steps, *rest]


async def diagnose(
    spec: ServerSpec, *, policy: EgressPolicy | None = None, resolve: Resolve | None = None
) -> list[Step]:
    """Return every step in order; never raises for what the server does."""
    if spec.transport is Transport.STDIO:
        hint = "A program of the operator: a worker starts it, connect to see whether it runs."
        return [Step(name=name, outcome="skipped", hint=hint) for name in NAMES]
    probe = Probe(spec, policy or policy_from_settings(), resolve or resolve_by_system)
    checklist = Checklist()
    for name, work in (
        ("dns", probe.dns),
        ("address", probe.address),
        ("tcp", probe.tcp),
        ("tls", probe.tls),
        ("http", probe.http),
        ("era", probe.era),
        ("auth", probe.auth),
    ):
        if not await checklist.take(name, work):
            break
    return checklist.rest_skipped()


class Probe:
    """The work of the steps, each building on the one before."""

    def __init__(self, spec: ServerSpec, policy: EgressPolicy, resolve: Resolve) -> None:
        self._spec = spec
        self._policy = policy
        self._resolve = resolve
        self._target: Target | None = None
        self._addresses: list[Address] = []
        self._opened: Opened | None = None
        self._refusal: HubError | None = None
        self._without_token: HubError | None = None
        """Why a server that takes tokens was asked without one."""

    async def dns(self) -> JSONObject | None:
        target = self._checked_target()
        if target.literal is not None:
            self._addresses = [target.literal]
            return None
        try:
            async with asyncio.timeout(STEP_SECONDS):
                answers = await self._resolve(target.host, target.port)
        except OSError as exc:  # TimeoutError as well
            raise StepError("upstream_unreachable", "The host name does not resolve.") from exc
        self._addresses = [found for answer in answers if (found := parse(answer)) is not None]
        if not self._addresses:
            raise StepError("upstream_unreachable", "The host name does not resolve.")
        return {"addressCount": len(self._addresses)}

    async def address(self) -> JSONObject | None:
        """Refuse before anything is connected; which address it was is not told (S06)."""
        target = self._checked_target()
        for found in self._addresses:
            if not self._policy.may_connect(
                target.host, found, target.port, is_plain=target.is_plain
            ):
                raise StepError("blocked_url")
        return {}

    async def tcp(self) -> JSONObject | None:
        await self._connect(tls=None, hint="Nothing accepts connections there.")
        return {"port": self._checked_target().port}

    async def tls(self) -> JSONObject | None:
        if self._checked_target().is_plain:
            return None
        await self._connect(
            tls=tls_context(),
            hint="The certificate or the TLS handshake was not accepted.",
        )
        return {}

    async def http(self) -> JSONObject | None:
        """Open a session and close it again; what the answer means is for the next steps."""
        client = EgressClient(self._policy, resolve=self._resolve)
        threads = DatabaseThreads(name="diagnose", threads=1)
        session: Session | None = None
        try:
            http = await self._with_token(Means(client, threads))
            session = await open_session(self._spec, http=http, listener=Silent())
            self._opened = session.opened
        except HubError as exc:
            if exc.problem_code in UNREACHED:
                raise StepError(exc.problem_code) from exc
            self._refusal = exc
        finally:
            if session is not None:
                await session.close()
            await client.aclose()
            threads.close()
        return _status_of(self._refusal)

    async def era(self) -> JSONObject | None:
        if isinstance(self._refusal, AuthorizationNeededError):
            return None
        if self._refusal is not None:
            raise StepError(self._refusal.problem_code)
        opened = self._opened
        if opened is None:
            return None
        return {
            "era": opened.era.value,
            "transport": opened.transport.value,
            "protocolVersion": opened.protocol_version,
        }

    async def auth(self) -> JSONObject | None:
        if isinstance(self._refusal, AuthorizationNeededError):
            raise StepError((self._without_token or self._refusal).problem_code)
        has_token = self._spec.oauth is not None and self._without_token is None
        return {"hasCredentials": has_token or bool(self._spec.headers)}

    async def _with_token(self, means: Means) -> EgressClient:
        """Return a client that sends the grant's token; a plain one where there is none to send."""
        if self._spec.oauth is None:
            return means.http
        token = partial(
            bearer.access_token, means, self._spec.connection_id, server_url=self._spec.url
        )
        try:
            await token()
        except HubError as exc:
            self._without_token = exc
            return means.http
        return AuthorizedClient(means.http, token)

    def _checked_target(self) -> Target:
        if self._target is None:
            try:
                target = read_url(self._spec.url)
                self._policy.check_target(target)
            except BlockedUrlError as exc:
                raise StepError("blocked_url") from exc
            self._target = target
        return self._target

    async def _connect(self, *, tls: ssl.SSLContext | None, hint: str) -> None:
        """Connect to the first checked address that answers."""
        target = self._checked_target()
        deadline = Deadline.after(STEP_SECONDS)
        failure: OSError = socket.gaierror()
        for found in self._addresses:
            try:
                async with asyncio.timeout(deadline.remaining):
                    stream = await sockets.connect(found, target.port, host=target.host, tls=tls)
                stream.abort()
            except OSError as exc:
                failure = exc
            else:
                return
        raise StepError("upstream_unreachable", hint) from failure


def _status_of(refusal: HubError | None) -> JSONObject:
    if refusal is None:
        return {"status": 200}
    if isinstance(refusal, AuthorizationNeededError) and refusal.http_status:
        return {"status": refusal.http_status}
    status = getattr(refusal, "http_status", 0) if isinstance(refusal, UpstreamError) else 0
    return {"status": status} if status else {}
