"""HTML and Markdown reports, data of charts and the rendered page, against the record."""
import re

import outputs
from groups import Group, at, cell

FLOW_COLUMNS = [  # (heads, path in the flow, of which kind of flow)
    (("sent", "rate sent"), ("sender", "bits_per_second")),
    (("received", "rate received"), ("receiver", "bits_per_second")),
    (("packets sent",), ("sender", "packets")),
    (("packets received",), ("receiver", "packets")),
    (("lost",), ("receiver", "lost_packets")),
    (("loss", "loss ratio"), ("receiver", "loss_ratio")),
    (("late",), ("receiver", "late_packets")),
    (("duplicates?", "dupl."), ("receiver", "duplicate_packets")),
    (("reordered",), ("receiver", "reordered_packets")),
    (("corrupted",), ("receiver", "corrupted_packets")),
]
JITTER_COLUMNS = [
    (("jitter",), ("receiver", "jitter_seconds")),
    (("pdv p99",), ("receiver", "delay_variation", "pdv_p99_seconds")),
    (("ipdv p99",), ("receiver", "delay_variation", "ipdv_p99_seconds")),
]
TCP_COLUMNS = [(("retransmits?", "retransmitted", "retransmitted segments"), ("tcp", "retransmits"))]
DELAY_COLUMNS = [
    (("samples",), "count"), (("least", "min", "minimum"), "min_seconds"), (("mean",), "mean_seconds"),
    (("median", "p50"), "p50_seconds"), (("p90",), "p90_seconds"), (("p99",), "p99_seconds"),
    (("greatest", "max", "maximum"), "max_seconds"),
]
TOTAL_COLUMNS = [
    (("rate",), "bits_per_second"), (("packet rate",), "packets_per_second"), (("payload",), "bytes"),
    (("packets",), "packets"), (("time",), "seconds"), (("lost",), "lost_packets"), (("loss",), "loss_ratio"),
    (("late",), "late_packets"), (("duplicates?",), "duplicate_packets"), (("reordered",), "reordered_packets"),
    (("corrupted",), "corrupted_packets"),
    (("retransmits?", "retransmitted", "retransmitted segments"), "retransmits"),
]


def html_report(rows, output, text, record):
    report = outputs.Report(text)
    tables = report.filled()
    group = Group(rows, output, "cells of tables")
    flows = {f["id"]: f for f in record["flows"]}
    covered = set()

    def check(table, row, heads, reference, name):
        column = table.column(*heads)
        if column is None or column >= len(row):
            return
        covered.add((name, heads[0]))
        value = row[column].value
        if value is None and reference is None:
            group.equal += 1
        else:
            group.same(f"{table.caption}: {name} {heads[0]}", value,
                       None if reference is None else float(reference))
        if value is not None:
            unit = re.search(r" (\S+)$", table.head[column])
            digits = outputs.shown(row[column].text) or (
                outputs.shown(f"{row[column].text} {unit[1]}") if unit else None)
            if digits is not None and value:
                if not digits.shows(value) and not (unit and (second := outputs.shown(
                        f"{row[column].text} {unit[1]}")) and second.shows(value)):
                    group.wrong.append(f"{table.caption}: {name} {heads[0]} shows {row[column].text}, is {value}")

    for table in tables:
        flow_column = table.column("flow")
        for row in table.rows:
            if flow_column == 0 and row[0].value is not None and int(row[0].value) in flows:
                flow = flows[int(row[0].value)]
                kind = table.column("figure")
                if kind is not None:
                    key = {"one-way delay": "one_way_delay",
                           "from intended": "one_way_delay_from_intended",
                           "from scheduled send time": "one_way_delay_from_intended"}.get(row[kind].text)
                    if key:
                        for heads, name in DELAY_COLUMNS:
                            check(table, row, heads, at(flow, "receiver", key, name), f"flow {flow['id']} {key}")
                    continue
                columns = []
                rate = table.column("received")
                if table.column("packets received") is not None or rate is not None \
                        and "bit/s" in table.head[rate]:
                    columns = FLOW_COLUMNS
                elif table.column("jitter") is not None:
                    columns = JITTER_COLUMNS
                elif table.column("mss") is not None:
                    columns = TCP_COLUMNS
                for heads, path in columns:
                    check(table, row, heads, at(flow, *path), f"flow {flow['id']}")
            elif table.column("direction") == 0 and table.column("end") == 1 and len(row) > 2:
                part = at(record["total"], row[0].text, row[1].text)
                for heads, name in TOTAL_COLUMNS:
                    if part is not None:
                        check(table, row, heads, part.get(name), f"total {row[0].text} {row[1].text}")
    wanted = {"udp": [h[0][0] for h in FLOW_COLUMNS], "tcp": ["sent", "received", "retransmits?"]}
    for flow in record["flows"]:
        for head in wanted[flow["transport"]]:
            if (f"flow {flow['id']}", head) not in covered:
                path = next((p for h, p in FLOW_COLUMNS + TCP_COLUMNS if h[0] == head), None)
                if path and at(flow, *path) is not None:
                    group.missing(f"{flow['transport']} {head}")
    group.done()
    values = set(leaves(record)) | {0.0}
    for end in (record.get("cpu") or {}).values():  # the process, user and system together
        values.add(end.get("process_user_ratio", 0) + end.get("process_system_ratio", 0))
    group = Group(rows, output, "exact values are in the record")
    for table in tables:
        for row in table.rows:
            for cell_, head in zip(row, table.head):
                if cell_.value is not None:
                    group.same(f"{table.caption}: {head} {cell_.value:g}", cell_.value in values, True)
    group.done()


