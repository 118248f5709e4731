"""The operator's subcommands find the hub that runs in a home."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest

from tests.factories import unique
from tests.live.stack import RunningHub, environment

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


def mcphub(*arguments: str, **overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcphub.cli", *arguments],
        env=environment(overrides),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_admin_link_logs_in_to_the_running_hub(hub: RunningHub) -> None:
    result = mcphub("admin-link", "--home", str(hub.home))
    assert result.returncode == 0, result.stderr
    with httpx.Client(follow_redirects=True, trust_env=False) as browser:
        page = browser.get(result.stdout.strip())
    assert (page.status_code, str(page.url)) == (200, f"{hub.url}/admin/")


def test_admin_link_for_nobody_is_one_line(hub: RunningHub) -> None:
    result = mcphub("admin-link", "--home", str(hub.home), "--user", "nobody")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "mcphub: there is no user 'nobody'\n"


def test_new_tenant_has_a_key_that_works_and_sees_itself_alone(hub: RunningHub) -> None:
    name = unique("Acme")
    owner = f"{unique('owner')}@example.org"
    result = mcphub("create-tenant", name, "--owner", owner, "--home", str(hub.home))
    assert result.returncode == 0, result.stderr
    answer = hub.client(result.stdout.strip()).get("/api/v1/tenants/current")
    assert answer.status_code == 200
    assert answer.json()["name"] == name


@pytest.mark.parametrize(
    ("name", "owner", "told"),
    [
        ("Acme", "notanemail", "email: Enter a valid email address."),
        ("", "x@example.org", "name: This field cannot be blank."),
        ("  ", "x@example.org", "name: This field cannot be blank."),
    ],
)
def test_tenant_that_cannot_be_is_one_line(
    hub: RunningHub, name: str, owner: str, told: str
) -> None:
    result = mcphub("create-tenant", name, "--owner", owner, "--home", str(hub.home))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"mcphub: {told}")
    assert result.stderr.count("\n") == 1


def test_rotation_of_a_fresh_hub_is_done_at_once(hub: RunningHub) -> None:
    result = mcphub("rotate-keys", "--home", str(hub.home))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("every secret is under 'k1' now\n")


def test_version_is_printed() -> None:
    assert mcphub("version").stdout == "0.1.0\n"
