"""The cases of scripts/guest.py, and how records of netem and of Weir are compared.

Figures without chance are compared exactly, times within a stated allowance. Random ones are two samples of one law: their difference
must stay within a bound that two equal laws exceed with a probability of at most 1e-9. Means are compared by the means of 100
consecutive blocks, so that they may be correlated from frame to frame (Student's t, Welch), and distributions by the largest
distance of their distribution functions (Dvoretzky, Kiefer, Wolfowitz, for two samples: Wei and Dudley 2012).
"""

import bisect
import collections
import dataclasses
import json
import math
import statistics
import struct

CHANCE = 1e-9
BLOCKS = 100
SENT, UNCHANGED, SEVERAL = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
MS = 1_000_000
# How late a frame may be: what the guest's processor needs for it, at 1e9 instructions a second. The first frames take longest, since
# each page of the program is then used for the first time; the mean is that of all.
LATE_NS = 2 * MS
MEAN_LATE_NS = MS // 5


class Run:
    """What happened to the frames of one case."""

    def __init__(self, data):
        self.sent, self.arrivals = {}, []
        for ns, number, what in struct.iter_unpack("<QII", data):
            if what == SENT:
                self.sent[number] = ns
            else:
                self.arrivals.append((number, ns, what))
        self.copies = collections.Counter(number for number, _, _ in self.arrivals)
        first = {}
        for number, ns, _ in self.arrivals:
            first.setdefault(number, ns)
        # Of the first copy, by number.
        self.delays = [first[number] - ns for number, ns in sorted(self.sent.items()) if number in first]
        self.lost = [number not in first for number in sorted(self.sent)]


def blocks(values):
    """The means of consecutive blocks."""
    size = len(values) // BLOCKS
    return [statistics.fmean(values[at * size:(at + 1) * size]) for at in range(BLOCKS)]


def student(degrees):
    """The quantile of Student's t that is exceeded in either direction with CHANCE (expansion by Cornish and Fisher)."""
    z = statistics.NormalDist().inv_cdf(1 - CHANCE / 2)
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)


def mean_bound(a, b):
    """How far the means of two samples of one law may be apart."""
    parts = [statistics.variance(blocks(values)) / BLOCKS for values in (a, b)]
    total = sum(parts)
    # Welch and Satterthwaite; the quantile is meant for this many degrees or more.
    degrees = max(BLOCKS - 1, total**2 / (sum(part**2 for part in parts) / (BLOCKS - 1))) if total > 0 else BLOCKS
    return student(degrees) * math.sqrt(total)


def distance(a, b, shift=0):
    """The largest distance of two distribution functions, beyond what a shift of up to `shift` in either direction explains."""
    a, b = sorted(a), sorted(b)

    def above(x, y):
        """The most by which the distribution function of x is above that of y, when y may be shifted."""
        at = ((position + 1, value) for position, value in enumerate(x))
        return max(position / len(x) - bisect.bisect_right(y, value + shift) / len(y) for position, value in at)

    return max(0.0, above(a, b), above(b, a))


def distance_bound(count, other):
    """How far the distribution functions of two samples of one law may be apart."""
    return math.sqrt(math.log(math.e / CHANCE) / 2 * (count + other) / (count * other))


def run_lengths(flags):
    """The lengths of runs of true values."""
    lengths, current = [], 0
    for flag in [*flags, False]:
        if flag:
            current += 1
        elif current:
            lengths.append(current)
            current = 0
    return lengths


@dataclasses.dataclass
class Row:
    """One figure of a case: what each shows, and the verdict."""

    figure: str
    netem: str
    weir: str
    bound: str
    same: bool


def exact(figure, of):
    """A figure that must be equal; lists are shown by their length."""
    def compare(netem, weir):
        found = [of(run) for run in (netem, weir)]
        shown = [f"{len(value)}" if isinstance(value, list) else f"{value}" for value in found]
        first = next((at for at, pair in enumerate(zip(*found)) if pair[0] != pair[1]), None) if isinstance(found[0], list) else None
        same = found[0] == found[1]
        where = "" if same or first is None else f", first at {first}: {found[0][first]}, {found[1][first]}"
        return Row(figure, *shown, f"exact{where}", same)
    return compare


def mean(figure, of, scale=1.0, unit="", allowance=0):
    """A mean of frames, in order."""
    def compare(netem, weir):
        a, b = of(netem), of(weir)
        bound = allowance + mean_bound(a, b)
        means = [statistics.fmean(values) for values in (a, b)]
        shown = [f"{value / scale:.4g}{unit}" for value in means]
        return Row(figure, *shown, f"±{bound / scale:.2g}{unit}", abs(means[0] - means[1]) <= bound)
    return compare


