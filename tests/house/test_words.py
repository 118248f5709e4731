"""Names and habits that the house does not have."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import PurePath

from tests.house.sources import ROOT, service_sources, sources

BANNED_MODULES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "misc",
    "manager",
    "managers",
    "tools_",
}
SLEEPS = {("time", "sleep"), ("asyncio", "sleep"), ("anyio", "sleep")}
UNSCOPED_ALLOWED = re.compile(
    r"^(tenants/(scoping|services|webhooks/|admin|management/|credentials|api_keys|connect_sessions|cors)"
    r"|connectors/(models/|services/|admin|worker|tasks|selectors)"
    r"|tracing/(recorder|retention|admin|tasks)"
    r"|oauth/(records/|admin)"
    r"|gateway/login/(logins|principals)"
    r"|mcphub/(up/|cli|health|resealing))"
)


def test_no_module_is_named_after_a_drawer() -> None:
    found = [s.path for s in sources() if PurePath(s.path).stem in BANNED_MODULES]
    assert found == []


def test_no_test_sleeps() -> None:
    found = [
        f"{source.path}:{node.lineno}"
        for source in sources()
        if source.path.startswith("tests/") and "/fakes/" not in source.path
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (node.func.value.id, node.func.attr) in SLEEPS
    ]
    assert found == []


def test_unscoped_rows_are_touched_only_by_the_systems_own_work() -> None:
    found = [
        s.path
        for s in service_sources()
        if re.search(r"\.unscoped\b", s.text) and not UNSCOPED_ALLOWED.match(s.path)
    ]
    assert found == []


def test_every_setting_is_explained_in_the_configuration_page() -> None:
    named = set()
    for source in service_sources():
        named |= set(re.findall(r'"(MCPHUB_[A-Z0-9_]+)"', source.text))
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`(MCPHUB_[A-Z0-9_]+)`", page))
    assert named - explained == set()


def test_no_file_names_a_package_registry_or_a_private_path() -> None:
    marks = (
        "pypi" + ".org",
        "pythonhosted" + ".org",
        "registry." + "npmjs",
        "/wo" + "rk/",
        "/ro" + "ot/",
    )
    listed = subprocess.run(
        ["git", "ls-files"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8", errors="replace")
        for name in listed.stdout.splitlines()
        if (ROOT / name).is_file()
    }
    found = [f"{name}: {mark}" for name, text in texts.items() for mark in marks if mark in text]
    assert found == []
