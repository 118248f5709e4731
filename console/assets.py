"""The console's own files: its modules in the order of their imports, and one page of them all.

`one_page` joins the modules without a bundler: they import and export by name alone, so each
becomes a function that returns its exports. The tests hold the modules to that style.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from mcphub import __version__

FOLDER = Path(__file__).parent / "static" / "console"
ENTRY = "app.js"
STYLES = ("base.css", "console.css")
IMPORT = re.compile(r'^import \{(?P<names>[^}]*)\} from "\./(?P<file>[\w.-]+)";$', re.MULTILINE)
LATER = re.compile(r'import\("\./(?P<file>[\w.-]+)"\)')
EXPORT = re.compile(
    r"^export (?P<code>(?:async )?(?:function\*?|class|const) (?P<name>\w+))", re.MULTILINE
)

PAGE = """<!doctype html>
<html lang="en" data-exported="true">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>mcphub console</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the server</a>
<header class="top">
<h1>mcphub <small>{version}, exported</small></h1>
<span id="line" class="badge" role="status"></span>
<span class="grow"></span>
<span id="account" class="account"></span>
<button type="button" id="help" class="small" aria-keyshortcuts="?">Help</button>
</header>
<div id="app" class="layout" data-state="starting">
<main id="main" tabindex="-1"><p class="empty">Starting …</p></main>
</div>
<div id="announcer" class="sr" role="status" aria-live="polite"></div>
<script type="module">{script}</script>
</body>
</html>
"""


@lru_cache(maxsize=1)
def module_names() -> tuple[str, ...]:
    """Return the files that the page loads at once, each after those that it imports."""
    return tuple(_in_order(ENTRY, set(), (IMPORT,)))


def all_module_names() -> tuple[str, ...]:
    """Return every file, those that are loaded later as well."""
    return tuple(_in_order(ENTRY, set(), (IMPORT, LATER)))


def one_page() -> str:
    """Return the whole console as one HTML file that works without a server."""
    script = joined_script()
    style = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{hash_of(script)}'",
            f"style-src '{hash_of(style)}'",
            "connect-src http: https: ws: wss:",
            "img-src data: blob:",
            "media-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return PAGE.format(policy=policy, style=style, script=script, version=__version__)


def joined_script() -> str:
    """Return all modules as one script, in which each is a function of its own."""
    parts = [_as_function(name) for name in all_module_names()]
    script = "\n".join(["", *parts, ""])
    if "</script" in script or "<!--" in script:
        raise ValueError("a module holds what would end the script element")
    return script


def hash_of(text: str) -> str:
    """Return the source expression of a Content-Security-Policy for an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _in_order(name: str, seen: set[str], references: tuple[re.Pattern[str], ...]) -> Iterator[str]:
    if name in seen:
        return
    seen.add(name)
    source = _read(name)
    for found in (match for pattern in references for match in pattern.finditer(source)):
        yield from _in_order(found["file"], seen, references)
    yield name


def _as_function(name: str) -> str:
    source = _read(name)
    exported = [found["name"] for found in EXPORT.finditer(source)]
    body = IMPORT.sub(_as_constant, source)
    body = LATER.sub(lambda found: f"Promise.resolve({_variable(found['file'])})", body)
    body = EXPORT.sub(lambda found: found["code"], body)
    return f"const {_variable(name)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();"


def _as_constant(found: re.Match[str]) -> str:
    names = ", ".join(part.strip().replace(" as ", ": ") for part in found["names"].split(","))
    return f"const {{ {names} }} = {_variable(found['file'])};"


def _variable(name: str) -> str:
    return "module_" + name.removesuffix(".js").replace("-", "_")
