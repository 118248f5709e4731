"""Children that die come back; nothing outlives the hub, however it ends."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.live.process_tree import children, living
from tests.live.stack import STOP_SECONDS, RunningHub, running
from tests.waiting import eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.chaos,
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def supervisor_of(hub: RunningHub) -> int:
    """The one process that the front has started."""
    (supervisor,) = children(hub.process.pid)
    return supervisor


@pytest.mark.parametrize("name", ["web1", "web2", "worker1", "beat", "demo", "valkey"])
def test_killed_child_is_started_again_and_the_hub_is_ready(hub: RunningHub, name: str) -> None:
    before = hub.kill(name)
    eventually(lambda: hub.pids()[name] not in {None, before}, 30.0, f"{name} starts again")
    eventually(hub.is_ready, 60.0, "the hub is ready")
    assert not living({before})


def test_killing_one_web_process_closes_no_port(hub: RunningHub) -> None:
    eventually(hub.is_ready, 60.0)
    hub.kill("web1")
    assert hub.is_live()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_polite_signal_stops_every_process(home: Path, number: signal.Signals) -> None:
    with running(home) as hub:
        tree = hub.tree()
        assert hub.stop(number) == 0
        assert not living(tree)
        assert not (home / "children.json").exists()


def test_second_signal_stops_at_once(home: Path) -> None:
    with running(home) as hub:
        tree = hub.tree()
        os.kill(hub.pid("worker1"), signal.SIGSTOP)
        hub.process.send_signal(signal.SIGINT)
        eventually(lambda: hub.pid("web1") not in living(tree), 15.0, "the stop has begun")
        hub.process.send_signal(signal.SIGINT)
        assert hub.process.wait(10.0) == 0
        eventually(lambda: not living(tree), 10.0, "every process ends")


def test_sigkill_of_the_front_leaves_no_orphan(home: Path) -> None:
    with running(home) as hub:
        tree = hub.tree()
        hub.process.kill()
        eventually(lambda: not living(tree), STOP_SECONDS, "every process ends")


def test_sigkill_of_the_supervisor_leaves_no_orphan(home: Path) -> None:
    with running(home) as hub:
        tree = hub.tree()
        os.kill(supervisor_of(hub), signal.SIGKILL)
        eventually(lambda: not living(tree), STOP_SECONDS, "every process ends")
        assert hub.process.wait(STOP_SECONDS) == 1
        assert hub.process.stderr is not None
        said = hub.process.stderr.read().splitlines()
        assert said[-1] == "mcphub: the supervisor was killed (SIGKILL); ending the rest"


def test_sigkill_of_front_and_supervisor_together_leaves_no_orphan(home: Path) -> None:
    with running(home) as hub:
        tree = hub.tree()
        os.kill(supervisor_of(hub), signal.SIGKILL)
        hub.process.kill()
        eventually(lambda: not living(tree), STOP_SECONDS, "every process ends")
