"""The running hub against servers that nobody here wrote."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator

import pytest

from connectors.models import Connector
from tests.factories import unique
from tests.live.api import Api
from tests.live.newcomer import Newcomer
from tests.live.reference import everything, installed

pytestmark = pytest.mark.live


@pytest.fixture(params=["streamableHttp", "sse"])
def reference_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with everything(request.param) as url:
        yield url


def preset(*command: str) -> str:
    """Declare a stdio preset the way an operator does; returns its slug."""
    slug = unique("std")[:24]
    Connector.unscoped.create(slug=slug, name=slug, transport="stdio", command=list(command))
    return slug


def use_everything(api: Api, slug: str) -> None:
    """Call, read, get and complete on the reference server."""
    assert api.text(slug, "echo", {"message": "hi"}) == "Echo: hi"
    assert "5" in api.text(slug, "get-sum", {"a": 2, "b": 3})
    structured = api.call(slug, "get-structured-content", {"location": "Chicago"}).json()
    assert set(structured["structuredContent"]) == {"temperature", "conditions", "humidity"}
    image = api.call(slug, "get-tiny-image").json()
    assert "image" in {part["type"] for part in image["content"]}
    resources = api.get(f"/servers/{slug}/resources")["resources"]
    read = api.http.post(
        f"/api/v1/servers/{slug}/resources/read", json={"uri": resources[0]["uri"]}
    )
    assert read.status_code == 200, read.text
    assert read.json()["contents"][0]["uri"] == resources[0]["uri"]
    prompts = {prompt["name"] for prompt in api.get(f"/servers/{slug}/prompts")["prompts"]}
    assert "simple-prompt" in prompts
    got = api.http.post(f"/api/v1/servers/{slug}/prompts/get", json={"name": "simple-prompt"})
    assert got.json()["messages"][0]["role"] == "user"


@pytest.mark.node
def test_the_reference_server_works_over_each_http_transport(
    newcomer: Newcomer, reference_url: str
) -> None:
    api, slug = Api(newcomer.http), unique("ev")[:24]
    server = api.connected(slug, reference_url)
    expected = "sse" if reference_url.endswith("/sse") else "streamable-http"
    assert server["transport"] == expected
    use_everything(api, slug)


@pytest.mark.node
def test_progress_of_the_reference_server_arrives_with_the_call(newcomer: Newcomer) -> None:
    api, slug = Api(newcomer.http), unique("ev")[:24]
    with everything("streamableHttp") as url:
        api.connected(slug, url)
        queued = api.call(
            slug,
            "trigger-long-running-operation",
            {"duration": 1, "steps": 4},
            headers={"Prefer": "respond-async"},
        ).json()
        call = api.get(f"/calls/{queued['id']}", wait=15)
    assert call["status"] == "succeeded"
    assert call["progress"]["progress"] == call["progress"]["total"] == 4


@pytest.mark.node
def test_the_reference_server_works_over_stdio_for_an_operator_preset(newcomer: Newcomer) -> None:
    slug = preset(shutil.which("node") or "node", str(installed()), "stdio")
    api = Api(newcomer.http)
    server = api.connect(slug)
    assert server["connectionState"] == "connected", server["lastError"]
    assert server["transport"] == "stdio"
    use_everything(api, slug)


def test_the_time_server_works_over_stdio_for_an_operator_preset(newcomer: Newcomer) -> None:
    slug = preset(sys.executable, "-m", "mcp_server_time", "--local-timezone", "Europe/Berlin")
    api = Api(newcomer.http)
    server = api.connect(slug)
    assert server["connectionState"] == "connected", server["lastError"]
    text = api.text(
        slug,
        "convert_time",
        {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    )
    assert "Asia/Tokyo" in text
