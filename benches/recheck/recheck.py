#!/usr/bin/env python3
"""Independent recheck of Weir: random runs through its emulator, judged by captures at both ends.

Needs root, iproute2, ethtool and tcpdump; for the page a Chromium. Makes network namespaces of its own and removes
them, also at Ctrl-C. Exit codes: 0 nothing deviates, 1 something does, 2 bad usage, 130 interrupted.
"""
import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

import browser
import checks
import draw
import path as network
import table
from path import ADDRESSES, write_json

API = "http://127.0.0.1:9348/api/v1"
PAGE = "http://127.0.0.1:9348/#/runs/"
READ_PAGE = """JSON.stringify({
  tables: [...document.querySelectorAll("main table")].map(t => ({
    caption: t.caption ? t.caption.textContent : "",
    head: [...t.querySelectorAll("thead th")].map(c => c.textContent.trim()),
    rows: [...t.querySelectorAll("tbody tr")].map(r => [...r.children].map(c => c.textContent.trim()))})),
  terms: [...document.querySelectorAll("main dt")].map(t => [t.textContent.trim(),
    t.nextElementSibling ? t.nextElementSibling.textContent.trim() : ""])})"""


class Interrupted(BaseException):
    """SIGINT or SIGTERM."""


class Series:
    """What all runs share: the path, a directory of kept runs, the API's server and a browser."""

    def __init__(self, weir, path, state, page):
        self.weir, self.path, self.state, self.with_page = weir, path, state, page
        self.environment = {**os.environ, "WEIR_DATA_DIR": os.path.join(state, "data"),
                            "XDG_DATA_HOME": os.path.join(state, "share"),
                            "WEIR_CONFIG_DIR": os.path.join(state, "config"),
                            "WEIR_RUNTIME_DIR": os.path.join(state, "run"), "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        for name in ("data", "share", "config", "run"):
            os.makedirs(os.path.join(state, name), mode=0o700)
        self.browser = None
        self.server = None

    def __enter__(self):
        self.server = self.path.start("a", [self.weir, "serve", "--ui"], os.path.join(self.state, "ui"),
                                      self.environment)
        self.server.wait_for("page and API")
        if self.with_page:
            self.browser = browser.Browser(self.path.namespace("a")).__enter__()
        return self

    def __exit__(self, *_):
        if self.browser:
            self.browser.__exit__()
        if self.server:
            self.path.end(self.server, first=signal.SIGTERM)

    def command(self, *words, seconds=60):
        """A weir command at host a; its output."""
        done = subprocess.run(["ip", "netns", "exec", self.path.namespace("a"), self.weir, *words],
                              capture_output=True, text=True, timeout=seconds, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"weir {' '.join(words)}: exit code {done.returncode}: {done.stderr[-400:]}")
        return done.stdout

    def ask(self, route, body=None):
        """A request to the API; its answer as text."""
        words = ["curl", "-sS", "--max-time", "20", API + route]
        if body is not None:
            words += ["--json", json.dumps(body)]
        return self.path.inside("a", *words)


def collect(series, given, directory):
    """Makes one run, and keeps all that is known of it as files in `directory`."""
    path = series.path
    os.makedirs(directory)
    write_json(os.path.join(directory, "given.json"), given)

    def file(name):
        return os.path.join(directory, name)

    def keep(name, text):
        with open(file(name), "w") as out:
            out.write(text)

    keep("impair.toml", draw.impairment(given))
    facts = {"mac": {n: path.mac[n].hex() for n in "ab"}, "captures": {}, "errors": "", "exit_code": None}
    host = ADDRESSES["b"][0 if given["family"] == 4 else 1]
    snap = 65535 if given["kind"].startswith("corrupt") else 128
    captures = {n: path.capture(n, directory, snap) for n in "ab"}
    impair = server = None
    facts["emulator"] = [time.time_ns()]  # started, ready, stopped
    try:
        impair = path.start("m", [series.weir, "impair", "e0", "e1", "--config", file("impair.toml"), "--json"],
                            file("impair.json"), series.environment)
        impair.wait_for("control socket")
        facts["emulator"].append(time.time_ns())
        server = path.start("b", [series.weir, "serve"], file("serve"), series.environment)
        server.wait_for("listening")
        before = {n: path.kernel_counters(n) for n in "ab"}
        clock = network.monotonic_reading()
        run_id = measure(series, given, host, directory, facts)
        time.sleep(0.5)  # what is still on its way
        facts["clocks"] = [clock, network.monotonic_reading()]
        facts["counters"] = {n: network.subtract(path.kernel_counters(n), before[n]) for n in "ab"}
    finally:
        for program in (server, impair):
            if program is impair:
                facts["emulator"].append(time.time_ns())
            if program is not None and program in path.programs:
                path.end(program)
        time.sleep(1.2)  # a capture holds frames back for up to a second
        for program in captures.values():
            path.end(program)
        for node, program in captures.items():
            captured, dropped = network.capture_losses(program.errors())
            facts["captures"][node] = {"captured": captured, "dropped": dropped}
        write_json(file("facts.json"), facts)
    if run_id is not None:
        outputs_of(series, run_id, keep, file)


def measure(series, given, host, directory, facts):
    """Runs the test, by command or by API; the id of the stored run, None without one."""
    def file(name):
        return os.path.join(directory, name)

    known = {r["id"] for r in json.loads(series.ask("/runs")).get("runs", [])}
    limit = given["seconds"] * 3 + 40
    if given["mode"] == "page":
        measure_by_api(series, given, host, file, facts, limit)
    else:
        words = [series.weir, "test", host, *given["flags"], "--csv", file("live.csv")]
        words += {"text": [], "json": ["--json"], "json-stream": ["--json-stream"]}[given["mode"]]
        test = series.path.start("a", words, file("test"), series.environment)
        try:
            facts["exit_code"] = test.process.wait(limit)
        except subprocess.TimeoutExpired:
            facts["exit_code"] = None
        series.path.end(test)
        facts["errors"] = test.errors()
    new = [r["id"] for r in json.loads(series.ask("/runs")).get("runs", []) if r["id"] not in known]
    return new[0] if new else None


def measure_by_api(series, given, host, file, facts, limit):
    series.command("test", *given["flags"], "--save-plan", file("plan.toml"))
    with open(file("plan.toml"), "rb") as plan_file:
        plan = tomllib.load(plan_file)
    listener = series.path.start("a", ["curl", "-sN", "--max-time", str(int(limit)),
                                       f"{API}/events?topics=tests"], file("events"))
    listener.wait_for("hello")
    answer = json.loads(series.ask("/tests", {"host": host, "plan": plan}))
    if "id" not in answer:
        facts.update(exit_code=2, errors=json.dumps(answer))
        return
    until = time.monotonic() + limit
    while time.monotonic() < until:
        state = json.loads(series.ask(f"/tests/{answer['id']}"))
        if state.get("state") not in ("starting", "running", "stopping"):
            break
        time.sleep(0.5)
    facts.update(exit_code=state.get("exit_code"), errors=json.dumps(state.get("error", "")))
    with open(file("api-record.json"), "w") as out:
        out.write(series.ask(f"/tests/{answer['id']}/record"))
    series.path.end(listener, first=signal.SIGTERM)


def outputs_of(series, run_id, keep, file):
    """Every other rendering of the stored run."""
    keep("record.json", series.command("runs", "show", run_id, "--json"))
    keep("show.txt", series.command("runs", "show", run_id))
    keep("show-v.txt", series.command("runs", "show", run_id, "-V"))
    keep("export.csv", series.command("runs", "export", run_id, "--format", "csv"))
    keep("report.html", series.command("report", run_id, "-o", "-"))
    keep("report.md", series.command("report", run_id, "--format", "md", "-o", "-"))
    series.command("report", run_id, "--format", "csv", "-o", file("figures"))
    keep("api-run.json", series.ask(f"/runs/{run_id}"))
    for form in ("json", "csv", "html"):
        keep(f"api-report.{form}", series.ask(f"/runs/{run_id}/report?format={form}"))
    if series.browser:
        for attempt in range(2):
            try:
                keep("page.json", json.dumps(read_page(series.browser, run_id)))
                return
            except RuntimeError as error:
                print(f"page of {run_id}: {error}; another browser is started", file=sys.stderr)
                series.browser.__exit__()
                series.browser = browser.Browser(series.path.namespace("a")).__enter__()
        raise RuntimeError("the page could not be read")


def read_page(window, run_id):
    """Tables and terms of the run's page, with the values of its charts."""
    began = time.monotonic()
    window.open(PAGE + run_id)
    ready = f"document.querySelector('main') && document.querySelector('main').innerText.includes('{run_id}')" \
            " && document.querySelectorAll('main dt').length > 3" \
            " && document.querySelectorAll('main figure, main details').length > 0"
    window.wait_until(ready)
    window.evaluate("document.querySelectorAll('main details').forEach(d => d.open = true)")
    window.wait_until("[...document.querySelectorAll('main details tbody')].some(b => b.children.length)", 5)
    time.sleep(0.3)
    value = json.loads(window.evaluate(READ_PAGE))
    value["seconds_until_read"] = time.monotonic() - began
    window.close()
    return value


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", help="the program under test")
    parser.add_argument("--runs", type=int, default=30, help="number of runs [default: 30]")
    parser.add_argument("--seed", type=int, default=1, help="seed of all parameters [default: 1]")
    parser.add_argument("--out", required=True, help="directory of the results")
    parser.add_argument("--only", help="only these runs of the series, such as 3,17")
    parser.add_argument("--judge", action="store_true",
                        help="make no runs: judge those that are kept in --out (with --keep-captures)")
    parser.add_argument("--keep-captures", action="store_true", help="keep the captures of all runs")
    parser.add_argument("--no-page", action="store_true", help="do not read the page with a browser")
    parser.add_argument("--list", action="store_true", help="print the parameters of the runs, and end")
    given = parser.parse_args()
    if not given.judge and not given.list and not given.weir:
        parser.error("--weir is required")
    return given


def main():
    options = arguments()
    numbers = [int(n) - 1 for n in options.only.split(",")] if options.only else range(options.runs)
    drawn = []
    for number in numbers:
        given = draw.parameters(options.seed, number)
        given["words"] = draw.in_words(given)
        drawn.append(given)
    if options.list:
        for given in drawn:
            print(given["number"], given["words"])
        return 0
    rows, runs = [], []
    begun = time.monotonic()
    about = {"seed": options.seed, "kernel": platform.release(), "processors": os.cpu_count(),
             "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())}
    try:
        if options.judge:
            for given in drawn:
                directory = os.path.join(options.out, f"run-{given['number']:03}")
                if os.path.exists(os.path.join(directory, "facts.json")):
                    judge(directory, given, rows, runs, 0.0)
        else:
            make_runs(options, drawn, rows, runs, about)
    finally:
        if runs:
            about["time"] = f"{time.monotonic() - begun:.0f} s for {len(runs)} runs"
            table.write(options.out, rows, runs, about)
            report(rows, options.out)
    return 1 if any(row[9] == "no" for row in rows) else 0


def make_runs(options, drawn, rows, runs, about):
    network.required_programs()
    weir = os.path.abspath(options.weir)
    about["program"] = subprocess.run([weir, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    page = not options.no_page and browser.program() is not None
    about["page"] = "read with a browser" if page else "not read"
    state = tempfile.mkdtemp(prefix="recheck-")
    try:
        with network.Path() as path, Series(weir, path, state, page) as series:
            for given in drawn:
                began = time.monotonic()
                directory = os.path.join(options.out, f"run-{given['number']:03}")
                shutil.rmtree(directory, ignore_errors=True)
                try:
                    collect(series, given, directory)
                except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
                    print(f"run {given['number']}: {error}", file=sys.stderr)
                    rows.append([given["number"], given["words"], "test", "run", "", None, None, None, None, "unread",
                                 str(error)[:300]])
                judge(directory, given, rows, runs, time.monotonic() - began)
                own = [row for row in rows if row[0] == given["number"]]
                if not options.keep_captures and all(row[9] == "yes" for row in own):
                    for node in "ab":
                        os.remove(os.path.join(directory, f"{node}.pcap"))
    finally:
        shutil.rmtree(state, ignore_errors=True)


def judge(directory, given, rows, runs, took):
    began = time.monotonic()
    own = []
    if os.path.exists(os.path.join(directory, "record.json")) or took and \
            os.path.exists(os.path.join(directory, "facts.json")):
        try:
            own = checks.judge(directory)
        except (ValueError, KeyError, OSError) as error:
            own = [[given["number"], given["words"], "test", "run", "", None, None, None, None, "unread", repr(error)]]
    rows += own
    runs.append({"number": given["number"], "words": given["words"], "took": took + time.monotonic() - began})
    bad, unread = (sum(row[9] == kind for row in own) for kind in ("no", "unread"))
    print(f"run {given['number']}: {len(own)} figures, {bad} deviate, {unread} unread "
          f"({took:.0f} s + {time.monotonic() - began:.1f} s) {given['words']}", flush=True)


def report(rows, out):
    bad = [row for row in rows if row[9] == "no"]
    print(f"{len(rows)} figures compared, {len(bad)} deviate, {sum(r[9] == 'unread' for r in rows)} unread; "
          f"tables in {out}")


def interrupt(*_):
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, signal.SIG_IGN)  # a second one would leave things behind
    raise Interrupted


if __name__ == "__main__":
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(main())
    except Interrupted:
        sys.exit(130)
    except (RuntimeError, OSError) as error:
        sys.exit(f"recheck: {error}")