def distribution(figure, of, scale=1.0, unit="", shift=0):
    """The distribution of independent values; both cells show the median, and of how many."""
    def compare(netem, weir):
        a, b = of(netem), of(weir)
        shown = [f"{statistics.median(values) / scale:.4g}{unit} of {len(values)}" if values else "none" for values in (a, b)]
        if not a or not b:
            return Row(figure, *shown, "", len(a) == len(b))
        found, bound = distance(a, b, shift), distance_bound(len(a), len(b))
        return Row(figure, *shown, f"distance {found:.3f}, at most {bound:.3f}", found <= bound)
    return compare


def times(figure, of, late=LATE_NS):
    """Times, one by one, which may differ by `late`."""
    def compare(netem, weir):
        a, b = of(netem), of(weir)
        worst = max((abs(x - y) for x, y in zip(a, b)), default=0)
        shown = [f"{values[0] / MS:.3f}…{values[-1] / MS:.3f} ms" if values else "none" for values in (a, b)]
        return Row(figure, *shown, f"{worst / MS:.3f}, at most {late / MS:g} ms", len(a) == len(b) and worst <= late)
    return compare


# Arrivals.
ORDER = exact("frames, in order of arrival", lambda run: [number for number, _, _ in run.arrivals])
FRAMES = exact("arrived frames and copies", lambda run: sorted(run.copies.elements()))
DELAY = times("minimum and maximum delay", lambda run: [min(run.delays), max(run.delays)])
FIRST = times("delay of the first frame", lambda run: run.delays[:1])
DEPARTURES = times("times of arrival", lambda run: [ns - run.arrivals[0][1] for _, ns, _ in run.arrivals])
SLOT_SIZES = exact("maximum number of frames in a slot", lambda run: max(map(len, slots(run))))
SLOT_TIMES = times("time from slot to slot", lambda run: spaces(slots(run)))
# Losses.
LOSS = mean("loss", lambda run: run.lost, 0.01, " %")
BURSTS = distribution("lengths of loss bursts", lambda run: run_lengths(run.lost))
GAPS = distribution("lengths between bursts", lambda run: run_lengths([not lost for lost in run.lost]))
LOSSES = [LOSS, BURSTS, GAPS]


def slots(run):
    """The times of frames that arrived together, within LATE_NS of the one before."""
    found = []
    for _, ns, _ in run.arrivals:
        if not found or ns - found[-1][-1] > LATE_NS:
            found.append([])
        found[-1].append(ns)
    return found


def spaces(groups):
    """The shortest and the longest time from the start of a group to the next, without the first group, which waits for its slot."""
    starts = [group[0] for group in groups[1:]]
    between = [later - earlier for earlier, later in zip(starts, starts[1:])]
    return [min(between), max(between)]


def copied(run):
    """For each number, how many copies arrived."""
    return [run.copies[number] for number in sorted(run.sent)]


def changed(run):
    """For each arrived frame, whether it was changed."""
    return [what != UNCHANGED for _, _, what in run.arrivals]


COPIES = mean("frames that arrived, for each sent", copied)
COPIED = mean("frames that arrived twice", lambda run: [count == 2 for count in copied(run)], 0.01, " %")
COPIED_RUNS = distribution("lengths of runs that arrived twice", lambda run: run_lengths([count == 2 for count in copied(run)]))
CHANGED = mean("changed frames", changed, 0.01, " %")
SEVERAL_BITS = exact("frames with several changed bits", lambda run: sum(what == SEVERAL for _, _, what in run.arrivals))
BITS = distribution("position of the changed bit", lambda run: [what for _, _, what in run.arrivals if what < SEVERAL])
# Delays.
MEAN = mean("mean delay", lambda run: run.delays, MS, " ms", MEAN_LATE_NS)
SPREAD = mean("variance of the delay", lambda run: squares(run.delays), MS * MS, " ms²")
SHAPE = distribution("distribution of the delay", lambda run: run.delays, MS, " ms", MEAN_LATE_NS)
LAG = mean("covariance of consecutive delays", lambda run: products(run.delays), MS * MS, " ms²")
DELAYS = [FRAMES, MEAN, SPREAD, SHAPE, LAG]


def squares(values):
    """Squared distances from the mean."""
    middle = statistics.fmean(values)
    return [(value - middle)**2 for value in values]


def products(values):
    """Products of the distances of consecutive values from the mean."""
    middle = statistics.fmean(values)
    return [(x - middle) * (y - middle) for x, y in zip(values, values[1:])]


def early(run):
    """For each frame, whether it was hardly delayed."""
    return [delay < 2 * LATE_NS for delay in run.delays]


EARLY = mean("frames that were not delayed", early, 0.01, " %")
EARLY_RUNS = distribution("lengths of runs that were not delayed", lambda run: run_lengths(early(run)))
REORDERED = [FRAMES, EARLY, EARLY_RUNS, MEAN]


@dataclasses.dataclass
class Case:
    """Words of netem, the frames to send, what is compared, and figures that are known to differ, with the reason."""

    words: str
    figures: list
    packets: int = 20_000
    spacing_us: int = 200
    burst: int = 1
    size: int = 100
    wait_ms: int = 300
    differs: dict = dataclasses.field(default_factory=dict)

    def probe_arguments(self):
        """Arguments of guest/probe.c."""
        return f"{self.packets} {self.spacing_us} {self.burst} {self.size} {self.wait_ms}"


