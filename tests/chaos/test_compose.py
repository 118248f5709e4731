"""docker-compose.yml: what it promises about its services, and that its commands exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from chaos import compose
from chaos.compose import Service
from mcphub import cli
from mcphub.core.crypto import KeyRing

ROOT = Path(__file__).resolve().parents[2]
SERVICES = compose.services()
OURS = [service for service in SERVICES.values() if service.is_ours]
SETTINGS = set(re.findall(r"`(MCPHUB_[A-Z0-9_]+)`", (ROOT / "docs/configuration.md").read_text()))


def by_name(service: Service) -> str:
    return service.name


def test_it_runs_two_web_two_workers_beat_and_both_stores() -> None:
    names = [name for service in SERVICES.values() for name in service.instances]
    assert names == ["postgres", "redis", "migrate", "web1", "web2", "worker1", "worker2", "beat"]


@pytest.mark.parametrize("service", SERVICES.values(), ids=by_name)
def test_every_service_is_confined(service: Service) -> None:
    fields = service.fields
    assert fields["read_only"] is True
    assert fields["cap_drop"] == ["ALL"]
    assert fields["security_opt"] == ["no-new-privileges:true"]
    assert str(fields["user"]).split(":")[0] not in {"", "0", "root"}
    assert any(mount.startswith("/tmp") for mount in fields["tmpfs"])  # the name of a mount


@pytest.mark.parametrize("service", SERVICES.values(), ids=by_name)
def test_every_lasting_service_says_whether_it_is_healthy_and_is_started_again(
    service: Service,
) -> None:
    lasts = service.name != "migrate"
    assert ("healthcheck" in service.fields) is lasts
    assert service.fields["restart"] == ("unless-stopped" if lasts else "no")


@pytest.mark.parametrize("service", SERVICES.values(), ids=by_name)
def test_secrets_come_as_files_that_are_declared(service: Service) -> None:
    declared = compose.document()["secrets"]
    mounted = set(service.fields.get("secrets", ()))
    assert mounted <= set(declared)
    named = {v.rpartition("/")[2] for k, v in service.environment.items() if k.endswith("_FILE")}
    assert named == mounted
    plain = {"SECRET_KEY", "KEYS", "DATABASE_URL", "REDIS_URL", "PASSWORD"}
    assert not [name for name in service.environment if name.removeprefix("MCPHUB_") in plain]


@pytest.mark.parametrize("service", OURS, ids=by_name)
def test_every_command_is_one_that_mcphub_knows(service: Service) -> None:
    options = cli.parser().parse_args(list(service.command))
    assert callable(options.run)


@pytest.mark.parametrize("service", OURS, ids=by_name)
def test_every_setting_is_one_that_is_explained(service: Service) -> None:
    assert {name.removesuffix("_FILE") for name in service.environment} <= SETTINGS


def test_worker_slots_differ_and_are_what_the_health_checks_ask_for() -> None:
    workers = [service for service in OURS if service.command[0] == "worker"]
    slots = [service.command[2] for service in workers]
    asked = [service.fields["healthcheck"]["test"][-1] for service in workers]
    assert slots == asked == ["w1", "w2"]


def test_redis_appends_to_disk_and_evicts_nothing() -> None:
    text = " ".join(SERVICES["redis"].command)
    assert "--appendonly yes" in text
    assert "--maxmemory-policy noeviction" in text


def test_the_stores_are_reached_from_inside_alone() -> None:
    networks: dict[str, Any] = compose.document()["networks"]
    assert networks["stores"]["internal"] is True
    assert {n for n, s in SERVICES.items() if "ports" in s.fields} == {"web"}
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["web"].fields["ports"])


def test_made_secrets_are_ones_that_the_hub_takes_and_are_made_once(tmp_path: Path) -> None:
    script = tmp_path / "deploy" / "make-secrets.sh"
    script.parent.mkdir()
    script.write_text((ROOT / "deploy/make-secrets.sh").read_text())
    for _ in range(2):
        subprocess.run(["bash", str(script)], check=True, capture_output=True, timeout=20)
        folder = tmp_path / "secrets"
        found = {path.name: path.read_text() for path in folder.iterdir()}
    assert set(found) == set(compose.document()["secrets"])
    KeyRing.parse(found["keys"])
    assert len(found["secret_key"]) >= 50
    assert folder.stat().st_mode & 0o077 == 0
    assert found["redis_url"] == "redis://redis:6379/0"


def test_the_image_installs_by_hash_and_runs_as_nobody_special() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert "--require-hashes --requirement requirements.lock" in text
    assert text.count("FROM ") == 2
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert 'ENTRYPOINT ["mcphub"]' in text
