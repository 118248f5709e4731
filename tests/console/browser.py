"""A small driver of headless Chromium: the DevTools protocol over one WebSocket."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.waiting import eventually

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 30.0
WAIT_SECONDS = 15.0
KEY_CODES = {
    "Enter": 13,
    "Tab": 9,
    "Escape": 27,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "Home": 36,
    "End": 35,
    " ": 32,
}
TYPED_BY = {"Enter": "\r", " ": " "}
MODIFIERS = {"Alt": 1, "Control": 2, "Shift": 8}
RECORD_POLICY = (
    "window.violations = []; document.addEventListener('securitypolicyviolation',"
    " (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI}`));"
)


class BrowserError(Exception):
    """The browser refused a command, or the page threw."""


def program() -> str | None:
    """Return the path of Chromium, or None on a machine without one."""
    named = os.environ.get("MCPHUB_TEST_CHROMIUM")
    return named or next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@dataclass(slots=True)
class Wire:
    """One WebSocket to the browser; answers by id, events kept until somebody looks."""

    socket: ClientConnection
    last_id: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, method: str, params: Mapping[str, Any], session: str | None = None) -> Any:
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self.socket.send(json.dumps(message))
        while True:
            heard = json.loads(self.socket.recv(timeout=60))
            if heard.get("id") == self.last_id:
                break
            self.events.append(heard)
        if "error" in heard:
            raise BrowserError(f"{method}: {heard['error']['message']}")
        return heard["result"]


@dataclass(slots=True)
class Page:
    """One tab; elements are found by their `data-testid`."""

    wire: Wire
    session: str

    def ask(self, method: str, **params: Any) -> Any:
        return self.wire.ask(method, params, self.session)

    def goto(self, url: str) -> None:
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'", f"{url} is loaded")

    def js(self, expression: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        answer = self.ask(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            thrown = answer["exceptionDetails"]
            raise BrowserError(thrown.get("exception", {}).get("description") or thrown["text"])
        return answer["result"].get("value")

    def until(self, expression: str, what: str, seconds: float = WAIT_SECONDS) -> Any:
        """Return the first true value of an expression; fails with what the page shows."""

        def value() -> Any:
            try:
                return self.js(f"((v) => v instanceof Node ? true : v)({expression})")
            except BrowserError:
                return None  # the page is being replaced

        try:
            return eventually(value, seconds, what)
        except AssertionError as exc:
            exc.add_note(str(self.js("document.body.innerText.slice(0, 3000)")))
            raise

    def see(self, testid: str, text: str = "", seconds: float = WAIT_SECONDS) -> str:
        """Wait for an element whose text has `text`; returns its text."""
        found = self.until(
            f"[...document.querySelectorAll('[data-testid={testid}]')].map(e => e.innerText || ' ')"
            f".find(t => t.includes({json.dumps(text)}))",
            f"{testid} shows {text!r}",
            seconds,
        )
        return str(found)

    def text(self, testid: str) -> str:
        return str(self.js(f"document.querySelector('[data-testid={testid}]')?.innerText ?? ''"))

    def click(self, testid: str, *, css: str = "") -> None:
        """Click in the middle of an element, with the mouse."""
        selector = css or f"[data-testid={testid}]"
        where = self.until(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " if (!e || e.disabled) return null; e.scrollIntoView({block: 'center'});"
            " const r = e.getBoundingClientRect(); if (!r.width) return null;"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()",
            f"{selector} can be clicked",
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=where[0],
                y=where[1],
                button="left",
                clickCount=1,
            )

    def click_row(self, testid: str, text: str) -> None:
        """Click the row of a listbox that shows a text."""
        rows = f"[...document.querySelectorAll('[data-testid={testid}] .row')]"
        found = f"{rows}.find(r => r.innerText.includes({json.dumps(text)}))"
        self.until(found, f"{testid} has a row {text!r}")
        key = self.js(f"{found}.dataset.key")
        self.click("", css=f"[data-testid={testid}] .row[data-key={json.dumps(key)}]")

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def enter(self, css: str, text: str) -> None:
        """Put a text in place of what a field has."""
        self.until(f"document.querySelector({json.dumps(css)})", f"{css} is there")
        self.js(f"document.querySelector({json.dumps(css)}).focus()")
        self.js(f"document.querySelector({json.dumps(css)}).select?.()")
        self.type(text)

    def choose(self, css: str, value: str) -> None:
        self.until(f"document.querySelector({json.dumps(css)})", f"{css} is there")
        self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(css)});"
            f" e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')); }})()"
        )

    def press(self, key: str, *held: str) -> None:
        """Press a key with others held, as a keyboard does."""
        code = KEY_CODES.get(key, ord(key.upper()[0]))
        name = f"Key{key.upper()}" if len(key) == 1 and key.isalpha() else key
        shown = {
            "key": key,
            "code": name,
            "windowsVirtualKeyCode": code,
            "modifiers": sum(MODIFIERS[one] for one in held),
        }
        typed = TYPED_BY.get(key, key if len(key) == 1 and not held else "")
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=typed, **shown)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **shown)

    def resize(self, width: int, height: int, *, scale: float = 1) -> None:
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )

    def media(self, **features: str) -> None:
        """Emulate media features: `prefers_color_scheme="dark"`, `forced_colors="active"`."""
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.ask("Emulation.setEmulatedMedia", features=named)

    def screenshot(self, path: Path) -> None:
        shot = self.ask("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.ask("Page.printToPDF")["data"])

    def give_file(self, testid: str, path: Path) -> None:
        """Choose a file in an input, as the dialog would."""
        document = self.ask("DOM.getDocument")["root"]["nodeId"]
        node = self.ask(
            "DOM.querySelector", nodeId=document, selector=f"input[data-testid={testid}]"
        )
        self.ask("DOM.setFileInputFiles", nodeId=node["nodeId"], files=[str(path)])

    @property
    def violations(self) -> Sequence[str]:
        """What the page's Content-Security-Policy had to stop."""
        found: Sequence[str] = self.js("window.violations")
        return found


