"""One hub shared by the tests that leave it running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.stack import RunningHub, running


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with running(tmp_path_factory.mktemp("hub"), "--webs", "2") as started:
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"
