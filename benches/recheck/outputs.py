"""Readers of Weir's outputs: text, CSV, JSON stream, HTML report, the page's tables."""
import csv
import html.parser
import json
import re

BYTES = {"B": 1, "bytes": 1, "KiB": 1024, "MiB": 1024 ** 2, "GiB": 1024 ** 3, "TiB": 1024 ** 4}
BITS = {"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}
TIMES = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
PACKETS = {"pkt/s": 1, "kpkt/s": 1e3, "packets/s": 1, "/s": 1}
PLAIN = {"": 1, "%": 0.01}
UNITS = {**BYTES, **BITS, **TIMES, **PACKETS, **PLAIN}

SPACES = " \u00a0\u2009\u202f,"  # that group digits
NUMBER = rf"-?(?:\d{{1,3}}(?:[{SPACES}]\d{{3}})+(?!\d)|\d+)(?:\.\d+)?(?:e-?\d+)?"


class Shown:
    """A figure as it was printed: its value in SI units and half a unit of its last digit."""

    def __init__(self, digits, unit):
        digits = re.sub(f"[{SPACES}]", "", digits)
        scale = UNITS[unit]
        decimals = len(digits.split(".")[1]) if "." in digits and "e" not in digits else 0
        self.value = float(digits) * scale
        self.half = 0.5 * 10 ** -decimals * scale
        self.text = f"{digits} {unit}".strip()

    def shows(self, value):
        """Whether `value` is printed so, rounded in either way at a tie."""
        return value is not None and abs(self.value - value) <= self.half * 1.000001 + 1e-15


def shown(text):
    """The figure that a whole text is; None when it is none (`–`)."""
    match = re.fullmatch(rf"({NUMBER})\s*([^\d\s]*)", text.strip())
    return Shown(match[1], match[2]) if match and match[2] in UNITS else None


def find(pattern_units, text):
    match = re.search(rf"({NUMBER}) ({'|'.join(map(re.escape, pattern_units))})(?![\w/])", text)
    return Shown(match[1], match[2]) if match else None


class Line:
    """A line of the text's table: of an interval, or of the summary."""

    PATTERN = re.compile(r"^\[ *(\d+|SUM)\](?:\[(\w\w)-\w\])? +(\d+\.\d+)-(\d+\.\d+) +sec +(.*)$")

    def __init__(self, match):
        self.id = None if match[1] == "SUM" else int(match[1])
        self.role = match[2]
        self.start, self.end, rest = float(match[3]), float(match[4]), match[5]
        self.rest = rest
        self.transfer = find(BYTES, rest)
        self.rate = find(BITS, rest)
        behind = rest[rest.find("bit/s") + 5:] if "bit/s" in rest else rest
        lost = re.search(r"(\d+|-)/(\d+)(?: \(([\d.e-]+)%\))?", behind)
        self.lost = int(lost[1]) if lost and lost[1] != "-" else None
        self.packets = int(lost[2]) if lost else None
        self.loss = Shown(lost[3], "%") if lost and lost[3] else None
        self.time = find(TIMES, behind)  # jitter of datagrams, round trip of streams
        retransmits = re.match(r" +(\d+)(?= )(?!/)", behind)
        self.retransmits = int(retransmits[1]) if retransmits and not lost else None
        self.window = find(BYTES, behind)
        self.sender = bool(re.search(r"\bsender\b", rest))
        self.receiver = bool(re.search(r"\breceiver\b", rest))
        self.partial = bool(re.search(r"\d+ of \d+ flows", rest))
        earlier = re.search(r"\(([+-]\d+) lost earlier\)", rest)
        self.earlier = int(earlier[1]) if earlier else 0


def text_lines(text):
    """(live lines, summary lines, the rest as one string) of what `weir test` prints."""
    live, summary, rest, behind = [], [], [], False
    for row in text.splitlines():
        if row.startswith("- - -"):
            behind = True
            continue
        match = Line.PATTERN.match(row)
        if match:
            (summary if behind else live).append(Line(match))
        elif behind:
            rest.append(row)
    return live, summary, "\n".join(rest)


def details(rest):
    """Detail paragraphs of the summary: (label, flow or None) -> text."""
    found, label, key = {}, None, None
    for row in rest.splitlines():
        match = re.match(r"^(\S.{15}|\s\s\S.{13}) (.*)$", row)
        if match:
            label, body = match[1].strip(), match[2]
        elif row.startswith(" " * 17):
            body = row.strip()
        else:
            label = key = None
            continue
        flow = re.match(r"\[ *(\d+)\] (.*)", body)
        if flow:
            key = (label, int(flow[1]))
            found[key] = flow[2]
        elif match or key is None:
            key = (label, None)
            found[key] = body
        else:
            found[key] += " " + body
    return found


def csv_rows(text):
    return list(csv.DictReader(text.splitlines()))


def stream_events(text):
    return [json.loads(row) for row in text.splitlines() if row.strip()]


def server_events(text):
    """Server-sent events: [(event, data)]."""
    events, name, data = [], "message", []
    for row in text.splitlines() + [""]:
        if row.startswith("event:"):
            name = row[6:].strip()
        elif row.startswith("data:"):
            data.append(row[5:].strip())
        elif not row and data:
            try:
                events.append((name, json.loads("\n".join(data))))
            except ValueError:
                pass  # the last one may be cut
            name, data = "message", []
    return events


class Table:
    def __init__(self):
        self.caption, self.head, self.rows = "", [], []

    def column(self, *names):
        """Index of the first column whose head begins with one of the names; None without one."""
        for name in names:
            for at, head in enumerate(self.head):
                if re.fullmatch(rf"{name}( \S+)?", head, re.I):
                    return at
        return None


class Cell:
    def __init__(self, text, value):
        self.text, self.value = text, value


class Report(html.parser.HTMLParser):
    """Tables of the HTML report; cells carry their exact value in `data-v`."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.inside, self.text, self.value, self.depth = [], None, "", None, 0
        self.headlines, self.term = {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "table":
            self.tables.append(Table())
        elif tag == "tr" and self.tables:
            self.tables[-1].rows.append([])
        elif tag in ("th", "td", "caption", "dt", "dd"):
            self.inside, self.text = tag, ""
            self.value = float(attributes["data-v"]) if "data-v" in attributes else None
            self.column_head = attributes.get("scope") == "col"
        elif tag == "small":
            self.text += "\n"

    def handle_endtag(self, tag):
        if tag != self.inside:
            return
        self.inside, text = None, self.text.strip()
        if tag == "caption":
            self.tables[-1].caption = text
        elif tag == "dt":
            self.term = text
        elif tag == "dd":
            self.headlines[self.term] = text.split("\n")[0].strip()
        elif self.tables:
            table = self.tables[-1]
            if tag == "th" and self.column_head:
                table.head.append(text)
            else:
                table.rows[-1].append(Cell(text, self.value))

    def handle_data(self, data):
        if self.inside:
            self.text += data

    def filled(self):
        for table in self.tables:
            table.rows = [row for row in table.rows if row]
        return self.tables


def page_tables(values):
    """Tables read off the page: [{caption, head, rows}] as Table with text cells."""
    tables = []
    for value in values:
        table = Table()
        table.caption, table.head = value["caption"], value["head"]
        table.rows = [[Cell(text, None) for text in row] for row in value["rows"]]
        tables.append(table)
    return tables