@dataclass(slots=True)
class Browser:
    """One process; every `context` has cookies and storage of its own."""

    wire: Wire
    contexts: list[str] = field(default_factory=list)

    def context(self, downloads: Path | None = None) -> str:
        made = self.wire.ask("Target.createBrowserContext", {})
        context = str(made["browserContextId"])
        self.contexts.append(context)
        if downloads is not None:
            behaviour = {"behavior": "allow", "downloadPath": str(downloads)}
            self.wire.ask("Browser.setDownloadBehavior", {**behaviour, "browserContextId": context})
        return context

    def page(self, context: str, before: Callable[[Page], None] | None = None) -> Page:
        target = self.wire.ask(
            "Target.createTarget", {"url": "about:blank", "browserContextId": context}
        )
        attached = self.wire.ask(
            "Target.attachToTarget", {"targetId": target["targetId"], "flatten": True}
        )
        page = Page(self.wire, str(attached["sessionId"]))
        page.ask("Page.enable")
        page.ask("Runtime.enable")
        page.ask("Page.addScriptToEvaluateOnNewDocument", source=RECORD_POLICY)
        if before is not None:
            before(page)
        page.resize(1440, 900)
        return page

    def forget_contexts(self) -> None:
        for context in self.contexts:
            self.wire.ask("Target.disposeBrowserContext", {"browserContextId": context})
        self.contexts.clear()


@contextmanager
def running_browser(executable: str, home: Path) -> Iterator[Browser]:
    """Start Chromium without a window; it ends with the block."""
    process = subprocess.Popen(
        [
            executable,
            "--headless=new",
            "--no-sandbox",  # containers have no user namespaces; it opens pages of ours alone
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--no-first-run",
            "--remote-debugging-port=0",
            f"--user-data-dir={home}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with connect(_address(home, process), max_size=None, proxy=None) as socket:
            yield Browser(Wire(socket))
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def _address(home: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the address of the DevTools socket, which Chromium writes to a file."""
    file = home / "DevToolsActivePort"

    def lines() -> list[str]:
        if process.poll() is not None:
            raise BrowserError(f"Chromium ended with {process.returncode}")
        found = file.read_text().splitlines() if file.exists() else []
        return found if len(found) == 2 else []

    port, path = eventually(lines, START_SECONDS, "Chromium listens")
    return f"ws://127.0.0.1:{port}{path}"
