"""A headless Chromium that tests look at pages with, driven over a pipe by its DevTools protocol."""

import base64
import fcntl
import json
import os
import shutil
import signal
import time
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("google-chrome")
CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
BOX = """(element) => {
  element.scrollIntoView();
  const { left, top, right, bottom } = element.getBoundingClientRect();
  const x = Math.max(left, 0), y = Math.max(top, 0);
  return { x, y, width: Math.min(right, innerWidth) - x, height: Math.min(bottom, innerHeight) - y };
}"""
_PATIENCE = 60
"""Seconds until an answer, or what a test waits for, is missed."""


class Browser:
    """One process of Chromium; ``open`` gives a page in it. Close it after use."""

    def __init__(self, profile):
        """``profile``: a folder of its own that it may write to."""
        command = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}"]
        command += ["--remote-debugging-pipe", "about:blank"]
        (commands, self._write), (self._read, answers) = os.pipe(), os.pipe()
        given = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, answers)]
        # It reads commands from file descriptor 3 and answers on 4.
        becomes = [(os.POSIX_SPAWN_DUP2, end, number) for end, number in zip(given, (3, 4), strict=True)]
        becomes += [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
        self._process = os.posix_spawn(PROGRAM, command, os.environ, file_actions=becomes)
        for end in (commands, answers, *given):
            os.close(end)
        self._unread, self._last, self._answers = b"", 0, {}
        self.events = []

    def open(self, path, dark=False, width=1280):
        """A page of this file, loaded, in a window of ``width`` pixels; its reader prefers light or dark."""
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session)
        self._listen(session)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        page.send("Emulation.setDeviceMetricsOverride", size)
        page.theme(dark)
        page.go(path)
        return page

    def send(self, method, params=None, session=None):
        """The result of a command."""
        number = self._post(method, params, session)
        while number not in self._answers:
            self._hear()
        answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _post(self, method, params=None, session=None):
        self._last += 1
        message = {"id": self._last, "method": method, "params": params or {}}
        message |= {"sessionId": session} if session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._last

    def _listen(self, session):
        """Be told what happens in a page or a frame, and in the frames that it opens."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._post(f"{domain}.enable", session=session)
        attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        self._post("Target.setAutoAttach", attach, session)
        self._post("Runtime.runIfWaitingForDebugger", session=session)

    def _hear(self):
        while b"\0" not in self._unread:
            chunk = os.read(self._read, 1 << 20)
            assert chunk, "Chromium has ended"
            self._unread += chunk
        text, _, self._unread = self._unread.partition(b"\0")
        message = json.loads(text)
        if "id" in message:
            self._answers[message["id"]] = message
            return
        self.events.append(message)
        if message["method"] == "Target.attachedToTarget" and "sessionId" in message:
            self._listen(message["params"]["sessionId"])

    def close(self):
        os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        os.close(self._write)
        os.close(self._read)


class Page:
    """A page in a browser: what is in it, what it says of errors, and what it asks the network for."""

    def __init__(self, browser, session):
        self._browser, self._session, self._first = browser, session, len(browser.events)

    def send(self, method, params=None):
        return self._browser.send(method, params, self._session)

    def go(self, path):
        """Show another file, and wait until it is loaded."""
        self.send("Page.navigate", {"url": path.as_uri()})
        self.wait(f"document.readyState === 'complete' && location.href === {json.dumps(path.as_uri())}")

    def theme(self, dark):
        """The theme that the reader prefers."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", {"features": [feature]})

    def run(self, script):
        """The value of an expression of JavaScript, as JSON has it."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.send("Runtime.evaluate", asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition):
        """Until an expression is true."""
        end = time.monotonic() + _PATIENCE
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"missed: {condition}"
            time.sleep(0.02)

    def least_contrast(self):
        """The text with the least contrast to its background, that contrast (WCAG 2), the number of texts."""
        return self.run(f"({CONTRAST})()")

    def picture(self, element):
        """What is in the window of an element, as a PNG file's bytes."""
        box = self.run(f"({BOX})({element})")
        answer = self.send("Page.captureScreenshot", {"clip": {**box, "scale": 1}})
        return base64.b64decode(answer["data"])

    def errors(self):
        """Exceptions of scripts, and errors in the console, since the page was opened."""
        found = []
        for event in self._browser.events[self._first :]:
            said = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(said["exceptionDetails"])
            elif event["method"] == "Runtime.consoleAPICalled" and said["type"] in ("error", "assert"):
                found.append([one.get("value", one.get("description")) for one in said["args"]])
            elif event["method"] == "Log.entryAdded" and said["entry"]["level"] == "error":
                found.append(said["entry"]["text"])
        return found

    def requests(self):
        """The addresses outside of the page itself that were asked for since it was opened."""
        asked = (
            event["params"]["request"]["url"]
            for event in self._browser.events[self._first :]
            if event["method"] == "Network.requestWillBeSent"
        )
        return [url for url in asked if not url.startswith(("file:", "data:", "about:", "blob:"))]
