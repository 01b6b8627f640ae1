#!/usr/bin/env python3
"""Opens a page of `weir report` in a headless Chromium and looks at it as a reader would.

    report_browser.py CHROMIUM PAGE [PICTURES]

Checked: nothing is complained of on the console, nothing is asked of the network, every table sorts both ways with what
was not measured at the end, light and dark differ, nothing but tables and charts scrolls sideways on a wide and on a
narrow screen, it prints, and it is there without script. Into the directory PICTURES go screenshots. Exit: 0 all hold,
1 each breach is named on stderr, 3 the browser does not start.
"""

import base64
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

# Ends a browser that hangs; a good one answers within seconds.
LIMIT = 120
# Height of a piece of a screenshot.
PIECE = 1200

SORT = """
(() => {
  const wrong = [];
  const value = (row, n) => {
    const cell = row.cells[n];
    if (!cell || cell.title === "not measured") return null;
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  let columns = 0;
  for (const table of document.querySelectorAll("table.sortable")) {
    const feet = table.tFoot ? table.tFoot.textContent : "";
    const rows = table.tBodies[0].rows.length;
    const before = [...table.tBodies[0].rows].map((r) => r.textContent).sort().join();
    [...table.tHead.rows[0].cells].forEach((head, n) => {
      const button = head.querySelector("button");
      if (!button) { wrong.push(head.textContent + ": no button"); return; }
      const seen = [];
      for (let click = 0; click < 2; click++) {
        button.click();
        const order = head.getAttribute("aria-sort");
        seen.push(order);
        const values = [...table.tBodies[0].rows].map((r) => value(r, n));
        const measured = values.filter((v) => v !== null);
        if (values.slice(0, measured.length).includes(null)) wrong.push(head.textContent + ": not measured is not last");
        for (let i = 1; i < measured.length; i++) {
          const [a, b] = [measured[i - 1], measured[i]];
          const up = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
          if (order === "ascending" ? up > 0 : up < 0) wrong.push(head.textContent + ": " + a + " before " + b + " " + order);
        }
      }
      if (seen.sort().join() !== "ascending,descending") wrong.push(head.textContent + ": " + seen);
      columns++;
    });
    if (table.tBodies[0].rows.length !== rows) wrong.push("rows came or went");
    if ([...table.tBodies[0].rows].map((r) => r.textContent).sort().join() !== before) wrong.push("cells changed");
    if ((table.tFoot ? table.tFoot.textContent : "") !== feet) wrong.push("sums moved");
  }
  return JSON.stringify({ wrong, columns });
})()
"""

LOOK = """
JSON.stringify({
  background: getComputedStyle(document.body).backgroundColor,
  line: getComputedStyle(document.querySelector("h2")).borderTopColor,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  charts: [...document.querySelectorAll("svg")].filter((s) => s.getBoundingClientRect().height > 50 && s.getAttribute("role") === "img" && s.querySelector("title") && s.querySelector("desc")).length,
  drawings: document.querySelectorAll("svg").length,
  named: [...document.querySelectorAll("[aria-labelledby]")].every((e) => e.getAttribute("aria-labelledby").split(" ").every((id) => document.getElementById(id))),
  twice: [...document.querySelectorAll("[id]")].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i),
})
"""