def few(words, figures, packets=100, **options):
    """A case without chance."""
    return Case(words, figures, packets=packets, **options)


# Why netem and Weir differ, and both as they are meant.
CORRELATION = "netem's correlation narrows its draws, so that fewer are below the percentage"
LOST_COPIES = "netem's copies pass the loss too, and a lost packet leaves its copy"

CASES = [
    few("limit 1000", [ORDER, DELAY]),
    few("loss 0%", [ORDER]),
    few("loss 100%", [ORDER]),
    few("duplicate 100%", [FRAMES]),
    few("delay 20ms", [ORDER, DELAY]),
    # Each frame arrives 10 ms or more from others.
    few("delay 110ms reorder 100% gap 5", [ORDER], spacing_us=20_000),
    few("rate 1mbit", [ORDER, FIRST, DEPARTURES], packets=20, burst=20, size=1000),
    few("rate 1mbit 20 100 5", [ORDER, FIRST, DEPARTURES], packets=20, burst=20, size=777),
    few("rate 100kbps limit 10", [ORDER, DEPARTURES], packets=50, burst=50, size=1000, wait_ms=1000),
    few("delay 10ms rate 1mbit", [ORDER, FIRST, DEPARTURES], packets=20, burst=20, size=1000),
    few("slot 10ms packets 4", [ORDER, SLOT_SIZES, SLOT_TIMES, DEPARTURES], packets=22, burst=22,
        differs={DEPARTURES: "netem's first slot is an interval after the first packet"}),
    Case("loss 10%", LOSSES),
    Case("loss random 1%", LOSSES),
    Case("loss 10% 25%", LOSSES, differs={LOSS: CORRELATION, BURSTS: CORRELATION, GAPS: CORRELATION}),
    Case("loss gemodel 5% 20%", LOSSES),
    Case("loss gemodel 5% 20% 70% 2%", LOSSES),
    Case("loss state 5% 30%", LOSSES),
    Case("loss state 5% 30% 10% 60% 2%", LOSSES),
    Case("duplicate 10%", [COPIES, COPIED, COPIED_RUNS]),
    Case("duplicate 10% 25%", [COPIES, COPIED, COPIED_RUNS],
         differs=dict.fromkeys([COPIES, COPIED, COPIED_RUNS], "tc does not pass this correlation on to the kernel")),
    Case("loss 20% duplicate 20%", [COPIES, LOSS, COPIED], differs={LOSS: LOST_COPIES, COPIED: LOST_COPIES}),
    Case("corrupt 10%", [FRAMES, CHANGED, SEVERAL_BITS, BITS]),
    Case("delay 10ms reorder 25%", REORDERED),
    Case("delay 10ms reorder 25% 50%", REORDERED, differs=dict.fromkeys([EARLY, EARLY_RUNS, MEAN], CORRELATION)),
    Case("delay 10ms 2ms reorder 25%", [*REORDERED, SHAPE]),
    Case("delay 40ms 10ms", DELAYS),
    Case("delay 40ms 10ms distribution normal", DELAYS),
    Case("delay 40ms 5ms distribution pareto", DELAYS,
         differs=dict.fromkeys([SPREAD, SHAPE], "netem's table is stretched by 15 % and cut at 4 standard deviations")),
    Case("delay 40ms 5ms distribution paretonormal", DELAYS, differs={SPREAD: "netem's table is cut at 4 standard deviations"}),
    Case("delay 40ms 10ms 25%", DELAYS, differs={LAG: "netem takes the remainder of its correlated number, which is not correlated"}),
    Case("delay 40ms 10ms 25% distribution normal", DELAYS, differs={LAG: "netem takes the remainder of its correlated number, which is not correlated"}),
    Case("delay 5ms 1ms rate 10mbit", [ORDER, MEAN, SPREAD]),
]


def unplanned(report):
    """Frames that Weir's report counts as dropped without a law."""
    return sum(direction["unplanned_dropped_packets"] for direction in json.loads(report)["directions"])


def report(cases, files, out):
    """Compares all cases; returns the exit code."""
    rows = [("netem", "figure", "netem", "weir", "bound", "verdict")]
    failed = False
    for number, case in enumerate(cases):
        netem, weir = (Run(files[f"{number}.{name}"]) for name in ("netem", "weir"))
        dropped = unplanned(files[f"{number}.report"])
        found = [(compare, compare(netem, weir)) for compare in case.figures]
        if dropped:
            found.append((None, Row("dropped without a law", "-", f"{dropped}", "0", False)))
        for compare, row in found:
            known = case.differs.get(compare)
            failed |= not row.same and known is None
            verdict = "same" if row.same else "DIFFERENT" if known is None else f"known: {known}"
            rows.append((case.words, row.figure, row.netem, row.weir, row.bound, verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[-1]]).rstrip(), file=out)
    return int(failed)
