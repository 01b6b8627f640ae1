"""Whether the outputs of one run agree: record, text, CSV, JSON stream, HTML report, Markdown, API, page."""
import json
import os

import outputs
from agreement_pages import figure_csv, html_report, markdown_report, page_output
from agreement_text import same_summary, text_output
from groups import CORRECTION, PROVISIONAL, Group, at, cell, close, live_loss_sum, lost_bounds, read_text, short
from path import read_json


# Sums within the record --------------------------------------------------------------------------------

COUNTS = {"sender": ("bytes", "packets", "retransmits"),
          "receiver": ("bytes", "packets", "lost_packets", "duplicate_packets", "reordered_packets")}


def sums(rows, record):
    """Sums of intervals against flows, of flows against totals; rates against counts and times."""
    intervals = record.get("intervals", [])
    for flow in record["flows"]:
        parts = [f for i in intervals for f in i["flows"] if f["id"] == flow["id"]]
        for end, names in COUNTS.items():
            for name in names:
                whole = at(flow, end, name)
                if name == "retransmits":
                    whole = at(flow, "tcp", name)
                values = [at(p, end, name) for p in parts]
                if whole is None or not parts or all(v is None for v in values):
                    continue
                rows.near(f"sum of intervals: {end} {name}", flow["id"], sum(v or 0 for v in values), whole, 0,
                          output="sums")
    group = Group(rows, "sums", "flows of an interval = its total")
    rate = Group(rows, "sums", "rate = bytes ÷ time of an interval")
    edges = Group(rows, "sums", "intervals follow each other")
    for number, interval in enumerate(intervals):
        before = intervals[number - 1]["end_seconds"] if number else 0.0
        edges.same(f"interval {number + 1}", interval["start_seconds"], before)
        took = interval["end_seconds"] - interval["start_seconds"]
        for direction, total in interval["total"].items():
            members = {f["id"] for f in record["flows"] if f["direction"] == direction}
            for end, names in COUNTS.items():
                for name in names:
                    if at(total, end, name) is None:
                        continue
                    values = [at(f, end, name) for f in interval["flows"] if f["id"] in members]
                    group.same(f"interval {number + 1} {direction} {end} {name}", at(total, end, name),
                               sum(v or 0 for v in values))
        for part in interval["flows"]:
            for end in ("sender", "receiver"):
                bits = at(part, end, "bits_per_second")
                if bits is not None and took > 0:
                    wanted = part[end]["bytes"] * 8 / took
                    if close(bits, wanted) or bits == wanted:
                        rate.equal += 1
                    else:
                        rate.wrong.append(f"interval {number + 1} flow {part['id']} {end}: {bits}, {wanted}")
    group.done()
    rate.done()
    edges.done()
    for direction, ends in record["total"].items():
        flows = [f for f in record["flows"] if f["direction"] == direction]
        for end, names in COUNTS.items():
            for name in names + ("late_packets", "corrupted_packets"):
                whole = at(ends, end, name)
                values = [at(f, "tcp", name) if name == "retransmits" else at(f, end, name) for f in flows]
                if whole is None and all(v is None for v in values):
                    continue
                rows.near(f"sum of flows: {end} {name}", direction, whole,
                          None if all(v is None for v in values) else sum(v or 0 for v in values), 0, output="sums")
    for flow in record["flows"]:
        sent, received = at(flow, "sender", "packets"), at(flow, "receiver", "packets")
        lost = at(flow, "receiver", "lost_packets")
        samples = at(flow, "receiver", "one_way_delay", "count")
        if samples is not None:
            rows.near("delay samples = received", flow["id"], samples, received, 0, output="sums")
        if None not in (lost, sent, received):
            rows.near("received + lost = sent", flow["id"], received + lost, sent, 0, output="sums")
            runs = at(flow, "receiver", "loss_periods")
            if runs is not None and "more" not in runs:
                rows.near("loss periods × lengths = lost", flow["id"],
                          sum(int(k) * v for k, v in runs.items()), lost, 0, output="sums")
    ledger = record.get("loss_ledger")
    if ledger:
        # A bound may count other traffic too, and explains at most what exact rows leave.
        exact, bound = (sum(r["packets"] for r in ledger["rows"] if r["kind"] == kind) for kind in ("exact", "bound"))
        explained = exact + min(bound, max(ledger["missing_packets"] - exact, 0))
        rows.near("loss ledger: rows + remainder = missing", "", explained + ledger["remainder_packets"],
                  ledger["missing_packets"], 0, output="sums")
        missing = sum((at(f, "sender", "packets") or 0) - (at(f, "receiver", "packets") or 0)
                      for f in record["flows"] if f["transport"] == "udp")
        rows.near("loss ledger: missing = sent - received", "", ledger["missing_packets"], missing, 0, output="sums")


