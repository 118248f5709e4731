"""The command under test of `conformance client`: drives a running hub over REST, as an app does.

The suite runs `client.py <server-url>` with MCP_CONFORMANCE_SCENARIO and, for some scenarios,
MCP_CONFORMANCE_CONTEXT (JSON). MCPHUB_URL and MCPHUB_TOKEN name the hub. Only `Hub` knows paths.
Exit code 0: the scenario was carried through; 1: the hub reported a failure.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Mapping
from threading import Event
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: Mapping[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
MOST_ROUNDS = 8
"""The command never refuses to sign in once more: it is the hub that has to stop."""
MOST_HOPS = 12
PAUSE = Event()
MACHINES = frozenset({"auth/client-credentials-jwt", "auth/client-credentials-basic"})
MOVING = frozenset({"connecting", "authPending"})


class FailedError(Exception):
    """The hub reported a failure."""


class Hub:
    """Everything that depends on the hub's REST API."""

    def __init__(self) -> None:
        self.http = httpx.Client(
            base_url=os.environ["MCPHUB_URL"],
            headers={"Authorization": f"Bearer {os.environ['MCPHUB_TOKEN']}"},
            timeout=70.0,
            trust_env=False,
        )
        self.id = f"c{uuid.uuid4().hex[:12]}"
        self.rounds = 0

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = self.http.request(method, f"/api/v1{path}", json=body)
        sys.stderr.write(f"{method} {path} {answer.status_code} {answer.text[:300]}\n")
        return answer

    def add(self, url: str) -> None:
        """Add the server; what a member may not choose comes as a preset of the tenant."""
        auth, secrets = auth_of(CONTEXT)
        body = {"id": self.id, "name": "Conformance", "url": url, "auth": auth}
        if len(auth) > 1:
            answer = self.send("POST", "/connectors", {**body, "secrets": secrets})
        else:
            answer = self.send("POST", "/servers", body)
        if answer.status_code != 201:
            raise FailedError(answer.text)

    def connect(self) -> None:
        """Connect, signing in as often as the hub asks."""
        self.send("POST", f"/servers/{self.id}/connect", {})
        self.settle()

    def settle(self) -> None:
        deadline = time.monotonic() + 40.0
        while time.monotonic() < deadline:
            server = self.send("GET", f"/servers/{self.id}").json()
            state, address = server["connectionState"], server["authorizationUrl"]
            if state == "connected":
                return
            if state == "authRequired" and address:
                self.sign_in(address)
            elif state not in MOVING:
                raise FailedError(f"{state}: {server['lastError']}")
            PAUSE.wait(0.1)
        raise FailedError("time is up")

    def sign_in(self, address: str) -> None:
        """Walk like a browser until an address leads back to the hub; complete it as an app."""
        self.rounds += 1
        if self.rounds > MOST_ROUNDS:
            raise FailedError("the hub kept asking for authorization")
        back = f"{self.http.base_url}".rstrip("/") + "/oauth/callback"
        with httpx.Client(timeout=20.0, trust_env=False) as browser:
            for _ in range(MOST_HOPS):
                location = browser.get(address).headers.get("location")
                if location is None:
                    raise FailedError(f"no redirect at {urlsplit(address).netloc}")
                address = urljoin(address, location)
                if address.startswith(back):
                    break
        body = {"callbackUrl": address}
        answer = self.send("POST", f"/servers/{self.id}/complete-auth", body)
        if answer.status_code != 200:
            raise FailedError(answer.text)

    def tools(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.send("GET", f"/servers/{self.id}/tools").json()["tools"]
        return found

    def call(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Call; after each sign-in that the answer asks for, once more."""
        while True:
            path = f"/servers/{self.id}/tools/{name}/call"
            answer = self.send("POST", path, {"arguments": arguments})
            if answer.status_code == 200:
                return
            if answer.json().get("code") != "authorization_needed":
                raise FailedError(answer.text)
            self.settle()

    def remove(self) -> None:
        self.send("DELETE", f"/servers/{self.id}")
        self.send("DELETE", f"/connectors/{self.id}")


def auth_of(context: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the auth template and its secrets."""
    if not SCENARIO.startswith("auth/"):
        return {"type": "none"}, {}
    auth: dict[str, Any] = {"type": "oauth"}
    secrets: dict[str, Any] = {}
    names = {"client_id": "clientId", "issuer": "issuer"}
    auth |= {names[name]: context[name] for name in names if name in context}
    if "client_secret" in context:
        secrets["clientSecret"] = context["client_secret"]
    if SCENARIO in MACHINES:
        auth["grantType"] = "client_credentials"
    if "private_key_pem" in context:
        secrets["privateKey"] = context["private_key_pem"]
        auth["tokenEndpointAuthMethod"] = "private_key_jwt"
    if SCENARIO.startswith("auth/2025-03-26"):
        auth["allowLegacyDiscovery"] = True
    return auth, secrets


def main() -> None:
    hub = Hub()
    hub.add(sys.argv[1])
    try:
        hub.connect()
        for tool in hub.tools()[:1]:
            hub.call(tool["name"], {})
    finally:
        hub.remove()


if __name__ == "__main__":
    try:
        main()
    except FailedError as exc:
        sys.stderr.write(f"FAILED {exc}\n")
        sys.exit(1)
