"""Servers that are child processes: eras, crash, clean environment, sure end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from connectors.server_spec import Era, Transport
from connectors.upstream import child
from connectors.upstream.stdio import StdioSession
from mcphub.core.crypto import Secret
from mcphub.core.errors import UpstreamError
from tests.connectors.upstream.support import (
    Listener,
    ask,
    call_of,
    connect_failure,
    failure_of,
    opened,
    text_of,
)

SCRIPT = str(Path(__file__).parents[2] / "fakes" / "stdio_server.py")


def stdio(mode: str = "plain", **fields: Any) -> dict[str, Any]:
    command = (sys.executable, SCRIPT, mode)
    return {"url": "", "transport": Transport.STDIO, "command": command, **fields}


def pid_of(session: object) -> int:
    assert isinstance(session, StdioSession)
    return session._child.process.pid


def is_there(path: str) -> bool:
    return Path(path).exists()


def is_alive(pid: int) -> bool:
    """Whether the process exists; the signal 0 is sent to none."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("mode", "era"),
    [("plain", Era.LEGACY), ("modern", Era.MODERN), ("strict", Era.LEGACY)],
)
async def test_stdio_server_is_met_in_its_era_even_when_it_dies_of_the_probe(
    mode: str, era: Era
) -> None:
    async with opened(**stdio(mode)) as session:
        assert (session.opened.era, session.opened.transport) == (era, Transport.STDIO)
        assert text_of(await session.request(call_of("echo"))) == "echo"


async def test_modern_server_that_starts_slowly_is_not_taken_for_a_legacy_one() -> None:
    async with opened(**stdio("slow", connect_timeout=3.0)) as session:
        assert session.opened.era is Era.MODERN
        assert text_of(await session.request(call_of("echo"))) == "echo"


async def test_real_stdio_server_lists_and_runs_its_tools() -> None:
    command = (sys.executable, "-m", "mcp_server_time")
    async with opened("", transport=Transport.STDIO, command=command) as session:
        listed: Any = await session.request(ask("tools/list"))
        names = [tool["name"] for tool in listed["tools"]]
        called = await session.request(call_of("get_current_time", timezone="Etc/UTC"))
    assert names == ["get_current_time", "convert_time"]
    assert json.loads(text_of(called))["timezone"] == "Etc/UTC"


async def test_child_sees_a_clean_environment_and_its_own_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MCPHUB_KEYS", "secret")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    async with opened(**stdio(environment={"API_KEY": Secret("given")})) as session:
        found = json.loads(text_of(await session.request(call_of("environment"))))
        directory, leads = text_of(await session.request(call_of("directory"))).split()
        assert is_there(directory)
    assert found["API_KEY"] == "given"
    assert set(found) <= {*child.INHERITED, "API_KEY", "LC_CTYPE"}
    assert (leads, is_there(directory)) == ("True", False)


async def test_crash_fails_calls_in_flight_at_once_and_loses_the_session() -> None:
    listener = Listener()
    async with opened(listener=listener, **stdio()) as session, asyncio.timeout(2):
        first, second = await asyncio.gather(
            failure_of(session, call_of("crash")), failure_of(session, call_of("crash"))
        )
        later = await failure_of(session, call_of("echo"))
    assert isinstance(first, UpstreamError)
    assert (first.problem_code, first.was_sent) == ("upstream_unreachable", True)
    assert second.problem_code == "upstream_unreachable"
    assert later.problem_code == "session_lost"
    assert [found.problem_code for found in listener.lost] == ["session_lost"]


async def test_noise_on_stdout_and_stderr_harms_nothing_and_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    listener = Listener()
    async with opened(listener=listener, **stdio()) as session:
        assert (await failure_of(session, call_of("noise"))).problem_code == "protocol_error"
        assert text_of(await session.request(call_of("echo"))) == "echo"
    assert listener.lost == []
    assert "secret" not in caplog.text


async def test_line_over_the_cap_fails_its_call_only(settings: Settings) -> None:
    settings.MAX_BODY_BYTES = 100_000
    async with opened(**stdio()) as session:
        failed = await failure_of(session, call_of("big"))
        assert failed.problem_code == "response_too_large"
        assert text_of(await session.request(call_of("echo"))) == "echo"


async def test_hanging_child_times_out_and_is_ended_with_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(child, "STOP_SECONDS", 0.2)
    async with opened(**stdio()) as session:
        pid = pid_of(session)
        assert (await failure_of(session, call_of("hang", 0.3))).problem_code == "timeout"
        assert is_alive(pid)
    assert not is_alive(pid)


async def test_child_that_ignores_everything_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "STOP_SECONDS", 0.2)
    async with opened(**stdio("stubborn")) as session:
        pid = pid_of(session)
    assert not is_alive(pid)


async def test_command_that_does_not_exist_is_unreachable_and_unsent() -> None:
    failed = await connect_failure("", transport=Transport.STDIO, command=("no-such-command",))
    assert isinstance(failed, UpstreamError)
    assert (failed.problem_code, failed.was_sent) == ("upstream_unreachable", False)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
async def test_child_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import subprocess, sys, os, signal\n"
        "from connectors.upstream.child import bound_to_parent\n"
        "command = bound_to_parent((sys.executable, '-c', 'import time; time.sleep(60)'))\n"
        "child = subprocess.Popen(command, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    handle = os.pidfd_open(pid)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, ended.set)
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(5):
        await ended.wait()
    asyncio.get_running_loop().remove_reader(handle)
    os.close(handle)