# Outputs against the record ----------------------------------------------------------------------------

def attempt(rows, output, what, *arguments):
    """Compares one output; one that cannot be read is a row of its own."""
    try:
        what(rows, *arguments)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        rows.add(output, "readable", "", None, None, None, None, None, repr(error)[:300])


def all_outputs(rows, directory, given, record, truths):
    mode = given["mode"]
    for name, output in (("api-record.json", "API record"), ("api-run.json", "API run"),
                         ("api-report.json", "API report, JSON")):
        text = read_text(directory, name)
        if text is not None:
            attempt(rows, output, whole_record, output, text, record)
    live = read_text(directory, "test")
    if mode == "json":
        attempt(rows, "JSON", whole_record, "JSON", live, record)
    elif mode == "json-stream":
        attempt(rows, "JSON stream", json_stream, live, record, truths)
    elif mode == "text":
        attempt(rows, "text", text_output, live, record, truths, "text")
    elif mode == "page":
        text = read_text(directory, "events")
        if text is not None:
            attempt(rows, "live stream of the API", live_samples, text, record, truths)
    for name, output in (("show.txt", "runs show"), ("show-v.txt", "runs show -V")):
        text = read_text(directory, name)
        if text is not None:
            attempt(rows, output, text_output, text, record, None, output)
    shown = read_text(directory, "show.txt")
    if mode == "text" and shown is not None:
        attempt(rows, "runs show", same_summary, live, shown)
    for name, output, final in (("live.csv", "CSV while running", False), ("export.csv", "CSV export", True),
                                ("api-report.csv", "API report, CSV", True)):
        text = read_text(directory, name)
        if text is not None:
            attempt(rows, output, csv_output, output, text, record, final, truths)
    for name, output in (("report.html", "HTML report"), ("api-report.html", "API report, HTML")):
        text = read_text(directory, name)
        if text is not None:
            attempt(rows, output, html_report, output, text, record)
    markdown, html = read_text(directory, "report.md"), read_text(directory, "report.html")
    if markdown is not None and html is not None:
        attempt(rows, "Markdown report", markdown_report, markdown, html)
    for name in sorted(os.listdir(os.path.join(directory, "figures"))) \
            if os.path.isdir(os.path.join(directory, "figures")) else []:
        attempt(rows, "report's figure data", figure_csv, name, read_text(directory, f"figures/{name}"), record)
    page = os.path.join(directory, "page.json")
    if os.path.exists(page):
        attempt(rows, "page", page_output, read_json(page), record)


def whole_record(rows, output, text, record):
    value = json.loads(text)
    differences = []
    compare(value, record, "", differences)
    rows.add(output, "the whole record", "", len(differences), 0, len(differences), 0, not differences,
             "; ".join(differences[:4]))


def compare(a, b, path, differences):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in {**a, **b}:
            if key not in a or key not in b:
                differences.append(f"{path}/{key}: only in {'one' if key in a else 'the other'}")
            else:
                compare(a[key], b[key], f"{path}/{key}", differences)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for index, (x, y) in enumerate(zip(a, b)):
            compare(x, y, f"{path}/{index}", differences)
    elif a != b:
        differences.append(f"{path}: {short(a)}, {short(b)}")


def live_intervals(rows, output, events, record, truths, skipped=0):
    """Intervals as reported while the test ran, against the record's; losses by what could be known. `skipped`: how many a
    slow reader was not sent, with their losses."""
    intervals = {i["start_seconds"]: i for i in record["intervals"]}
    group = Group(rows, output, "intervals as told while running")
    absent = 0
    told_lost = {}  # of each flow: losses of its intervals, and their corrections
    for interval in events:
        # The last one may still end later in the record, when its last packets have come.
        reference = intervals.get(interval["start_seconds"])
        if reference is None:
            group.wrong.append(f"interval at {interval['start_seconds']} s is not in the record")
            continue
        whole = interval["end_seconds"] == reference["end_seconds"]
        for part in interval["flows"]:
            other = next((f for f in reference["flows"] if f["id"] == part["id"]), {})
            for end in ("sender", "receiver"):
                if end not in part:
                    absent += end in other
                    continue
                for name, value in part[end].items():
                    if name in ("lost_packets", CORRECTION):
                        told_lost[part["id"]] = told_lost.get(part["id"], 0) + value
                    if name == "lost_packets":
                        lost_bounds(rows, output, part["id"], interval, value, truths, record)
                    elif name in ("rtt_seconds", "cwnd_bytes", *PROVISIONAL) or (name.endswith("per_second") and not whole):
                        continue  # samples of the moment; rates of a part of an interval
                    elif whole:
                        group.same(f"{interval['start_seconds']:g} s flow {part['id']} {end} {name}", value,
                                   at(other, end, name))
        for direction, ends in interval["total"].items():
            if "flows" in ends or not whole:
                continue  # a sum of some of the flows
            for end in ("sender", "receiver"):
                for name, value in (ends.get(end) or {}).items():
                    if name not in PROVISIONAL:
                        group.same(f"{interval['start_seconds']:g} s {direction} {end} {name}", value,
                                   at(reference, "total", direction, end, name))
    if absent:
        group.unread.append(f"{absent} parts of flows that the record has")
    group.done()
    if not skipped:
        live_loss_sum(rows, output, told_lost, record)


