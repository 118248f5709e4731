"""Settings of the environment: typed values, files for secrets, one clear line for a bad one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from mcphub import env, services_urls
from mcphub.core.egress import AllowRule
from mcphub.settings import ROOT

NAME = "MCPHUB_TEST_VALUE"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv(NAME, raising=False)
    monkeypatch.delenv(f"{NAME}_FILE", raising=False)
    return monkeypatch


def test_a_value_comes_from_the_variable_before_the_file_before_the_default(
    given: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "value"
    file.write_text(" from-file\n", encoding="utf-8")
    assert env.text(NAME, "default") == "default"
    given.setenv(f"{NAME}_FILE", str(file))
    assert env.text(NAME, "default") == "from-file"
    given.setenv(NAME, " from-variable ")
    assert env.text(NAME, "default") == "from-variable"


def test_a_file_that_is_missing_is_named(given: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given.setenv(f"{NAME}_FILE", str(tmp_path / "missing"))
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}_FILE"):
        env.text(NAME)


def test_a_file_that_is_no_text_is_named(given: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_bytes(b"\xff\xfe")
    given.setenv(f"{NAME}_FILE", str(file))
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}_FILE"):
        env.text(NAME)


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("YES", True), ("on", True), ("0", False), ("", False)]
)
def test_a_flag_reads_yes_and_no(given: pytest.MonkeyPatch, value: str, expected: object) -> None:
    given.setenv(NAME, value)
    assert env.flag(NAME, default=not expected) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("90", 90), ("90s", 90), ("15m", 900), ("250ms", 0.25), ("2h", 7200), ("30d", 2592000)],
)
def test_a_duration_reads_every_unit(
    given: pytest.MonkeyPatch, value: str, expected: float
) -> None:
    given.setenv(NAME, value)
    assert env.seconds(NAME, 1.0) == expected


def test_an_empty_number_or_duration_is_the_default(given: pytest.MonkeyPatch) -> None:
    given.setenv(NAME, "")
    assert (env.integer(NAME, 5), env.seconds(NAME, 1.5)) == (5, 1.5)


def test_a_list_drops_empty_items(given: pytest.MonkeyPatch) -> None:
    given.setenv(NAME, " a, ,b,")
    assert env.items(NAME) == ["a", "b"]


def test_an_item_of_a_list_that_is_refused_names_the_setting(given: pytest.MonkeyPatch) -> None:
    given.setenv(NAME, "10.0.0.0/8,foo/bar")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}: 'foo/bar' is not an address range"):
        env.items(NAME, check=AllowRule.parse)


def test_a_list_of_ports_has_numbers(given: pytest.MonkeyPatch) -> None:
    given.setenv(NAME, "443, 8443")
    assert env.ports(NAME) == [443, 8443]


@pytest.mark.parametrize("value", ["x", "0", "65536", "443;80", "-1", "٣", "9" * 5000])
def test_a_bad_port_is_refused(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        env.ports(NAME)


def test_a_word_is_one_of_the_known_ones(given: pytest.MonkeyPatch) -> None:
    assert env.choice(NAME, "INFO", of=("INFO", "DEBUG")) == "INFO"
    given.setenv(NAME, "debug")
    assert env.choice(NAME, "INFO", of=("INFO", "DEBUG")) == "DEBUG"
    given.setenv(NAME, "loud")
    with pytest.raises(ImproperlyConfigured, match=f"{NAME}: 'LOUD' is not one of INFO, DEBUG"):
        env.choice(NAME, "INFO", of=("INFO", "DEBUG"))


@pytest.mark.parametrize(
    "program",
    [
        ["manage.py", "check"],
        ["-m", "celery", "-A", "mcphub", "worker"],
        ["-m", "uvicorn", "mcphub.asgi:application", "--port", "0"],
    ],
)
def test_a_bad_setting_stops_every_program_with_one_line(program: list[str]) -> None:
    environment = os.environ | {"MCPHUB_EGRESS_ALLOW": "10.0.0.0/99"}
    environment["DJANGO_SETTINGS_MODULE"] = "mcphub.settings"
    ended = subprocess.run(
        [sys.executable, *program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = ended.stderr.splitlines()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ": MCPHUB_EGRESS_ALLOW: '10.0.0.0/99' is not an address range" in line


@pytest.mark.parametrize("value", ["maybe", "2"])
def test_a_bad_flag_is_refused(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        env.flag(NAME)


@pytest.mark.parametrize("value", ["x", "1.5", "-1", "11"])
def test_a_bad_number_is_refused(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        env.integer(NAME, 5, maximum=10)


@pytest.mark.parametrize("value", ["x", "5x", "1dd", "-1s", "nan", "inf", "999d"])
def test_a_bad_duration_is_refused(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        env.seconds(NAME, 5)


@pytest.mark.parametrize(
    "value",
    ["hush.test", "ftp://u:hush@a", "http://", "http:///hush", "redis://:hush@", "redis://a:hush",
     "http://[hush", "http://a:hush"],
)  # fmt: skip
def test_a_bad_url_is_refused_without_telling_it(given: pytest.MonkeyPatch, value: str) -> None:
    given.setenv(NAME, value)
    with pytest.raises(ImproperlyConfigured, match=NAME) as caught:
        env.url(NAME, "", schemes=("http", "redis"))
    assert "hush" not in str(caught.value)


def test_a_url_may_be_left_out(given: pytest.MonkeyPatch) -> None:
    assert env.url(NAME, "", schemes=("http",)) == ""
    given.setenv(NAME, "unix:///run/x.sock?db=1")
    assert env.url(NAME, "", schemes=("unix",)) == "unix:///run/x.sock?db=1"


@pytest.mark.parametrize("url", ["sqlite:///var/hub%20x.db", "sqlite:////var/hub x.db"])
def test_a_sqlite_url_names_an_absolute_path(url: str) -> None:
    found = services_urls.database(url)
    assert (found["ENGINE"], found["NAME"]) == ("django.db.backends.sqlite3", "/var/hub x.db")


def test_a_postgres_url_is_taken_apart_and_decoded() -> None:
    found = services_urls.database("postgres://us%40er:p%2Fw@db.test:6432/na%20me?sslmode=require")
    wanted = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
    assert {name: found[name] for name in wanted} == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "na me",
        "USER": "us@er",
        "PASSWORD": "p/w",
        "HOST": "db.test",
        "PORT": "6432",
        "OPTIONS": {**services_urls.NETWORK, "sslmode": "require"},
    }


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("redis://a.test:6379/3", "redis://a.test:6379/3"),
        ("rediss://:pw@a.test/0", "rediss://:pw@a.test/0"),
        ("unix:///run/v.sock?db=2", "redis+socket:///run/v.sock?virtual_host=2"),
        ("unix:///run/v.sock", "redis+socket:///run/v.sock?virtual_host=0"),
        ("unix://:pw@/run/v.sock", "redis+socket://:pw@/run/v.sock?virtual_host=0"),
    ],
)
def test_the_broker_gets_its_own_spelling_of_a_socket(url: str, broker: str) -> None:
    assert services_urls.celery_broker(url) == broker


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("http://127.0.0.1:8000", ["127.0.0.1", "localhost", "[::1]"]),
        ("http://localhost", ["127.0.0.1", "localhost", "[::1]"]),
        ("http://[::1]:8000", ["127.0.0.1", "localhost", "[::1]"]),
        ("https://hub.test", ["hub.test"]),
        ("https://[2606:4700::1]:8443", ["[2606:4700::1]"]),
    ],
)
def test_the_base_address_implies_the_host_names(url: str, hosts: list[str]) -> None:
    assert services_urls.hosts_of(url) == hosts
