#!/usr/bin/env python3
"""Judges weir's speed against bare programs and other tools, as ratios within interleaved rounds.

    benches/bench.py                      everything
    benches/bench.py --only udp-merged    groups or scenarios whose name starts so (may be repeated)
    benches/bench.py --list               what there is
    benches/bench.py --before PROGRAM     this weir against an earlier one instead: each figure at least 0.95 of it

A bar is met when the lower 95 % bootstrap bound of the median pairwise ratio passes it, missed when the upper bound
fails it, else undecided: after 15 rounds undecided scenarios go on, to 45 rounds or the end of the time budget.
Runs disturbed by steal time are repeated. Raw samples and the host's description go to benchruns/<date-host>/.
Exit: 0 no bar missed, 1 a bar missed, 2 usage, 4 not root or a program lacking, 5 a bar undecided, 130 interrupted.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import judge, lab, middle, scenarios, tools  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEAL_BOUND = 0.01
REPEATS = 2
SCREENING_ROUNDS = 3
FAILURES_MOST = 5


def first_line(*words):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5)
        return (done.stdout or done.stderr).strip().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return None


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def host_description(arguments):
    """What a reader of the raw results must know of the machine; a part that can't be read is absent."""
    model = next((line.split(":", 1)[1].strip() for line in (read("/proc/cpuinfo") or "").splitlines() if line.startswith("model name")), None)
    packages = ("iperf3", "iperf", "nuttcp", "d-itg", "mgen", "sockperf", "tcpreplay")
    facts = {
        "host": platform.node(), "kernel": platform.release(), "machine": platform.machine(), "cpu_model": model, "cores": os.cpu_count(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "clocksource": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "virtual": first_line("systemd-detect-virt"),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "load_average_at_start": list(os.getloadavg()),
        "sysctls": {name: read("/proc/sys/" + name.replace(".", "/")) for name in ("net.core.rmem_max", "net.core.rmem_default", "net.core.wmem_max")},
        "packages": {p: v for p in packages if (v := first_line("dpkg-query", "-W", "-f", "${Version}", p)) and not v.startswith("dpkg-query")},
        "iperf3_new": first_line(arguments.iperf3_new, "--version") if arguments.iperf3_new else None,
        "weir": first_line(arguments.weir, "--version"),
        "commit": first_line("git", "-C", ROOT, "rev-parse", "--short", "HEAD"),
        "compiler": first_line("cc", "--version"),
    }
    return {key: value for key, value in facts.items() if value is not None}


def processor_ticks():
    fields = [int(f) for f in read("/proc/stat").splitlines()[0].split()[1:9]]
    return sum(fields), fields[7]


class Bench:
    def __init__(self, place, contenders, arguments):
        self.place, self.tools, self.arguments = place, contenders, arguments
        self.failures = {}

    def sample(self, name, scenario):
        """One sample, repeated when steal time disturbed it; None when the tool failed (told once, counted)."""
        if self.failures.get(name, 0) >= FAILURES_MOST:
            return None
        for attempt in range(REPEATS + 1):
            total, steal = processor_ticks()
            try:
                found = tools.run(self.place, self.tools[name], scenario.values, self.arguments.seconds)
            except (lab.RunFailed, KeyError, ValueError, OSError) as error:
                self.failures[name] = self.failures.get(name, 0) + 1
                print(f"  {scenario.name}: {name}: {error}", file=sys.stderr)
                return None
            after_total, after_steal = processor_ticks()
            found["steal_ratio"] = (after_steal - steal) / max(1, after_total - total)
            if found["steal_ratio"] <= STEAL_BOUND:
                return found
        found["disturbed"] = True
        return found

    def screened(self, scenario):
        """The scenario's rules with every Best replaced by Ratios against its two best rivals, and the screening's medians."""
        rules, medians = [], {}
        for rule in scenario.rules:
            if not isinstance(rule, scenarios.Best):
                rules.append(rule)
                continue
            if rule.a not in self.tools:
                continue
            rivals = [r for r in rule.rivals if r in self.tools]
            for rival in rivals:
                if rival not in medians:
                    got = [s[rule.metric] for _ in range(SCREENING_ROUNDS) if (s := self.sample(rival, scenario)) and rule.metric in s]
                    if got:
                        medians[rival] = statistics.median(got)
            ranked = sorted((r for r in rivals if r in medians), key=medians.get, reverse=rule.operator == ">=")
            rules += [scenarios.Ratio(rule.a, rival, rule.metric, rule.bar, rule.operator) for rival in ranked[:2]]
        return rules, medians

    def scenario(self, scenario, deadline):
        """Runs rounds until every bar is decided, 45 are done or the time is up; yields the result after each round."""
        self.place.offloads(scenario.merged)
        rules, screening = self.screened(scenario)
        rules = [r for r in rules if r.a in self.tools and getattr(r, "b", r.a) in self.tools]
        names = list(dict.fromkeys(n for r in rules for n in (r.a, getattr(r, "b", r.a))))
        rounds = []
        result = {"scenario": scenario.name, "merged": scenario.merged, "values": scenario.values, "screening_medians": screening,
                  "rounds": rounds, "rows": []}
        yield result
        while names and len(rounds) < self.arguments.most:
            if len(rounds) >= self.arguments.least:
                judged = [row for row in result["rows"] if row["bar"] is not None]
                if all(row["verdict"] != "undecided" for row in judged):
                    break
                if time.monotonic() > deadline:
                    break
            # Forward and back in turn: a drift of the machine weighs on both sides of a ratio alike.
            order = names if len(rounds) % 2 == 0 else names[::-1]
            rounds.append({name: s for name in order if (s := self.sample(name, scenario))})
            if not rounds[-1] and len(rounds) >= 3 and not any(rounds):
                break
            result["rows"] = [row(rule, rounds) for rule in rules]
            yield result


def row(rule, rounds):
    """One line of the table: a rule and its verdict so far."""
    good = [{n: s for n, s in r.items() if not s.get("disturbed")} for r in rounds]
    b = getattr(rule, "b", None)
    line = {"a": rule.a, "b": b, "metric": rule.metric, "operator": rule.operator, "bar": rule.bar,
            "disturbed": sum(any(r.get(n, {}).get("disturbed") for n in (rule.a, b)) for r in rounds)}
    if b is None:
        values = [r[rule.a][rule.metric] for r in good if rule.metric in r.get(rule.a, {})]
    else:
        pairs = [(r[rule.a][rule.metric], r[b][rule.metric]) for r in good
                 if rule.metric in r.get(rule.a, {}) and rule.metric in r.get(b, {})]
        pairs = [(x, y) for x, y in pairs if y > 0]
        values = [x - y if isinstance(rule, scenarios.Difference) else x / y for x, y in pairs]
        if pairs:
            line["a_median"], line["b_median"] = statistics.median(x for x, _ in pairs), statistics.median(y for _, y in pairs)
    if not values:
        return {**line, "verdict": "undecided" if rule.bar is not None else "info", "pairs": 0}
    if rule.metric in ("lost_packets", "early_seconds"):
        # Loss is counted, not estimated: any at all in any run misses a bar of zero. So with what left before its time.
        return {**line, "verdict": "met" if max(values) <= rule.bar else "missed", "median": max(values), "pairs": len(values)}
    return {**line, **judge.verdict(values, rule.operator, rule.bar)}


def figure(value):
    if value is None:
        return "-"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.2f}{letter}"
    if value != 0 and abs(value) < 0.001:
        return f"{value * 1e6:.2f}u"
    return f"{value:.3f}"


