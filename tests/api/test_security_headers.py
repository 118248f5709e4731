"""Headers of every answer: a policy without `unsafe-*`, and pages that really fit it."""

from __future__ import annotations

import re

import pytest
from django.contrib.staticfiles import finders
from django.test import AsyncClient, Client

from mcphub.api.headers import page_policy
from tests.world import World

DOCUMENT = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
INLINE = re.compile(
    r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son[a-z]+=|javascript:", re.IGNORECASE
)
PAGES = (
    "/admin/",
    "/admin/login/?next=/admin/",
    "/admin/tenants/user/add/",
    "/admin/tenants/tenant/add/",
    "/admin/tenants/membership/",
    "/admin/tenants/apikey/add/",
    "/admin/tenants/connectsession/",
    "/api/docs",
)


def test_api_answers_are_no_documents_and_are_not_kept(client: Client, world: World) -> None:
    answer = client.get("/api/v1/tenants/current", headers=world.alice.headers)
    assert {
        name: answer[name]
        for name in (
            "Content-Security-Policy",
            "X-Content-Type-Options",
            "Referrer-Policy",
            "Cross-Origin-Opener-Policy",
            "X-Frame-Options",
            "Cache-Control",
        )
    } == {
        "Content-Security-Policy": DOCUMENT,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "X-Frame-Options": "DENY",
        "Cache-Control": "no-store",
    }


async def test_async_chain_sets_them_too(async_client: AsyncClient) -> None:
    answer = await async_client.get("/livez")
    assert answer["Content-Security-Policy"] == DOCUMENT
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_policy_of_pages_has_nothing_unsafe() -> None:
    policy = page_policy("https://hub.example")
    assert "unsafe" not in policy
    assert "connect-src 'self' wss://hub.example" in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("path", PAGES)
def test_page_has_no_inline_script_or_style(client: Client, world: World, path: str) -> None:
    client.force_login(world.root)
    answer = client.get(path)
    assert answer.status_code in {200, 302}
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert INLINE.findall(answer.text) == []


def test_documentation_page_loads_only_from_this_host(client: Client, db: None) -> None:
    answer = client.get("/api/docs")
    sources = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert len(sources) == 5
    assert [source for source in sources if not source.startswith("/")] == []
    files = [s.removeprefix("/static/") for s in sources if s.startswith("/static/")]
    assert [name for name in files if finders.find(name) is None] == []
    script = client.get(next(s for s in sources if "script" in s).replace("&amp;", "&"))
    assert script["Content-Type"] == "application/javascript"
    assert "/api/v1/schema" in script.text
