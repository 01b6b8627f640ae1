"""Text: lines of intervals, the summary and its paragraphs, against the record."""
import re

import outputs
from groups import Group, at, live_loss_sum, lost_bounds


def text_output(rows, text, record, truths, output):
    live, summary, rest = outputs.text_lines(text)
    flows = {f["id"]: f for f in record["flows"]}
    several = len(record["total"]) > 1
    only = next(iter(record["total"]))
    group = Group(rows, output, "lines of intervals")
    told_lost = {}
    for line in live:
        direction = only if not several else {"TX": "forward", "RX": "reverse"}.get(line.role)
        reference = nearest_interval(record, line)
        if reference is None:
            group.wrong.append(f"no interval of the record at {line.start}-{line.end}")
            continue
        if line.id is None:
            ends = at(reference, "total", direction)
        else:
            ends = next((f for f in reference["flows"] if f["id"] == line.id), None)
        if ends is None:
            group.wrong.append(f"flow {line.id} at {line.start}: not in the record's interval")
            continue
        if line.partial:
            group.missing("sums of some of the flows")
            continue
        name = f"{line.start:g}-{line.end:g} flow {line.id or 'sum'}"
        end = "sender" if line.sender else "receiver"
        part = ends.get(end) or {}
        # A line that was printed before the last packets came ends earlier than the record's interval.
        ends_alike = abs(line.end - reference["end_seconds"]) <= 0.0051
        if ends_alike:
            group.prints(f"{name} bytes", line.transfer, part.get("bytes"))
            group.prints(f"{name} rate", line.rate, part.get("bits_per_second"))
        if line.packets is not None and end == "receiver" and line.lost is not None:
            if line.id is not None:
                told_lost[line.id] = told_lost.get(line.id, 0) + line.lost + line.earlier
                if truths is not None:
                    lost_bounds(rows, output, line.id, {"start_seconds": reference["start_seconds"],
                                                        "end_seconds": reference["end_seconds"]}, line.lost,
                                truths, record)
            if ends_alike:
                group.same(f"{name} received", line.packets - line.lost, part.get("packets"))
            if line.id is not None and ends_alike:
                group.prints(f"{name} jitter", line.time, part.get("jitter_seconds"))
            if truths is None:  # from the record: final
                group.same(f"{name} lost", line.lost, part.get("lost_packets"))
            if line.loss is not None and line.packets:
                group.prints(f"{name} loss ratio of its own counts", line.loss, line.lost / line.packets)
        if line.retransmits is not None and line.id is not None:
            group.same(f"{name} retransmits", line.retransmits, at(ends, "sender", "retransmits"))
            if at(ends, "sender", "cwnd_bytes") is not None and truths is None:
                group.prints(f"{name} window", line.window, at(ends, "sender", "cwnd_bytes"))
                group.prints(f"{name} round trip", line.time, at(ends, "sender", "rtt_seconds"))
    group.done()
    if truths is not None:
        live_loss_sum(rows, output, told_lost, record)
    group = Group(rows, output, "lines of the summary")
    within = Group(rows, output, "lines of the summary end with the test")
    last = max((i["end_seconds"] for i in record["intervals"]), default=float("inf"))
    for line in summary:
        direction = only if not several else {"TX": "forward", "RX": "reverse"}.get(line.role)
        end = "sender" if line.sender else "receiver"
        part = at(record["total"], direction, end) if line.id is None else at(flows.get(line.id), end)
        name = f"flow {line.id or 'sum'} {end}"
        if part is None:
            group.wrong.append(f"{name}: not in the record")
            continue
        group.prints(f"{name} bytes", line.transfer, part.get("bytes"))
        group.prints(f"{name} rate", line.rate, part.get("bits_per_second"))
        if part.get("start_seconds") is not None:
            group.prints(f"{name} start", outputs.Shown(f"{line.start:.2f}", "s"), part["start_seconds"])
            # The end, or that of the time that the rate is over (METHODOLOGY: rate of a flow).
            bits = part.get("bits_per_second")
            over = part["start_seconds"] + part["bytes"] * 8 / bits if bits else part["end_seconds"]
            printed = outputs.Shown(f"{line.end:.2f}", "s")
            group.prints(f"{name} end", printed, over if printed.shows(over) else part["end_seconds"])
            within.same(f"{name} end of {line.end:.2f} s", line.end <= last + 0.0151, True)
        if line.packets is not None:
            sent = at(record["total"], direction, "sender", "packets") if line.id is None \
                else at(flows[line.id], "sender", "packets")
            group.same(f"{name} datagrams", line.packets, sent)
            if end == "receiver":
                group.same(f"{name} lost", line.lost, part.get("lost_packets"))
                if line.loss is not None:
                    group.prints(f"{name} loss", line.loss, part.get("loss_ratio"))
                if line.id is not None:
                    group.prints(f"{name} jitter", line.time, part.get("jitter_seconds"))
        if line.retransmits is not None:
            whole = at(part, "retransmits") if line.id is None else at(flows[line.id], "tcp", "retransmits")
            group.same(f"{name} retransmits", line.retransmits, whole)
    if not summary:
        group.missing("any line")
    group.done()
    within.done()
    text_details(rows, output, rest, record)


def nearest_interval(record, line):
    return next((i for i in record["intervals"] if abs(i["start_seconds"] - line.start) <= 0.0051), None)


def is_paragraph(name, label):
    return name.lower().startswith(label) and not name.lower().endswith("ledger")


