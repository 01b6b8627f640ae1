"""What the comparisons of outputs share: groups of values, bounds of what can be known while a test runs."""
import math
import os

# What a receiver may still learn after an interval's line was printed: compared by bounds, not exactly.
CORRECTION = "earlier_lost_packets"
PROVISIONAL = ("lost_packets", "loss_ratio", CORRECTION)


class Group:
    """Values of one figure of one output that should all be those of the record: one row of the table."""

    def __init__(self, rows, output, figure, flow=""):
        self.rows, self.output, self.figure, self.flow = rows, output, figure, flow
        self.equal, self.wrong, self.unread = 0, [], []

    def same(self, name, value, reference):
        if value == reference or (isinstance(value, float) and isinstance(reference, (int, float))
                                  and not isinstance(reference, bool) and value == float(reference)):
            self.equal += 1
        else:
            self.wrong.append(f"{name}: {short(value)}, record {short(reference)}")

    def prints(self, name, shown, reference, half_more=0.0):
        """`shown` (outputs.Shown or None) prints `reference`, or is absent as it is."""
        if shown is None and reference is None:
            self.equal += 1
        elif shown is None or reference is None or abs(shown.value - reference) > shown.half * 1.000001 + 1e-15 \
                + half_more:
            text = "absent" if shown is None else shown.text
            self.wrong.append(f"{name}: {text}, record {short(reference)}")
        else:
            self.equal += 1

    def missing(self, name):
        self.unread.append(name)

    def done(self):
        count = self.equal + len(self.wrong)
        if count:
            self.rows.add(self.output, self.figure, self.flow, self.equal, count, -len(self.wrong), 0,
                          not self.wrong, "; ".join(self.wrong[:4]) + ("; …" if len(self.wrong) > 4 else ""))
        if self.unread:
            self.rows.add(self.output, self.figure, self.flow, None, None, None, None, None,
                          "not found: " + ", ".join(sorted(set(self.unread))[:6]))


def short(value):
    return f"{value:.9g}" if isinstance(value, float) else str(value)[:80]


def at(value, *keys):
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def close(a, b):
    return a is not None and b is not None and abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-9)


def read_text(directory, name):
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        return None
    with open(path, errors="replace") as file:
        return file.read()


def live_loss_sum(rows, output, told, record):
    for flow in record["flows"]:
        lost = at(flow, "receiver", "lost_packets")
        if lost is not None and flow["id"] in told:
            rows.near("losses and corrections told while running, sum", flow["id"], told[flow["id"]], lost, 0,
                      output=output)


def lost_bounds(rows, output, flow, interval, value, truths, record):
    """Losses of an interval that the receiver could know at its end."""
    true = (truths or {}).get(flow)
    part = next(f for f in record["flows"] if f["id"] == flow)
    if true is None or not getattr(true, "numbered", False) or at(part, "receiver", "start_seconds") is None:
        return
    base = true.receiving_times()[0] - part["receiver"]["start_seconds"] * 1e9
    first, end = base + interval["start_seconds"] * 1e9, base + interval["end_seconds"] * 1e9
    if not interval["start_seconds"]:
        first = -math.inf
    low, high = true.known_lost(first, end, end, 15_000_000)
    # What became known while the line waited for the other end's figures may be in it.
    high = max(high, true.known_lost(first, end, end + 500_000_000, 15_000_000)[1])
    rows.between("losses of an interval as told while running", flow, value, max(0, low - 1 - true.ambiguous_late),
                 high + 1 + true.ambiguous_late,
                 output=output, note=f"at {interval['end_seconds']:g} s")


def cell(text):
    if text == "":
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
