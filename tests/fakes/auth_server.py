"""A strict authorization server and the MCP endpoint that it protects, on a loopback port.

Refresh tokens rotate without leeway and a reused one ends its whole family. Every document can be
replaced, every request is counted and kept, and commits can be made slow, silent or refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

import httpx

Json = Any


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


@dataclass(frozen=True, slots=True)
class Answer:
    status: int = 200
    body: Json = None
    headers: dict[str, str] = field(default_factory=dict)
    is_dropped: bool = False
    """Close the connection instead of answering."""

    @property
    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass
class Rules:
    """What a test may change while the server runs."""

    issuer_path: str = "/as"
    names_issuer: bool = True
    issuer_in_answer: str | None = None
    has_pkce: bool = True
    takes_documents: bool = False
    expires_in: Json = 3600
    access_seconds: float = 3600.0
    gives_refresh: bool = True
    rotates: bool = True
    scopes_supported: list[str] | None = None
    challenge: str | None = ""
    """None: no WWW-Authenticate; "": the usual one."""
    step_up: dict[str, str] = field(default_factory=dict)
    """Tool → scope that it needs."""
    accepts_tokens: bool = True
    token_extra: dict[str, Json] = field(default_factory=dict)
    token_answers: list[Answer] = field(default_factory=list)
    """Given instead of processing, one per token request."""
    drops_answers: int = 0
    """So many token requests are processed and then not answered."""
    registration: dict[str, Json] | Answer = field(default_factory=dict)
    authorize_answer: Answer | None = None
    checks_resource: bool = True
    resource: str = ""


@dataclass
class Token:
    scope: str
    family: str
    client_id: str
    ends: float
    is_used: bool = False


class AuthServer:
    """`with AuthServer() as server:`; `server.mcp_url` is the protected endpoint."""

    def __init__(self, **rules: Any) -> None:
        self.rules = Rules(**rules)
        self.documents: dict[str, Answer] = {}
        self.hits: Counter[str] = Counter()
        self.seen: list[Seen] = []
        self.clients: dict[str, dict[str, Json]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.access: dict[str, Token] = {}
        self.refresh: dict[str, Token] = {}
        self.dead_families: set[str] = set()
        self.committed = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._lock = threading.RLock()
        self._http = _Server(("127.0.0.1", 0), _handler_of(self))
        self.base = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def issuer(self) -> str:
        return self.base + self.rules.issuer_path

    @property
    def mcp_url(self) -> str:
        return f"{self.base}/mcp"

    @property
    def resource(self) -> str:
        return self.rules.resource or self.mcp_url

    @property
    def challenge(self) -> str:
        if self.rules.challenge:
            return self.rules.challenge
        return f'Bearer resource_metadata="{self.base}{PRM}/mcp", scope="files:read"'

    def forms(self, grant_type: str = "") -> list[dict[str, str]]:
        """Return the token requests, of one grant type."""
        forms = [seen.form for seen in self.seen if seen.path.endswith("/token")]
        return [form for form in forms if grant_type in {"", form.get("grant_type")}]

    def sign_in(self, url: str) -> dict[str, str]:
        """Play the browser: open the address, return the parameters of the redirect."""
        answer = httpx.get(url, follow_redirects=False)
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))

    def call(self, token: str, tool: str = "read") -> httpx.Response:
        """Call a tool with a bearer token."""
        return httpx.post(
            self.mcp_url, json={"tool": tool}, headers={"Authorization": f"Bearer {token}"}
        )

    def end_access_tokens(self) -> None:
        with self._lock:
            for token in self.access.values():
                token.ends = 0.0

    def end_refresh_tokens(self) -> None:
        with self._lock:
            self.dead_families |= {token.family for token in self.refresh.values()}

    def current_refresh_tokens(self) -> list[str]:
        with self._lock:
            return [
                value
                for value, token in self.refresh.items()
                if not token.is_used and token.family not in self.dead_families
            ]

    def answer(self, seen: Seen) -> Answer:
        with self._lock:
            self.seen.append(seen)
            self.hits[f"{seen.method} {seen.path}"] += 1
        if seen.path in self.documents:
            return self.documents[seen.path]
        route = self._routes().get((seen.method, seen.path))
        return route(seen) if route else Answer(404)

    def _routes(self) -> dict[tuple[str, str], Callable[[Seen], Answer]]:
        path = self.rules.issuer_path
        return {
            ("GET", PRM): self._resource_document,
            ("GET", f"{PRM}/mcp"): self._resource_document,
            ("GET", f"/.well-known/oauth-authorization-server{path}"): self._server_document,
            ("POST", f"{path}/register"): self._register,
            ("GET", f"{path}/authorize"): self._authorize,
            ("POST", f"{path}/token"): self._token,
            ("POST", f"{path}/revoke"): self._revoke,
            ("GET", f"{path}/userinfo"): self._userinfo,
            ("POST", "/mcp"): self._mcp,
        }

    def _resource_document(self, _: Seen) -> Answer:
        return Answer(body={"resource": self.resource, "authorization_servers": [self.issuer]})

    def server_metadata(self) -> dict[str, Json]:
        rules = self.rules
        document: dict[str, Json] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "authorization_response_iss_parameter_supported": rules.names_issuer,
            "client_id_metadata_document_supported": rules.takes_documents,
        }
        if rules.has_pkce:
            document["code_challenge_methods_supported"] = ["S256"]
        if rules.scopes_supported is not None:
            document["scopes_supported"] = rules.scopes_supported
        return document

    def _server_document(self, _: Seen) -> Answer:
        return Answer(body=self.server_metadata())

    def _register(self, seen: Seen) -> Answer:
        given = self.rules.registration
        if isinstance(given, Answer):
            return given
        client_id = f"client-{secrets.token_hex(4)}"
        record = {**json.loads(seen.body), "client_id": client_id, **given}
        self.clients[str(record["client_id"])] = record
        return Answer(201, record)

    def _authorize(self, seen: Seen) -> Answer:
        if self.rules.authorize_answer is not None:
            return self.rules.authorize_answer
        code = f"code-{secrets.token_hex(8)}"
        self.codes[code] = seen.query
        fields = {"code": code, "state": seen.query["state"]}
        if self.rules.issuer_in_answer is not None:
            fields["iss"] = self.rules.issuer_in_answer
        elif self.rules.names_issuer:
            fields["iss"] = self.issuer
        return Answer(
            302, headers={"Location": f"{seen.query['redirect_uri']}?{urlencode(fields)}"}
        )

    def _token(self, seen: Seen) -> Answer:
        form = seen.form
        with self._lock:
            self.hits[str(form.get("grant_type"))] += 1
            if self.rules.token_answers:
                return self.rules.token_answers.pop(0)
            grant = {
                "authorization_code": self._redeem_code,
                "refresh_token": self._redeem_refresh,
                "client_credentials": self._redeem_client,
            }[form["grant_type"]]
            answer = self._check_client(seen) or grant(form)
            is_dropped = self.rules.drops_answers > 0
            self.rules.drops_answers -= is_dropped
        if form["grant_type"] == "refresh_token":
            self.committed.set()
            self.may_answer.wait(30)
        return Answer(is_dropped=True) if is_dropped else answer

    def _check_client(self, seen: Seen) -> Answer | None:
        """Check the client as it was registered; a client nobody knows is refused."""
        form, client_id, secret = seen.form, seen.form.get("client_id", ""), None
        basic = seen.headers.get("authorization", "")
        if basic.startswith("Basic "):
            pair = base64.b64decode(basic[6:]).decode().partition(":")
            client_id, secret, method = unquote(pair[0]), unquote(pair[2]), "client_secret_basic"
        else:
            secret = form.get("client_secret")
            method = "client_secret_post" if secret else "none"
            method = "private_key_jwt" if "client_assertion" in form else method
        known = self.clients.get(client_id)
        if client_id.startswith("https://") and self.rules.takes_documents:
            return None
        if known is None or known.get("client_secret") not in {None, secret}:
            return Answer(401, {"error": "invalid_client"})
        is_right = known.get("token_endpoint_auth_method", method) == method
        return None if is_right else Answer(401, {"error": "invalid_client"})

    def _redeem_code(self, form: dict[str, str]) -> Answer:
        asked = self.codes.pop(form["code"], None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or proof != asked["code_challenge"]:
            return Answer(400, {"error": "invalid_grant"})
        if self._is_wrong_resource(form) or self._is_wrong_resource(asked):
            return Answer(400, {"error": "invalid_target"})
        return self._issue(asked.get("scope", ""), secrets.token_hex(4), asked["client_id"])

    def _redeem_refresh(self, form: dict[str, str]) -> Answer:
        token = self.refresh.get(form["refresh_token"])
        if token is None or token.family in self.dead_families:
            return Answer(400, {"error": "invalid_grant"})
        if self._is_wrong_resource(form):
            return Answer(400, {"error": "invalid_target"})
        if not self.rules.rotates:
            return self._issue(token.scope, token.family, token.client_id)
        if token.is_used:
            self.hits["reuse"] += 1
            self.dead_families.add(token.family)
            return Answer(400, {"error": "invalid_grant", "error_description": "reuse"})
        token.is_used = True
        return self._issue(token.scope, token.family, token.client_id)

    def _redeem_client(self, form: dict[str, str]) -> Answer:
        return self._issue(form.get("scope", ""), secrets.token_hex(4), "machine", refresh=False)

    def _is_wrong_resource(self, form: dict[str, str]) -> bool:
        return self.rules.checks_resource and form.get("resource") != self.resource

    def _issue(self, scope: str, family: str, client_id: str, *, refresh: bool = True) -> Answer:
        ends = time.time() + self.rules.access_seconds
        access, again = f"at-{secrets.token_hex(12)}", f"rt-{secrets.token_hex(12)}"
        self.access[access] = Token(scope, family, client_id, ends)
        body: dict[str, Json] = {"access_token": access, "token_type": "Bearer"}
        if self.rules.expires_in is not None:
            body["expires_in"] = self.rules.expires_in
        if scope:
            body["scope"] = scope
        if refresh and self.rules.gives_refresh:
            self.refresh[again] = Token(scope, family, client_id, ends)
            body["refresh_token"] = again
        return Answer(body={**body, **self.rules.token_extra})

    def _revoke(self, seen: Seen) -> Answer:
        with self._lock:
            token = self.refresh.get(seen.form["token"]) or self.access.get(seen.form["token"])
            if token is not None:
                self.dead_families.add(token.family)
        return Answer()

    def _userinfo(self, seen: Seen) -> Answer:
        token = seen.headers.get("authorization", "").removeprefix("Bearer ")
        return Answer(body={"email": "alice@example.org"}) if token in self.access else Answer(401)

    def scope_of(self, token: str) -> str | None:
        """Return what an access token is good for now; None: for nothing."""
        found = self.access.get(token)
        if found is None or found.ends <= time.time() or found.family in self.dead_families:
            return None
        return found.scope if self.rules.accepts_tokens else None

    def _mcp(self, seen: Seen) -> Answer:
        scope = self.scope_of(seen.headers.get("authorization", "").removeprefix("Bearer "))
        tool = json.loads(seen.body or b"{}").get("tool", "")
        if scope is None:
            headers = {} if self.rules.challenge is None else {"WWW-Authenticate": self.challenge}
            return Answer(401, headers=headers)
        needed = self.rules.step_up.get(tool, "")
        if needed and needed not in scope.split():
            text = f'Bearer error="insufficient_scope", scope="{needed}"'
            return Answer(403, headers={"WWW-Authenticate": text})
        return Answer(body={"ok": True})


PRM = "/.well-known/oauth-protected-resource"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients are killed on purpose."""


def _handler_of(server: AuthServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            body = self.rfile.read(size)
            answer = server.answer(Seen(self.command, parts.path, query, headers, body))
            if answer.is_dropped:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = _serve  # noqa: N815  (their names)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (its name)
            """Say nothing."""

    return Handler