def text_details(rows, output, rest, record):
    """Figures in the paragraphs behind the summary's table: of each flow, or of many flows together."""
    group = Group(rows, output, "paragraphs of the summary")
    found = outputs.details(rest)
    alone = len(record["flows"]) == 1

    def body(label, flow):
        for (name, number), text in found.items():
            if is_paragraph(name, label) and (number == flow["id"] or number is None and alone):
                return text
        return None

    def together(label):
        for (name, number), text in found.items():
            if is_paragraph(name, label) and number is None and not alone:
                return text
        return None

    datagrams = [f for f in record["flows"] if f["transport"] == "udp"]
    streams = [f for f in record["flows"] if f["transport"] == "tcp"]
    for flow in streams:
        counted(group, f"flow {flow['id']}", body("tcp", flow), SEGMENTS, [flow], ("tcp", "retransmits"),
                together("tcp") is None)
    if streams and together("tcp"):
        counted(group, "all flows", together("tcp"), SEGMENTS, streams, ("tcp", "retransmits"), True)
    for label, pattern, path in COUNTED:
        for flow in datagrams:
            counted(group, f"flow {flow['id']}", body(label, flow), pattern, [flow], path, together(label) is None)
        if together(label):
            counted(group, "all flows", together(label), pattern, datagrams, path, True)
    for label, pattern, path in TIMED:
        for flow in datagrams:
            value = at(flow, "receiver", *path)
            text = body(label, flow)
            match = re.search(pattern, text or "")
            if match:
                group.prints(f"flow {flow['id']} {label} {path[-1]}", outputs.shown(match[1]), value)
            elif value is not None and not path[-1].startswith(("p9", "p50")) and together(label) is None \
                    and not (label == "delay variation" and together("jitter")):  # of many flows only percentiles
                group.missing(f"{label} {path[-1]}")
    text = next((t for (name, _), t in found.items() if is_paragraph(name, "under load")), None)
    for part in ("idle", "loaded"):
        match = re.search(rf"{part} p50 (\S+ \S+?)(?:,| ).*?max (\S+ [^\s;,]+)", text or "")
        if match and at(record, "latency", part, "p50_seconds") is not None:
            group.prints(f"round trip {part} p50", outputs.shown(match[1]), record["latency"][part]["p50_seconds"])
            group.prints(f"round trip {part} max", outputs.shown(match[2]), record["latency"][part]["max_seconds"])
        elif at(record, "latency", part, "p50_seconds") is not None:
            group.missing(f"round trip {part}")
    for label, pattern, path in SPREAD:
        values = [v for f in datagrams if (v := at(f, "receiver", *path)) is not None]
        match = re.search(pattern + r" (\S+ \S+) \((\S+ \S+) to (\S+ \S+), (\d+) flows\)", together(label) or "")
        if match and values:
            group.prints(f"{label} least", outputs.shown(match[2]), min(values))
            group.prints(f"{label} greatest", outputs.shown(match[3]), max(values))
            group.same(f"{label} flows", int(match[4]), len(values))
            median = outputs.shown(match[1])
            group.same(f"{label} median", any(median.shows(v) for v in values)
                       or min(values) <= median.value <= max(values), True)
    group.done()


SEGMENTS = r"(\d+) segments? (?:were )?retransmitted"
COUNTED = [  # (paragraph, pattern of a count, its path)
    ("loss", r"(\d+) of \d+ packets lost", ("receiver", "lost_packets")),
    ("loss", r"\d+ of (\d+) packets lost", ("sender", "packets")),
    ("arrivals", r"(\d+) duplicate", ("receiver", "duplicate_packets")),
    ("arrivals", r"(\d+) reordered", ("receiver", "reordered_packets")),
    ("arrivals", r"(\d+) late", ("receiver", "late_packets")),
    ("arrivals", r"(\d+) corrupted", ("receiver", "corrupted_packets")),
]
TIMED = [("jitter", r"^(\d\S* \S+?)(?: |$)", ("jitter_seconds",))] + [
    ("delay variation", rf"\b{k} (?:mean [^,;(]+, )?{f} (\S+ \S+?)(?:[,; (]|$)",
     ("delay_variation", f"{k.lower()}_{f}_seconds"))
    for k in ("PDV", "IPDV") for f in ("mean", "p99")] + [
    (label, rf"\b{k} (-?\d\S* \S+?)(?:,|;|$| )", (key, f"{k}_seconds"))
    for label, key in (("one-way delay", "one_way_delay"), ("from intended", "one_way_delay_from_intended"))
    for k in ("min", "mean", "p50", "p99", "max")]
SPREAD = [("jitter", "^median", ("jitter_seconds",)),
          ("delay variation", "PDV p99 median", ("delay_variation", "pdv_p99_seconds")),
          ("one-way delay", "p50 median", ("one_way_delay", "p50_seconds"))]


def counted(group, name, text, pattern, flows, path, required):
    values = [v for f in flows if (v := at(f, *path)) is not None]
    match = re.search(pattern, text or "")
    if match:
        group.same(f"{name} {path[-1]}", int(match[1]), sum(values))
    elif required and path[-1] != "packets" and sum(values):
        group.missing(path[-1])


def same_summary(rows, live, shown):
    """The summary as printed at the end of the run, and as printed again."""
    def tail(text):
        return [r.rstrip() for r in text.split("- - -", 1)[-1].splitlines()
                if not r.startswith("run ") and "runs show" not in r]
    first, second = tail(live), tail(shown)
    wrong = [f"{a!r} / {b!r}" for a, b in zip(first, second) if a != b]
    rows.add("runs show", "the same summary as at the end of the run", "", len(second), len(first),
             len(second) - len(first), 0, first == second, "; ".join(wrong[:2])[:300])