class Browser:
    """A Chromium spoken to through a pipe, with a profile that is gone afterwards."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="weir-report-", ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.out, from_write = os.pipe()

        words = [program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}",
                 "--no-first-run", "--no-default-browser-check", "--disable-gpu", "--disable-dev-shm-usage",
                 "--disable-extensions", "--disable-background-networking", "--disable-component-update",
                 "--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars", "--force-color-profile=srgb"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")
        # The browser reads from descriptor 3 and writes to 4, whatever the pipes' own numbers are.
        start = "import os, sys; a, b = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2])); os.dup2(a, 3); os.dup2(b, 4); os.execvp(sys.argv[3], sys.argv[3:])"
        self.process = subprocess.Popen([sys.executable, "-c", start, str(to_read), str(from_write), *words],
                                        pass_fds=(to_read, from_write), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=os.environ | {"HOME": self.profile.name})
        os.close(to_read)
        os.close(from_write)
        self.rest, self.number, self.session, self.events = b"", 0, None, []
        self.until = time.monotonic() + LIMIT

    def message(self):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.out], [], [], max(0.0, self.until - time.monotonic()))
            data = os.read(self.out, 1 << 20) if ready else b""
            if not data:
                raise OSError("the browser is gone or too slow")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, address):
        seen = len(self.events)
        self.call("Page.navigate", url=address)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events[seen:]):
            self.events.append(self.message())

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise OSError(f"script: {result['exceptionDetails']}")
        return result["result"].get("value")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.out)
        self.profile.cleanup()


def picture(browser, path, wide, scheme, media="screen"):
    browser.call("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setDeviceMetricsOverride", width=wide, height=900, deviceScaleFactor=1, mobile=wide < 600)
    look = json.loads(browser.evaluate(LOOK))
    if path:
        # In pieces that can be looked at.
        height = browser.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
        for piece in range(min(12, -(-int(height) // PIECE))):
            clip = {"x": 0, "y": piece * PIECE, "width": wide, "height": min(PIECE, height - piece * PIECE), "scale": 1}
            data = browser.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
            path.with_name(f"{path.name}-{piece}.png").write_bytes(base64.b64decode(data))
    return look


def look_at(browser, page, pictures):
    wrong = []
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
        browser.call(f"{domain}.enable")
    address = page.resolve().as_uri()
    browser.open(address)
    shot = lambda name: pictures / name if pictures else None
    light = picture(browser, shot("light"), 1280, "light")
    dark = picture(browser, shot("dark"), 1280, "dark")
    narrow = picture(browser, shot("narrow"), 390, "light")
    # 182 mm of A4 at 96 dots per inch. A dark screen prints on white paper.
    paper = picture(browser, shot("paper"), 688, "dark", "print")
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    if paper["background"] != light["background"]:
        wrong.append(f"printed on {paper['background']}")
    for name, look in (("light", light), ("dark", dark), ("narrow", narrow)):
        if look["wide"] > 0:
            wrong.append(f"{name}: {look['wide']} px wider than the screen")
        if look["charts"] != look["drawings"]:
            wrong.append(f"{name}: {look['charts']} of {look['drawings']} charts are drawn and named")
        if not look["named"] or look["twice"]:
            wrong.append(f"{name}: ids: {look['twice'] or 'one is missing'}")
    if light["background"] == dark["background"] or light["line"] == dark["line"]:
        wrong.append(f"light and dark are alike: {light['background']}, {light['line']}")
    sorted_columns = json.loads(browser.evaluate(SORT))
    wrong += sorted_columns["wrong"]
    if not sorted_columns["columns"]:
        wrong.append("no table sorts")
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    if pictures:
        (pictures / "print.pdf").write_bytes(pdf)
    if not pdf.startswith(b"%PDF") or len(pdf) < 10_000:
        wrong.append(f"printed to {len(pdf)} bytes")
    # Asked of the document itself: a page without script can't be asked by script.
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(address)
    root = browser.call("DOM.getDocument")["root"]["nodeId"]
    count = lambda selector: len(browser.call("DOM.querySelectorAll", nodeId=root, selector=selector)["nodeIds"])
    if count("th button") or not count("tbody tr") or count("svg") != light["drawings"]:
        wrong.append("without script the page differs")
    for event in browser.events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown" or method == "Log.entryAdded" or method == "Runtime.consoleAPICalled":
            wrong.append(f"console: {json.dumps(parameters)[:500]}")
        if method == "Network.requestWillBeSent" and parameters["request"]["url"] != address:
            wrong.append(f"asked of the network: {parameters['request']['url'][:200]}")
    print(f"{light['charts']} charts, {sorted_columns['columns']} columns sorted, {len(pdf)} bytes printed")
    return wrong


def main():
    program, page = sys.argv[1], pathlib.Path(sys.argv[2])
    pictures = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    try:
        browser = Browser(program)
        browser.call("Browser.getVersion")
    except OSError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 3
    try:
        wrong = look_at(browser, page, pictures)
    finally:
        browser.close()
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
