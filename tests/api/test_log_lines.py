"""A request that is refused writes one line; a fault of the hub keeps its traceback."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from mcphub.core.log_lines import LoginLinksRedacted, RefusalsInOneLine


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def _handler(written: io.StringIO) -> object:
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    handler.addFilter(RefusalsInOneLine())
    handler.addFilter(LoginLinksRedacted())
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)


def test_a_wrong_host_is_one_warning(client: Client, written: io.StringIO) -> None:
    assert client.get("/admin/", headers={"Host": "evil.example"}).status_code == 400
    (line,) = written.getvalue().splitlines()
    assert line.startswith("WARNING django.security.DisallowedHost Invalid HTTP_HOST header: 'evil")


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["HEAD", "POST"])
def test_a_link_that_logs_in_is_never_written(
    client: Client, written: io.StringIO, method: str
) -> None:
    assert client.generic(method, f"/login/once/{'5' * 64}").status_code == 405
    assert written.getvalue().count("/login/once/[redacted]") == 1
    assert "555" not in written.getvalue()


def test_a_fault_keeps_its_traceback(written: io.StringIO) -> None:
    try:
        int("x")
    except ValueError:
        logging.getLogger("connectors").exception("failed")
    assert "Traceback" in written.getvalue()
    assert written.getvalue().startswith("ERROR connectors failed")


def test_the_log_of_the_hub_goes_through_the_filters() -> None:
    logging_settings: Any = settings.LOGGING
    names = logging_settings["handlers"]["console"]["filters"]
    used = [logging_settings["filters"][name]["()"].rpartition(".")[2] for name in names]
    assert used == [RefusalsInOneLine.__name__, LoginLinksRedacted.__name__]