def leaves(value):
    """All numbers in a record."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


def markdown_report(rows, markdown, html):
    """Cells of the Markdown report are those of the HTML report's tables of the same name."""
    report = outputs.Report(html)
    expected = {}
    for table in report.filled():
        expected[table.caption] = [[c.text for c in row] for row in table.rows]
    group = Group(rows, "Markdown report", "cells of tables")
    caption = None
    position = {}
    for line in markdown.splitlines():
        if line.startswith("|"):
            cells = [c.strip().strip("`").replace("\\|", "|") for c in line.strip("|").split("|")]
            if set(line) <= set("|-: "):
                position[caption] = 0
                continue
            if caption in expected and caption in position:
                index = position[caption]
                position[caption] += 1
                if index < len(expected[caption]):
                    group.same(f"{caption} row {index + 1}", cells, expected[caption][index])
                else:
                    group.wrong.append(f"{caption}: more rows than the HTML report")
        elif line.strip():
            caption = line.strip()
    group.done()


FIGURES = {"throughput": ("receiver", "bits_per_second"), "jitter": ("receiver", "jitter_seconds"),
           "delay": ("receiver", "mean_delay_seconds"), "tcp-retransmits": ("sender", "retransmits")}


def figure_csv(rows, name, text, record):
    """The data of a chart over time against the record's intervals."""
    path = FIGURES.get(name.removesuffix(".csv"))
    if path is None:
        return
    group = Group(rows, "report's figure data", name.removesuffix(".csv"))
    table = outputs.csv_rows(text)
    names = {f"{f['id']} {f['name']}": f["id"] for f in record["flows"]} | {f["name"]: f["id"] for f in record["flows"]}
    if len(record["flows"]) == 1:
        names.update({row["series"]: record["flows"][0]["id"] for row in table})
    intervals = {i["start_seconds"]: i for i in record["intervals"]}
    known = {"series", "time_seconds", "end_time_seconds"}
    for row in table:
        flow = names.get(row["series"])
        interval = intervals.get(float(row["time_seconds"])) if row.get("time_seconds") else None
        if flow is None or interval is None:
            continue
        column = next((c for c in row if c not in known and not c.startswith(("low_", "high_")) and c != "host_limited"))
        part = next((f for f in interval["flows"] if f["id"] == flow), {})
        group.same(f"{row['series']} at {row['time_seconds']}", cell(row[column]), at(part, *path))
        if row.get("end_time_seconds"):
            group.same(f"{row['series']} end", float(row["end_time_seconds"]), interval["end_seconds"])
    group.done()


# Page ---------------------------------------------------------------------------------------------------

PAGE_COLUMNS = [
    (("sent",), ("sender", "bits_per_second")), (("received",), ("receiver", "bits_per_second")),
    (("lost",), ("receiver", "lost_packets")),
    (("loss",), ("receiver", "loss_ratio")), (("dupl\\.?", "duplicates?"), ("receiver", "duplicate_packets")),
    (("reord\\.?", "reordered"), ("receiver", "reordered_packets")), (("jitter",), ("receiver", "jitter_seconds")),
    (("delay: median", "delay, median", "median"), ("receiver", "one_way_delay", "p50_seconds")),
    (("99 %", "p99"), ("receiver", "one_way_delay", "p99_seconds")),
    (("most", "max", "maximum"), ("receiver", "one_way_delay", "max_seconds")),
    (("retransmits?", "retransmitted"), ("tcp", "retransmits")),
]
PAGE_SERIES = {"throughput": ("receiver", "bits_per_second"), "jitter": ("receiver", "jitter_seconds"),
               "delay, mean": ("receiver", "mean_delay_seconds"), "retransmi": ("sender", "retransmits")}


