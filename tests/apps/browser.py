"""A page in Chromium, driven through its pipe (`--remote-debugging-pipe`): no driver, no port, no package.

with open_browser() as browser:
    page = browser.open("http://127.0.0.1:8000/", dark=True, width=400)
    page.press("Enter"); page.text("#sentence"); page.run("document.title"); page.screenshot(path)
"""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, which is not installed")
CODES = {"Enter": 13, "Escape": 27, "Delete": 46, "ArrowLeft": 37, "ArrowRight": 39, "Backspace": 8, "Tab": 9}
SECONDS = 60.0


class Browser:
    """The pipe to a running Chromium."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._ids, self._rest = to, back, itertools.count(1), b""
        self.events: list[dict] = []

    def call(self, method: str, session: str | None = None, **given):
        """The result of a command; `RuntimeError` where Chromium refuses it."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": given, **({"sessionId": session} if session else {})}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            found = self._next(until)
            if found.get("id") == number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return found["result"]
            self.events.append(found)
        raise TimeoutError(method)

    def open(self, address: str, *, dark: bool = False, width: int = 1280, height: int = 800) -> "Page":
        """A new tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network"):
            page.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.call("Page.navigate", url=address)
        return page

    def _next(self, until: float) -> dict:
        while b"\0" not in self._rest:
            if not select.select([self._back], [], [], max(0, until - time.monotonic()))[0]:
                raise TimeoutError("chromium does not answer")
            self._rest += os.read(self._back, 1 << 20)
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)


class Page:
    """A tab."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target

    def call(self, method: str, **given):
        return self.browser.call(method, self.session, **given)

    def run(self, script: str):
        """The value of a JavaScript expression; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def wait(self, script: str, seconds: float = SECONDS):
        """Wait until an expression is true; returns its value."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if value := self.run(f"(v => v instanceof Element ? true : v)({script})"):
                return value
            time.sleep(0.05)
        raise TimeoutError(f"{script} did not become true: {self.run('document.body.innerText')}")

    def text(self, selector: str) -> str:
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def press(self, *keys: str, shift: bool = False, control: bool = False) -> None:
        """Keys, each pressed and released."""
        for key in keys:
            code = CODES.get(key, ord(key.upper()) if len(key) == 1 else 0)
            given = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 * shift + 2 * control}
            typed = {"text": key} if len(key) == 1 and not control else {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **given, **typed)
            self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def write(self, text: str) -> None:
        """Text into what has the focus."""
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        self.drag(selector, selector)

    def drag(self, start: str, stop: str) -> None:
        """The mouse pressed on one element and released on another."""
        places = [self._middle(selector) for selector in (start, stop)]
        self._mouse("mousePressed", places[0])
        self._mouse("mouseMoved", places[1])
        self._mouse("mouseReleased", places[1])

    def _middle(self, selector: str) -> tuple[float, float]:
        box = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{box}.scrollIntoView({{block: 'nearest'}})")
        found = self.run(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({box}.getClientRects()[0])")
        return found[0], found[1]

    def _mouse(self, kind: str, place: tuple[float, float]) -> None:
        pressed = {"buttons": 0 if kind == "mouseReleased" else 1, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], **pressed)

    def screenshot(self, path: Path) -> None:
        """The window as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def addresses(self) -> set[str]:
        """Everything that the page asked for."""
        self.run("1")
        sent = [e for e in self.browser.events if e.get("method") == "Network.requestWillBeSent"]
        return {e["params"]["request"]["url"] for e in sent if e.get("sessionId") == self.session}

    def errors(self) -> list[str]:
        """What went wrong in its scripts."""
        self.run("1")
        thrown = [e for e in self.browser.events if e.get("method") == "Runtime.exceptionThrown"]
        return [e["params"]["exceptionDetails"]["text"] for e in thrown if e.get("sessionId") == self.session]

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)


@contextlib.contextmanager
def open_browser():
    """A Chromium without a window, which ends with the block."""
    assert CHROMIUM is not None
    (theirs, to), (back, mine) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        flags += ["--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={folder}"]
        script = f'exec "$0" "$@" 3<&{theirs} 4>&{mine}'
        command = ["bash", "-c", script, CHROMIUM, *flags, "about:blank"]
        process = subprocess.Popen(command, pass_fds=(theirs, mine), stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(mine)
        try:
            yield Browser(to, back)
        finally:
            process.kill()
            process.wait()
            os.close(to)
            os.close(back)
