"""System checks: each rule fires on its own setting and is quiet on a sound one."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from mcphub import checks

SOUND: dict[str, Any] = {
    "BASE_URL": "https://hub.example",
    "IS_HTTPS": True,
    "SECRET_KEY": "s" * 50,
    "ALLOWED_HOSTS": ["hub.example"],
    "EGRESS_ALLOW": ["10.0.0.0/8"],
    "EGRESS_ALLOW_LOOPBACK": False,
    "STDIO_ENABLED": False,
    "CORS_ALLOWED_ORIGINS": ["https://app.example"],
}


def found(settings: Settings, **changed: Any) -> list[str | None]:
    for name, value in (SOUND | changed).items():
        setattr(settings, name, value)
    messages = checks.check_settings()
    assert all(message.hint for message in messages)
    return [message.id for message in messages]


def test_sound_settings_are_quiet(settings: Settings) -> None:
    assert found(settings) == []


@pytest.mark.parametrize(
    ("changed", "ids"),
    [
        ({"MCPHUB_KEYS": ""}, ["mcphub.E001"]),
        ({"MCPHUB_KEYS": "a:short"}, ["mcphub.E001"]),
        ({"SECRET_KEY": ""}, ["mcphub.E002"]),
        ({"BASE_URL": "http://hub.example", "IS_HTTPS": False}, ["mcphub.W001"]),
        ({"EGRESS_ALLOW_LOOPBACK": True}, ["mcphub.W002"]),
        ({"SECRET_KEY": "short"}, ["mcphub.W003"]),
        ({"STDIO_ENABLED": True}, ["mcphub.W004"]),
        ({"ALLOWED_HOSTS": ["*"]}, ["mcphub.W005"]),
        ({"CORS_ALLOWED_ORIGINS": ["http://app.example"]}, ["mcphub.W006"]),
        ({"EGRESS_ALLOW": ["169.254.0.0/16:80"]}, ["mcphub.W007"]),
    ],
)
def test_rule_fires_on_its_setting(
    settings: Settings, changed: dict[str, Any], ids: list[str]
) -> None:
    assert found(settings, **changed) == ids


def test_settings_that_nothing_reads_are_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MCPHUB_EGRES_ALLOW", "MCPHUB_CALLTIMEOUT_FILE", "MCPHUB_KEYS_FILE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("MCPHUB_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("MCPHUB_PORT_8000_TCP", "tcp://10.0.0.1:8000")
    assert found(settings) == ["mcphub.W008"]
    (message,) = checks.unknown_settings()
    assert message.msg.endswith(": MCPHUB_CALLTIMEOUT, MCPHUB_EGRES_ALLOW.")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:1"])
def test_hub_of_this_machine_alone_may_be_plain(settings: Settings, url: str) -> None:
    assert (
        found(settings, BASE_URL=url, IS_HTTPS=False, EGRESS_ALLOW_LOOPBACK=True, SECRET_KEY="s")
        == []
    )
