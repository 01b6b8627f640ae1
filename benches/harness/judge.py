"""Verdicts from paired runs: medians with bootstrap bounds, never a single figure."""

import random
import statistics

PAIRS_LEAST = 15
PAIRS_MOST = 45
RESAMPLES = 10_000
CONFIDENCE = 0.95


def bounds(values, seed=1):
    """Median of `values` with its one-sided lower and upper 95 % bounds (percentile bootstrap, fixed seed);
    None, None for fewer than three values."""
    middle = statistics.median(values)
    if len(values) < 3:
        return middle, None, None
    draw = random.Random(seed)
    size = len(values)
    medians = sorted(statistics.median(draw.choices(values, k=size)) for _ in range(RESAMPLES))
    cut = int(RESAMPLES * (1 - CONFIDENCE))
    return middle, medians[cut], medians[RESAMPLES - 1 - cut]


def verdict(values, operator, bar):
    """`met`, `missed` or `undecided` for "median `operator` bar"; without a bar, `info`."""
    middle, low, high = bounds(values)
    if bar is None:
        word = "info"
    elif len(values) < PAIRS_LEAST:
        word = "undecided"
    elif operator == ">=":
        word = "met" if low >= bar else "missed" if high < bar else "undecided"
    elif operator == "<=":
        word = "met" if high <= bar else "missed" if low > bar else "undecided"
    else:
        raise ValueError(f"operator {operator!r}: >= or <= is known")
    return {"verdict": word, "median": middle, "lower": low, "upper": high, "pairs": len(values)}
