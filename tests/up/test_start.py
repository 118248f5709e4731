"""`mcphub up` as a person starts it: what it makes, prints and keeps."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.live.stack import RunningHub, running

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


def test_ready_line_names_everything_a_script_needs(hub: RunningHub) -> None:
    port = urlsplit(hub.ready.url).port
    assert port != 0
    assert hub.ready.url == f"http://127.0.0.1:{port}"
    assert hub.ready.mcp_url == f"{hub.ready.url}/mcp"
    assert hub.ready.admin_url.startswith(f"{hub.ready.url}/")
    assert hub.ready.api_key.startswith("mhk_")
    assert hub.ready.pid == hub.process.pid


def test_home_and_its_secrets_are_for_the_owner_only(hub: RunningHub) -> None:
    modes = {
        name: stat.S_IMODE((hub.home / name).stat().st_mode)
        for name in (
            ".",
            "keys",
            "secret_key",
            "api_key",
            "lock",
            "children.json",
            "running.json",
            "hub.sqlite3",
        )
    }
    assert modes.pop(".") == 0o700
    assert set(modes.values()) == {0o600}


def test_livez_and_readyz_answer(hub: RunningHub) -> None:
    live = httpx.get(f"{hub.url}/livez", trust_env=False)
    ready = httpx.get(f"{hub.url}/readyz", trust_env=False)
    assert (live.status_code, live.text) == (200, "ok\n")
    assert ready.status_code == 200
    assert ready.json() == {
        "status": "ok",
        "parts": {"database": "ok", "redis": "ok", "workers": "ok", "beat": "ok"},
        "workers": 1,
    }


def test_front_page_is_the_console_under_a_strict_policy(hub: RunningHub) -> None:
    page = httpx.get(f"{hub.url}/", trust_env=False)
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe-inline" not in page.headers["content-security-policy"]
    assert 'type="module" src="/static/console/app.js"' in page.text
    assert "<style" not in page.text


def test_every_link_of_the_front_page_leads_somewhere(hub: RunningHub) -> None:
    with httpx.Client(base_url=hub.url, trust_env=False) as browser:
        links = set(re.findall(r'(?:href|src)="(/[^"]*)"', browser.get("/").text))
        broken = {link for link in links if browser.get(link).status_code >= 400}
    assert len(links) >= 6
    assert broken == set()


def test_admin_link_logs_in_once(hub: RunningHub) -> None:
    with httpx.Client(follow_redirects=True, trust_env=False) as first:
        welcomed = first.get(hub.ready.admin_url)
        assert (welcomed.status_code, welcomed.url.path) == (200, "/admin/")
    with httpx.Client(follow_redirects=True, trust_env=False) as second:
        assert second.get(hub.ready.admin_url).status_code == 410
        assert second.get(f"{hub.url}/admin/").url.path == "/admin/login/"


def test_second_start_keeps_keys_and_account_below_a_path_too_long_for_a_socket(
    tmp_path: Path,
) -> None:
    home = tmp_path / ("long" * 30)
    with running(home) as first:
        kept = {name: (home / name).read_text() for name in ("keys", "secret_key", "api_key")}
        key = first.ready.api_key
    with running(home) as second:
        assert second.ready.api_key == key
        assert {name: (home / name).read_text() for name in kept} == kept
