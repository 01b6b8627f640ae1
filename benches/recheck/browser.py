"""A headless Chromium in a namespace, driven by the DevTools protocol over its pipe; no library needed."""
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def program():
    return next((p for p in map(shutil.which, NAMES) if p), None)


class Browser:
    """One tab at a time. A context manager."""

    def __init__(self, namespace):
        self.namespace = namespace

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="recheck-chromium-")
        to_child, self.requests = os.pipe()
        self.answers, from_child = os.pipe()

        def child():
            # The browser reads requests from descriptor 3 and answers on 4.
            high = [os.dup2(to_child, 103), os.dup2(from_child, 104)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        environment = {**os.environ, "HOME": self.profile, "XDG_RUNTIME_DIR": self.profile}
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, program(), "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--window-size=1600,1400",
             f"--user-data-dir={self.profile}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=child, start_new_session=True, env=environment)
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.number, self.session = b"", 0, None
        return self

    def __exit__(self, *_):
        try:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its children, in the group that it leads
        except ProcessLookupError:
            pass
        self.process.wait(5)
        os.close(self.requests)
        os.close(self.answers)
        for _ in range(20):  # a child may still have been writing
            shutil.rmtree(self.profile, ignore_errors=True)
            if not os.path.exists(self.profile):
                break
            time.sleep(0.1)

    def call(self, method, **parameters):
        """One request and its answer; events in between are dropped."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.requests, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + 30
        while True:
            end = self.buffer.find(b"\0")
            if end < 0:
                if not select.select([self.answers], [], [], max(0, until - time.monotonic()))[0]:
                    raise RuntimeError(f"the browser did not answer {method}")
                data = os.read(self.answers, 1 << 16)
                if not data:
                    raise RuntimeError("the browser ended")
                self.buffer += data
                continue
            message, self.buffer = json.loads(self.buffer[:end]), self.buffer[end + 1:]
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error'].get('message')}")
                return message["result"]

    def open(self, address):
        """Opens a new tab; close it, so that its connections to the server end with it."""
        self.tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=self.tab, flatten=True)["sessionId"]
        self.call("Page.navigate", url=address)

    def close(self):
        self.session = None
        self.call("Target.closeTarget", targetId=self.tab)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("text"))
        return result["result"].get("value")

    def wait_until(self, expression, seconds=15):
        """Waits until the expression is true; its last value."""
        until = time.monotonic() + seconds
        while True:
            value = self.evaluate(expression)
            if value or time.monotonic() > until:
                return value
            time.sleep(0.1)

    def screenshot(self, path):
        import base64
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
