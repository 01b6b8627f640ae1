"""What is compared, and the bars. One round of a scenario runs each contender once; ratios are taken within rounds."""

from dataclasses import dataclass, replace

PPS, BPS, LOST = "packets_per_second", "bits_per_second", "lost_packets"
CPU, ROUND_TRIP = "cpu_nanoseconds_per_packet", "round_trip_seconds"
TPS = "transactions_per_second"
DEVIATION, RATE_ERROR = "spacing_deviation_seconds", "rate_error_ratio"


@dataclass(frozen=True)
class Ratio:
    """median(a / b) `operator` bar; without a bar the figure is only told."""

    a: str
    b: str
    metric: str
    bar: float = None
    operator: str = ">="


@dataclass(frozen=True)
class Best:
    """As Ratio, against the best of `rivals`: three rounds screen them, the two best stay for the judged rounds."""

    a: str
    rivals: tuple
    metric: str
    bar: float
    operator: str = ">="


@dataclass(frozen=True)
class Bound:
    """median(a's metric) `operator` bar."""

    a: str
    metric: str
    bar: float
    operator: str = "<="


@dataclass(frozen=True)
class Difference:
    """median(a - b) `operator` bar."""

    a: str
    b: str
    metric: str
    bar: float
    operator: str = "<="


@dataclass(frozen=True)
class Scenario:
    group: str
    name: str
    merged: bool
    values: dict
    rules: tuple
    place: str = "pair"  # or "path": source, middle, destination


# Names the same contender with an earlier weir program.
BEFORE = "before:"
NOT_WORSE = 0.95


def is_weir(name):
    """Whether a contender is a weir program."""
    return name.startswith(("weir-", "impair-", "flows-", "other-only"))


def against_before(scenario):
    """The scenario with one rule for each of its Weir contenders and metrics: not worse than the earlier program."""
    rules = {}
    for rule in scenario.rules:
        for name in (rule.a, getattr(rule, "b", None)):
            if name and is_weir(name) and rule.metric in (PPS, BPS, TPS, CPU, DEVIATION):
                less = rule.metric in (CPU, DEVIATION)
                rules[name, rule.metric] = Ratio(name, BEFORE + name, rule.metric, 1 / NOT_WORSE if less else NOT_WORSE, "<=" if less else ">=")
    return replace(scenario, rules=tuple(rules.values()))


def scenarios():
    found = []
    for payload in ("160", "1472"):
        values = {"payload": payload}
        found.append(Scenario("udp-merged", f"udp-merged-{payload}", True, values, (
            Ratio("weir-merged", "bare-gso", PPS, 0.8),
            Ratio("weir-merged", "iperf3-new-gsro", PPS, 1.2),
            Ratio("weir-merged", "iperf3-udp", PPS, 20.0),
            Bound("weir-merged", LOST, 0),
            Ratio("bare-gso", "iperf3-new-gsro", PPS),
            Ratio("bare-gso", "iperf3-udp", PPS),
        )))
        peers = ("iperf3-udp", "iperf-udp", "nuttcp-udp", "ditg-udp")
        rules = []
        for kind in ("cut", "packet"):
            rules += [Ratio(f"weir-{kind}", f"bare-{kind}", PPS, 0.9), Best(f"weir-{kind}", peers, PPS, 1.0),
                      Ratio(f"weir-{kind}", "mgen-udp", PPS, 0.85), Bound(f"weir-{kind}", LOST, 0)]
        # The peers send per packet whatever the offloads are: one set of their runs serves both comparisons.
        rules += [Ratio("bare-cut", "iperf3-udp", PPS), Ratio("bare-packet", "iperf3-udp", PPS), Ratio("bare-packet", "mgen-udp", PPS)]
        found.append(Scenario("udp-cut", f"udp-cut-{payload}", False, values, tuple(rules)))
    for payload in ("64", "512", "1472"):
        found.append(Scenario("udp-xdp", f"udp-xdp-{payload}", False, {"payload": payload}, (
            Best("weir-xdp", ("nuttcp-udp", "mgen-udp"), PPS, 5.0),
            Bound("weir-xdp", LOST, 0),
            Ratio("weir-xdp", "weir-packet", PPS),
        )))
    # Laws must not slow the sender: uniform sizes have the mean of the constant one.
    found.append(Scenario("laws", "laws-sizes", False, {"payload": "736", "sizes": "64..1408"}, (
        Ratio("weir-sizes", "weir-packet", PPS, 0.9),)))
    found.append(Scenario("laws", "laws-intervals", False, {"payload": "160"}, (
        Bound("weir-exponential", RATE_ERROR, 0.01),)))
    found.append(Scenario("replay", "replay-top", False, {}, (Ratio("weir-replay", "tcpreplay", PPS, 1.0),)))
    # (streams, bar of the single-threaded iperf3, bar of the newest one, which has a thread for each stream)
    for streams, bar, new_bar in (("1", 1.1, 1.1), ("16", 1.4, 0.95)):
        found.append(Scenario("tcp", f"tcp-{streams}", True, {"streams": streams}, (
            Ratio("weir-tcp", "iperf3-tcp", BPS, bar),
            Ratio("weir-tcp", "iperf3-new-tcp", BPS, new_bar),
            Ratio("weir-tcp-best", "iperf3-new-tcp-best", BPS, 1.0),
            Ratio("weir-tcp", "bare-tcp-copy", BPS, 0.9),
            Ratio("weir-tcp-best", "bare-tcp-best", BPS, 0.9),
            Ratio("bare-tcp-copy", "iperf3-tcp", BPS),
            Ratio("bare-tcp-best", "iperf3-new-tcp-best", BPS),
        )))
    # The smallest message of sockperf.
    for transport in ("tcp", "udp"):
        found.append(Scenario("rr", f"rr-{transport}", True, {"payload": "14"}, (
            Ratio(f"weir-{transport}-rr", f"sockperf-{transport}-rr", TPS, 1.0),)))
        # Both ends of both tools poll instead of sleeping.
        found.append(Scenario("rr", f"rr-{transport}-spin", True, {"payload": "14"}, (
            Ratio(f"weir-{transport}-rr-spin", f"sockperf-{transport}-rr-spin", TPS, 1.1),)))
    for pps in ("1000", "50000", "997"):
        found.append(Scenario("pacing", f"pacing-{pps}", True, {"payload": "160", "pps": pps}, (
            Best("weir-paced", ("nuttcp-paced", "mgen-paced", "sockperf-paced"), DEVIATION, 0.8, "<="),
            # At 50 000 a second it never sleeps anyway.
            *([] if pps == "50000" else [Best("weir-paced-spin", ("nuttcp-paced", "mgen-paced", "sockperf-paced"), DEVIATION, 0.8, "<=")]),
            Bound("weir-paced", RATE_ERROR, 0.001),
            Ratio("mgen-paced", "nuttcp-paced", DEVIATION),
        )))
    return found + impaired()