def page_output(rows, page, record):
    tables = outputs.page_tables(page["tables"])
    flows = {f["name"]: f for f in record["flows"]}
    group = Group(rows, "page", "table of flows")
    covered = set()
    for table in tables:
        if table.column("transport") is None or table.column("received") is None:
            continue
        for row in table.rows:
            flow = flows.get(row[table.column("flow")].text)
            if flow is None:
                group.wrong.append(f"flow {row[0].text!r} is not in the record")
                continue
            covered.add(flow["name"])
            for heads, path in PAGE_COLUMNS:
                column = table.column(*heads)
                reference = at(flow, *path)
                if column is None:
                    if reference is not None:
                        group.missing(f"{flow['transport']} {heads[0]}")
                    continue
                group.prints(f"{flow['name']} {heads[0]}", outputs.shown(row[column].text), reference)
    for name in set(flows) - covered:
        group.missing(f"flow {name}")
    group.done()
    group = Group(rows, "page", "values of charts")
    ids = {f["id"]: f for f in record["flows"]}
    for table in tables:
        path = next((p for word, p in PAGE_SERIES.items() if word in table.caption.lower()), None)
        if path is None or "time" not in " ".join(table.head).lower():
            continue
        for row in table.rows:
            number = re.match(r"(\d+) ", row[0].text)
            flow = ids.get(int(number[1])) if number else (record["flows"][0] if len(ids) == 1 else None)
            times = [outputs.shown(t) for t in row[1].text.split(" – ")]
            if flow is None or row[0].text == "sum" or len(times) != 2 or None in times:
                continue
            interval = next((i for i in record["intervals"] if times[0].shows(i["start_seconds"])
                             and times[1].shows(i["end_seconds"])), None)
            if interval is None:
                group.wrong.append(f"{table.caption} {row[0].text} {row[1].text}: no such interval")
                continue
            part = next((f for f in interval["flows"] if f["id"] == flow["id"]), {})
            group.prints(f"{table.caption} {row[0].text} {row[1].text}", outputs.shown(row[2].text), at(part, *path))
    page_sums(group, tables, record)
    group.done()
    group = Group(rows, "page", "head of the run")
    for term, text in page["terms"]:
        match = re.match(r"(forward|reverse), (received|loss)$", term, re.I)
        if match:
            key = {"received": "bits_per_second", "loss": "loss_ratio"}[match[2].lower()]
            # Behind a received rate follows how datagrams crossed.
            group.prints(term, outputs.shown(text.split(",")[0]), at(record["total"], match[1].lower(), "receiver", key))
    group.done()


def page_sums(group, tables, record):
    """Charts of packet rates (sums of a direction that ran alone) and of losses."""
    alone = next(iter(record["total"])) if len(record["total"]) == 1 else None
    ids = {f["id"]: f for f in record["flows"]}
    for table in tables:
        rate, loss = "packet rate" in table.caption.lower(), "packet loss" in table.caption.lower()
        if not (rate or loss) or "time" not in " ".join(table.head).lower():
            continue
        for row in table.rows:
            times = [outputs.shown(t) for t in row[1].text.split(" – ")]
            interval = None if None in times or len(times) != 2 else next(
                (i for i in record["intervals"] if times[0].shows(i["start_seconds"])
                 and times[1].shows(i["end_seconds"])), None)
            if interval is None:
                group.wrong.append(f"{table.caption} {row[0].text} {row[1].text}: no such interval")
                continue
            name = f"{table.caption} {row[0].text} {row[1].text}"
            if rate and alone:
                end = {"sent": "sender", "received": "receiver"}.get(row[0].text)
                if end:
                    group.prints(name, outputs.shown(row[2].text),
                                 at(interval, "total", alone, end, "packets_per_second"))
            elif loss:
                number = re.match(r"(\d+) ", row[0].text)
                if number and int(number[1]) in ids:
                    part = next((f for f in interval["flows"] if f["id"] == int(number[1])), {})
                elif row[0].text == "sum" and alone:
                    part = at(interval, "total", alone)
                elif len(ids) == 1:
                    part = interval["flows"][0] if interval["flows"] else {}
                else:
                    continue
                lost, received = at(part, "receiver", "lost_packets"), at(part, "receiver", "packets")
                awaited = (lost or 0) + (received or 0)
                group.prints(name, outputs.shown(row[2].text), lost / awaited if lost is not None and awaited else None)