def json_stream(rows, text, record, truths):
    events = outputs.stream_events(text)
    kinds = [e["event"] for e in events]
    whole = kinds[0] == "start" and kinds[-1] == "end"
    rows.add("JSON stream", "begins with start, ends with end", "", f"{kinds[0]}…{kinds[-1]}", "start…end", None, 0,
             whole)
    ends = [e["data"] for e in events if e["event"] == "end"]
    if ends:
        whole_record(rows, "JSON stream, end", json.dumps(ends[-1]), record)
    live_intervals(rows, "JSON stream", [e["data"] for e in events if e["event"] == "interval"], record, truths)


def live_samples(rows, text, record, truths):
    samples = [data for name, data in outputs.server_events(text) if name == "sample" and "interval" in data]
    by_test, skipped = {}, {}
    for sample in samples:
        by_test.setdefault(sample["id"], []).append(sample["interval"])
        skipped[sample["id"]] = skipped.get(sample["id"], 0) + sample["skipped"]
    if not by_test:
        rows.add("live stream of the API", "samples", "", 0, len(record["intervals"]), None, None, False,
                 "no sample came")
        return
    last = list(by_test)[-1]
    live_intervals(rows, "live stream of the API", by_test[last], record, truths, skipped[last])


# CSV ----------------------------------------------------------------------------------------------------

def csv_output(rows, output, text, record, final, truths):
    table = outputs.csv_rows(text)
    flows = {f["id"]: f for f in record["flows"]}
    intervals = {i["start_seconds"]: i for i in record["intervals"]}
    group = Group(rows, output, "cells")
    kinds = {"interval": 0, "summary": 0, "total": 0}
    for row in table:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + 1
        group.same("run_id", row["run_id"], record["id"])
        if row["kind"] == "interval":
            interval = intervals.get(float(row["start_seconds"]))
            if interval is None:
                group.wrong.append(f"interval at {row['start_seconds']} is not in the record")
                continue
            part = next((f for f in interval["flows"] if f["id"] == int(row["flow_id"])), {})
            columns = {"end_seconds": interval["end_seconds"]}
            label = f"interval at {row['start_seconds']} flow {row['flow_id']}"
        elif row["kind"] == "summary":
            part, columns = flows[int(row["flow_id"])], {}
            label = f"summary flow {row['flow_id']}"
        else:
            part, columns = record["total"][row["flow_direction"]], {}
            label = f"total {row['flow_direction']}"
        for column, text_ in row.items():
            if column in ("kind", "run_id", "start_seconds", "omitted"):
                continue
            if column.startswith("flow_"):
                if text_ and row["kind"] != "total":
                    group.same(f"{label} {column}", text_, str(flows[int(row["flow_id"])].get(column[5:])))
                continue
            if column == "end_seconds":
                if row["kind"] != "interval":
                    continue
                reference = columns[column]
            else:
                reference = by_column(part, column)
            if not final and row["kind"] == "interval" and column == "receiver_lost_packets":
                if text_:  # without the corrections of text and JSON, the sum says nothing
                    lost_bounds(rows, output, int(row["flow_id"]), interval, int(text_), truths, record)
                continue
            group.same(f"{label} {column}", cell(text_), reference)
    expected = {"interval": sum(len(i["flows"]) for i in record["intervals"]), "summary": len(flows),
                "total": len(record["total"])}
    for kind, count in expected.items():
        group.same(f"{kind} rows", kinds.get(kind, 0), count)
    group.done()


def by_column(part, column):
    """The value at the path that the column's name is: `receiver_one_way_delay_p50_seconds`."""
    if not isinstance(part, dict):
        return None
    if column in part and not isinstance(part[column], (dict, list)):
        return part[column]
    for key, value in part.items():
        if column.startswith(key + "_") and isinstance(value, dict):
            inner = by_column(value, column[len(key) + 1:])
            if inner is not None:
                return inner
    return None
