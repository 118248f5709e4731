"""The modules' own rules, and the one page that is made of them; no browser needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from console import assets
from mcphub import cli

FILE_LINES = 400
FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "eval(",
    "new Function",
    "DOMParser",
    "srcdoc",
)
MODULES = sorted(file.name for file in assets.FOLDER.glob("*.js"))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_small_and_writes_text_alone(name: str) -> None:
    text = (assets.FOLDER / name).read_text()
    assert text.count("\n") <= FILE_LINES
    assert text.startswith("// ")
    assert [word for word in FORBIDDEN if word in text] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_and_exports_by_name_alone(name: str) -> None:
    """What `assets.one_page` relies on."""
    text = (assets.FOLDER / name).read_text()
    imports = re.findall(r"^import .*$", text, re.MULTILINE)
    exports = re.findall(r"^export .*$", text, re.MULTILINE)
    assert len(imports) == len(assets.IMPORT.findall(text))
    assert len(exports) == len(assets.EXPORT.findall(text))


def test_every_module_is_part_of_the_page() -> None:
    assert sorted(assets.all_module_names()) == MODULES


def test_no_module_needs_itself() -> None:
    """An order exists in which each comes after those that it imports."""
    seen: set[str] = set()
    for name in assets.all_module_names():
        text = (assets.FOLDER / name).read_text()
        assert {found["file"] for found in assets.IMPORT.finditer(text)} <= seen
        seen.add(name)


def test_the_exported_page_names_its_own_scripts_and_nothing_unsafe() -> None:
    page = assets.one_page()
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)[0]
    assert "unsafe" not in policy
    assert "'self'" not in policy
    assert page.count("'sha256-") == 2
    assert re.search(r'(src|href)="(?!#)', page) is None


def test_the_command_writes_the_page_and_refuses_a_missing_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "console.html"
    assert cli.main(["console", "export", str(file)]) == 0
    assert file.read_text() == assets.one_page()
    assert cli.main(["console", "export", str(tmp_path / "missing" / "console.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
