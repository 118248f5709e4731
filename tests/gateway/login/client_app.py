"""An MCP client of the suite, as a raw OAuth client, and the browser that its user has."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from html import unescape
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.test import Client

from mcphub.core.errors import NotAuthenticatedError
from tenants import credentials
from tenants.credentials import Shown
from tenants.principal import Principal
from tests.world import Person

AUTHORIZE = "/oauth/authorize"
TOKEN = "/oauth/token"
REGISTER = "/oauth/register"
REVOKE = "/oauth/revoke"
CALLBACK = "http://127.0.0.1:7777/callback"
FIELD = re.compile(r'name="(\w+)" value="([^"]*)"')

Answer: TypeAlias = Any
"""Django's test response; its own type is private."""


@dataclass(kw_only=True)
class Browser:
    """The browser of a person who is logged in, with CSRF checks as in production."""

    person: Person | None = None
    http: Client = field(default_factory=lambda: Client(enforce_csrf_checks=True))

    def __post_init__(self) -> None:
        if self.person is not None:
            self.http.force_login(self.person.user)

    def form(self, page: Answer) -> dict[str, str]:
        """Return what the form of a consent page would send, without an answer."""
        assert page.status_code == 200, page.content
        return {name: unescape(value) for name, value in FIELD.findall(page.content.decode())}

    def answer(self, page: Answer, decision: str = "allow", **changes: str) -> Answer:
        sent = {**self.form(page), "decision": decision, **changes}
        return self.http.post(AUTHORIZE, sent)


@dataclass(kw_only=True)
class ClientApp:
    """One registered client; each `ask` begins a new flow with its own PKCE pair."""

    http: Client = field(default_factory=lambda: Client(enforce_csrf_checks=True))
    redirect_uri: str = CALLBACK
    name: str = "Probe"
    client_id: str = ""
    verifier: str = ""
    state: str = ""

    def register(self, **metadata: Any) -> Answer:
        told = {"client_name": self.name, "redirect_uris": [self.redirect_uri], **metadata}
        answer = self.http.post(REGISTER, told, content_type="application/json")
        if answer.status_code == 201:
            self.client_id = answer.json()["client_id"]
        return answer

    def request(self, **changes: Any) -> dict[str, Any]:
        """Return the parameters of a new authorization request; None leaves one out."""
        self.verifier = secrets.token_urlsafe(48)
        self.state = secrets.token_urlsafe(16)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": f"{settings.BASE_URL}/mcp",
            **changes,
        }
        return {name: value for name, value in parameters.items() if value is not None}

    def ask(self, browser: Browser, **changes: Any) -> Answer:
        return browser.http.get(AUTHORIZE, self.request(**changes))

    def code_of(self, browser: Browser, **changes: Any) -> str:
        """Have the person allow a new request; returns the code."""
        back = parameters_of(browser.answer(self.ask(browser, **changes)))
        assert back["state"] == self.state
        return back["code"]

    def redeem(self, code: str, **changes: Any) -> Answer:
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            **changes,
        }
        return self.http.post(TOKEN, {k: v for k, v in sent.items() if v is not None})

    def refresh(self, refresh_token: str, **changes: Any) -> Answer:
        sent = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        return self.http.post(TOKEN, {**sent, "client_id": self.client_id, **changes})

    def revoke(self, token: str, **changes: Any) -> Answer:
        return self.http.post(REVOKE, {"token": token, "client_id": self.client_id, **changes})

    def sign_in(self, browser: Browser, **changes: Any) -> dict[str, Any]:
        """Go through the whole flow; returns the answer of the token endpoint."""
        answer = self.redeem(self.code_of(browser, **changes))
        assert answer.status_code == 200, answer.content
        tokens: dict[str, Any] = answer.json()
        return tokens


def registered(**values: Any) -> ClientApp:
    app = ClientApp(**values)
    answer = app.register()
    assert answer.status_code == 201, answer.content
    return app


def parameters_of(answer: Answer) -> dict[str, str]:
    """Return what a redirect tells the client."""
    assert answer.status_code == 303, answer.content
    query = parse_qs(urlsplit(answer["Location"]).query, strict_parsing=True)
    assert all(len(values) == 1 for values in query.values())
    return {name: values[0] for name, values in query.items()}


def principal_of(token: str, path: str = "/mcp") -> Principal:
    """Return who the token stands for at an endpoint. Raises NotAuthenticatedError."""
    resource = settings.BASE_URL + path if path else ""
    return credentials.resolve(Shown(authorization=f"Bearer {token}", resource=resource))


def works(token: str, path: str = "/mcp") -> bool:
    try:
        principal_of(token, path)
    except NotAuthenticatedError:
        return False
    return True