def impaired():
    """The emulator in the middle of a path."""
    def on_path(group, name, values, *rules):
        return Scenario(group, name, False, values, rules, "path")

    by_packet = {"source": "packet"}
    found = [on_path("impair-flows", "impair-flows", by_packet,
                     Ratio("flows-16", "other-only", CPU, 1.10, "<="),
                     Ratio("flows-1000", "other-only", CPU, 1.25, "<="),
                     Bound("other-only", PPS, None), Bound("flows-16", PPS, None), Bound("flows-1000", PPS, None))]
    found.append(on_path("impair-forward", "impair-forward-packet", by_packet,
                         Ratio("impair-packet", "forward-packet", PPS, 0.85),
                         Ratio("impair-xdp", "forward-xdp", PPS, 0.85),
                         Ratio("impair-packet", "bridge", PPS, 1.5),
                         Ratio("impair-xdp", "bridge", PPS, 1.5)))
    # A veth takes live frames only where NAPI runs, which means XDP (or GRO, which an emulator switches off): no packet link.
    found.append(on_path("impair-forward", "impair-forward-live", {"source": "live"},
                         Ratio("impair-xdp", "forward-xdp", PPS, 0.85),
                         Bound("impair-xdp", PPS, None, ">=")))
    found.append(on_path("impair-delay", "impair-ping", {}, *(
        rule for link in ("packet", "xdp") for rule in (
            Difference(f"impair-{link}-ping", f"forward-{link}-ping", ROUND_TRIP, 100e-6),
            Difference(f"impair-{link}-ping", "bridge-ping", ROUND_TRIP, None)))))
    for pps in ("1000", "997"):
        found.append(on_path("impair-delay", f"impair-delay-{pps}", {"pps": pps}, *(
            Bound("impair-constant", metric, bar) for metric, bar in (
                ("over_p50_seconds", 0.0), ("over_p99_seconds", 0.0), ("early_seconds", 1e-6), ("error_p50_seconds", None),
                ("error_p99_seconds", None), ("error_max_seconds", None), ("lateness_p50_seconds", None),
                ("lateness_p99_seconds", None), ("calibrated_p50_seconds", None), ("calibrated_p99_seconds", None)))))
    found.append(on_path("impair-tcp", "impair-tcp", {}, *(
        Ratio(f"impair-{link}-tcp", f"forward-{link}-tcp", BPS, 0.9) for link in ("packet", "xdp"))))
    found.append(on_path("impair-held", "impair-held", by_packet,
                         Bound("impair-held", "rate_ratio", 0.9, ">="),
                         Bound("impair-held", "resident_bytes_per_million", 300 * 1024 * 1024),
                         Bound("impair-held", "held_packets", None), Bound("impair-held", "resident_bytes", None)))
    return found