def table(results):
    print(f"{'scenario':<21} {'A':<18} {'B':<26} {'A median':>9} {'B median':>9} {'ratio':>8} {'95 % low':>9} {'95 % high':>9} {'bar':>8} {'n':>3} {'steal':>5}  verdict")
    for result in results:
        for line in result["rows"]:
            bar = "" if line["bar"] is None else f"{line['operator']}{line['bar']:g}"
            metric = line["b"] or line["metric"]
            print(f"{result['scenario']:<21} {line['a']:<18} {metric:<26} {figure(line.get('a_median')):>9} {figure(line.get('b_median')):>9} "
                  f"{figure(line.get('median')):>8} {figure(line.get('lower')):>9} {figure(line.get('upper')):>9} {bar:>8} {line['pairs']:>3} {line['disturbed']:>5}  {line['verdict']}")


def write(directory, group, description, results):
    """Rewritten after every round, by rename: an interrupted bench keeps what it measured."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{group}.json")
    with open(path + ".part", "w") as file:
        json.dump({"schema": "weir.bench/1", "host": description, "results": results}, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def parse_arguments():
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="group, scenario or beginning of one")
    parser.add_argument("--list", action="store_true", help="print groups, scenarios and contenders, run nothing")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one run (1)")
    parser.add_argument("--least", type=int, default=judge.PAIRS_LEAST, help="rounds before a verdict (15)")
    parser.add_argument("--most", type=int, default=judge.PAIRS_MOST, help="rounds at most (45)")
    parser.add_argument("--budget", type=float, default=570.0, metavar="SECONDS", help="no further rounds of a group after this (570)")
    parser.add_argument("--weir", default=os.path.join(target, "release", "weir"), help="the weir program")
    parser.add_argument("--before", metavar="PROGRAM", help="an earlier weir program to compare with, instead of the bars")
    parser.add_argument("--bare", default=os.path.join(target, "bare"), help="directory of the bare programs")
    parser.add_argument("--iperf3-new", default=os.environ.get("IPERF3_NEW"), help="a newer iperf3 (environment IPERF3_NEW)")
    parser.add_argument("--out", help="directory of the raw results (benchruns/<date-host>)")
    arguments = parser.parse_args()
    if not 0.2 <= arguments.seconds <= 60 or not 1 <= arguments.least <= arguments.most:
        parser.error("--seconds takes 0.2 to 60; --least 1 up to --most")
    return arguments


def catalogue(arguments, weir):
    """All contenders with this weir program, and what each absent one lacks."""
    contenders, missing = tools.catalogue(os.path.abspath(arguments.bare), os.path.abspath(weir), arguments.iperf3_new)
    for all_of_them, more in zip((contenders, missing), middle.catalogue()):
        all_of_them.update(more)
    return contenders, missing


class Earlier:
    """A contender run with an earlier weir program."""

    def __init__(self, contender, weir):
        self.contender, self.weir = contender, weir

    def run(self, place, values, seconds):
        current, tools.WEIR = tools.WEIR, self.weir
        try:
            return tools.run(place, self.contender, values, seconds)
        finally:
            tools.WEIR = current


def interrupted(number, _frame):
    raise KeyboardInterrupt(number)


def main():
    arguments = parse_arguments()
    contenders, missing = catalogue(arguments, arguments.weir)
    if arguments.before:
        earlier, absent = catalogue(arguments, arguments.before)
        if not any(map(scenarios.is_weir, earlier)):
            print(f"--before {arguments.before}: {absent.get('weir-tcp', 'not a weir program')}", file=sys.stderr)
            return 2
        contenders |= {scenarios.BEFORE + name: Earlier(contender, os.path.abspath(arguments.before))
                       for name, contender in earlier.items() if scenarios.is_weir(name)}
        tools.WEIR = os.path.abspath(arguments.weir)
    chosen = [s for s in scenarios.scenarios() if not arguments.only or any(s.group == o or s.name.startswith(o) for o in arguments.only)]
    if arguments.before:
        chosen = [s for s in map(scenarios.against_before, chosen) if s.rules]
    if arguments.list:
        for s in chosen:
            print(f"{s.group:<15} {s.name}")
        print("contenders here:", ", ".join(contenders))
        for name, why in missing.items():
            print(f"not here: {name} ({why})")
        return 0
    if not chosen:
        print(f"--only {', '.join(arguments.only)}: no such group or scenario; see --list", file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("namespaces need root: run it as root", file=sys.stderr)
        return 4
    if lacking := [p for p in ("ip", "ethtool") if not shutil.which(p)]:
        print(f"not installed: {', '.join(lacking)} (scripts/ensure.sh bench installs them)", file=sys.stderr)
        return 4
    for name, why in missing.items():
        print(f"left out: {name} ({why})", file=sys.stderr)
    signal.signal(signal.SIGTERM, interrupted)
    description = host_description(arguments)
    directory = arguments.out or os.path.join(ROOT, "benchruns", f"{datetime.date.today()}-{platform.node().split('.')[0] or 'host'}")
    results, code = {}, 0
    try:
        for group in dict.fromkeys(s.group for s in chosen):
            members = [s for s in chosen if s.group == group]
            with (lab.Path if members[0].place == "path" else lab.Lab)() as place:
                bench = Bench(place, contenders, arguments)
                start = time.monotonic()
                for index, scenario in enumerate(members):
                    # Each scenario's share of the group's time, what earlier ones left over included.
                    deadline = start + arguments.budget * (index + 1) / len(members)
                    kept = results.setdefault(group, [])
                    kept.append(None)
                    for result in bench.scenario(scenario, deadline):
                        kept[-1] = result
                        print(f"\r{scenario.name}: round {len(result['rounds'])}   ", end="", file=sys.stderr, flush=True)
                        write(directory, group, description, kept)
                    print(file=sys.stderr)
    except KeyboardInterrupt as stop:
        code = 143 if stop.args == (signal.SIGTERM,) else 130
        print("\ninterrupted; what was measured is kept", file=sys.stderr)
    flat = [r for kept in results.values() for r in kept if r]
    table(flat)
    print(f"raw results: {os.path.relpath(directory)}")
    verdicts = {line["verdict"] for r in flat for line in r["rows"]}
    return code or (1 if "missed" in verdicts else 5 if "undecided" in verdicts else 0)


if __name__ == "__main__":
    sys.exit(main())
