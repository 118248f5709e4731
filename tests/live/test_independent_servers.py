"""Signing in at authorization servers that nobody here wrote: oidc-provider, django-oauth-toolkit.

Each runs in a process of its own and is met through the running hub, from the first connect to the
revocation. Their person always agrees.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from tests.fakes.guarded_mcp import GuardedMcp
from tests.live.api import Api
from tests.live.newcomer import Newcomer
from tests.live.reference import ROOT, free_port
from tests.node_tools import FOLDER, modern_node, package
from tests.waiting import eventually

pytestmark = pytest.mark.live

SLUG = "vault"
MOST_HOPS = 15


@contextmanager
def started(command: list[str], cwd: Path = ROOT) -> Iterator[None]:
    """Run an authorization server that says when it listens."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert "ready\n" in process.stdout  # reads up to it
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def oidc_provider(server: GuardedMcp, folder: Path) -> Iterator[None]:
    port = free_port()
    package("oidc-provider", "package.json")
    server.external_issuer = f"http://127.0.0.1:{port}"
    server.introspection = f"{server.issuer}/token/introspection"
    program = str(FOLDER / "oidc_server.mjs")
    with started([modern_node(), program, str(port), server.mcp_url], folder):
        yield


@contextmanager
def toolkit(server: GuardedMcp, folder: Path) -> Iterator[None]:
    port = free_port()
    server.external_issuer = f"http://127.0.0.1:{port}"
    server.introspection = f"{server.issuer}/introspect/"
    module = "tests.fakes.toolkit_server"
    with started([sys.executable, "-m", module, str(port), server.mcp_url, str(folder)]):
        yield


SERVERS = [
    pytest.param(oidc_provider, id="oidc-provider", marks=pytest.mark.node),
    pytest.param(toolkit, id="django-oauth-toolkit"),
]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GuardedMcp]:
    with GuardedMcp() as running, request.param(running, tmp_path):
        yield running


def state(api: Api) -> str:
    return str(api.server(SLUG)["connectionState"])


def sign_in(api: Api) -> dict[str, Any]:
    """Walk like a browser until an address leads back to the hub; complete it as an app."""
    address = str(api.server(SLUG)["authorizationUrl"])
    home = f"{api.http.base_url}".rstrip("/")
    with httpx.Client(trust_env=False, timeout=20.0) as browser:
        for _ in range(MOST_HOPS):
            answer = browser.get(address)
            assert answer.is_redirect, answer.text
            address = urljoin(address, answer.headers["location"])
            if address.startswith(f"{home}/oauth/callback"):
                break
    path = f"/api/v1/servers/{SLUG}/complete-auth"
    done = api.http.post(path, json={"callbackUrl": address})
    assert done.status_code == 200, done.text
    eventually(lambda: state(api) == "connected", 20.0, "it connects by itself")
    auth: dict[str, Any] = api.server(SLUG)["auth"]
    return auth


def test_whole_life_of_an_authorization(newcomer: Newcomer, server: GuardedMcp) -> None:
    api = Api(newcomer.http)
    api.add_server(SLUG, server.mcp_url, auth={"type": "oauth"})

    assert api.connect(SLUG)["connectionState"] == "authRequired"
    auth = sign_in(api)
    assert (auth["issuer"], auth["grantedScopes"]) == (server.issuer, ["files:read"])
    assert auth["forecast"]["canRefresh"] is True
    assert api.text(SLUG, "read") == "done"

    first = server.given[-1]
    server.refused.add(first)
    assert api.text(SLUG, "read") == "done"
    assert server.given[-1] != first

    server.rules.step_up = {"write": "files:write"}
    refused = api.call(SLUG, "write")
    assert (refused.status_code, refused.json()["code"]) == (409, "authorization_needed")
    eventually(lambda: state(api) == "authRequired", 20.0, "more scopes are asked for")
    assert set(sign_in(api)["grantedScopes"]) >= {"files:read", "files:write"}
    assert api.text(SLUG, "write") == "done"

    last = server.given[-1]
    assert server.looked_up(last) is not None
    api.http.post(f"/api/v1/servers/{SLUG}/disconnect", json={"forget": True})
    eventually(lambda: server.looked_up(last) is None, 20.0, "the provider has revoked it")
    assert api.server(SLUG)["auth"]["hasCredentials"] is False
    assert server.executed == 3
