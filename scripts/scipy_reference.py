#!/usr/bin/env python3
"""The statistics of `weir_stats::compare` by scipy and numpy: the golden numbers that crates/stats/tests/all/compare.rs reads.

    scripts/scipy_reference.py [--write]

Without --write the committed numbers are computed again and compared. Exit: 0 they agree, 1 one does not, 4 scipy is
not installed (Debian: python3-scipy).
"""
import collections
import fractions
import json
import math
import pathlib
import sys

try:
    import numpy
    import scipy
    from scipy import optimize, special, stats
except ImportError:
    print("SKIPPED statistics against scipy: python3-scipy is not installed", file=sys.stderr)
    sys.exit(4)

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "crates/stats/tests/golden/compare.json"


def samples():
    """Pairs of samples: sizes, spreads, ties and outliers that differ."""
    random = numpy.random.default_rng(20261122)
    normal = lambda n, mean, deviation: [float(v) for v in random.normal(mean, deviation, n).round(6)]
    whole = lambda n, low, high: [float(v) for v in random.integers(low, high, n)]
    yield "small", normal(5, 10, 1), normal(6, 12, 1)
    yield "unequal variances", normal(8, 100, 1), normal(25, 101, 9)
    yield "same law", normal(12, 5, 2), normal(14, 5, 2)
    yield "three and three", [1.0, 2.0, 3.0], [4.5, 5.5, 7.0]
    yield "ties", whole(15, 0, 6), whole(20, 1, 8)
    yield "many", normal(120, 940e6, 3e6), normal(90, 941e6, 5e6)
    yield "far apart", normal(30, 0, 1), normal(30, 9, 1)
    yield "lognormal", [float(v) for v in random.lognormal(0, 1, 40).round(6)], [float(v) for v in random.lognormal(0.4, 1, 24).round(6)]
    yield "two and nine", normal(2, 3, 1), normal(9, 1, 1)
    yield "few with ties", whole(4, 0, 3), whole(6, 1, 5)
    yield "many with ties", whole(40, 0, 6), whole(50, 0, 7)


def hedges(a, b):
    n, m = len(a), len(b)
    degrees = n + m - 2
    pooled = (((n - 1) * numpy.var(a, ddof=1) + (m - 1) * numpy.var(b, ddof=1)) / degrees) ** 0.5
    correction = special.gamma(degrees / 2) / ((degrees / 2) ** 0.5 * special.gamma((degrees - 1) / 2)) if degrees < 300 else 1 - 3 / (4 * degrees - 1)
    return correction * (numpy.mean(a) - numpy.mean(b)) / pooled


def ties_exact(a, b):
    """Mann-Whitney with ties over all choices: scipy's permutations where they are few, else counted in whole numbers."""
    of = lambda x, y: stats.mannwhitneyu(x, y, method="asymptotic").statistic
    if math.comb(len(a) + len(b), len(a)) <= 5000:
        return stats.permutation_test((a, b), of, n_resamples=math.inf, alternative="two-sided").pvalue
    ranks = [round(2 * r) for r in stats.rankdata(a + b)]
    ways = [collections.Counter() for _ in range(len(a) + 1)]
    ways[0][0] = 1
    for rank in ranks:
        for k in range(len(a), 0, -1):
            for total, count in ways[k - 1].items():
                ways[k][total + rank] += count
    ways, own = ways[len(a)], sum(ranks[: len(a)])
    low = sum(count for total, count in ways.items() if total <= own)
    high = sum(count for total, count in ways.items() if total >= own)
    return min(1.0, float(fractions.Fraction(2 * min(low, high), math.comb(len(a) + len(b), len(a)))))


def pair(name, a, b):
    welch = stats.ttest_ind(a, b, equal_var=False)
    interval = welch.confidence_interval(0.99)
    tied = len(set(a) | set(b)) < len(a) + len(b)
    exact = len(a) * len(b) <= 1000
    u = stats.mannwhitneyu(a, b, alternative="two-sided", method="exact" if exact and not tied else "asymptotic")
    p = ties_exact(a, b) if exact and tied else u.pvalue
    ks = stats.ks_2samp(a, b, method="exact")
    wins = numpy.sign(numpy.subtract.outer(a, b))
    return {
        "name": name, "a": a, "b": b,
        "welch": {"t": welch.statistic, "degrees_of_freedom": welch.df, "p": welch.pvalue, "low": interval.low, "high": interval.high},
        "mann_whitney": {"u": u.statistic, "p": p, "exact": exact},
        "cliffs_delta": wins.mean(), "hedges_g": hedges(a, b),
        "kolmogorov_smirnov": {"statistic": ks.statistic, "p": ks.pvalue},
    }


def one_samples():
    random = numpy.random.default_rng(7)
    for name, size, shift in [("fits", 50, 0.0), ("shifted", 50, 0.4), ("few", 5, 0.1), ("hundred", 100, 0.15), ("many", 2000, 0.02)]:
        values = [float(v) for v in random.normal(shift, 1, size).round(6)]
        if size <= 100:
            test = stats.kstest(values, "norm", method="exact")
            p = test.pvalue
        else:
            test = stats.kstest(values, "norm", method="asymp")
            root = size ** 0.5
            p = stats.kstwobign.sf((root + 0.12 + 0.11 / root) * test.statistic)
        yield {"name": name, "values": values, "statistic": test.statistic, "p": p, "exact": size <= 100}


def large_pairs():
    """Beyond what is counted out: Stephens' form of Kolmogorov's limit."""
    random = numpy.random.default_rng(11)
    for size, other, shift in [(1500, 1200, 0.0), (1500, 1200, 0.06), (1100, 1000, 0.2)]:
        a = random.normal(0, 1, size).round(3)
        b = random.normal(shift, 1, other).round(3)
        statistic = stats.ks_2samp(a, b, method="asymp").statistic
        root = (size * other / (size + other)) ** 0.5
        yield {"a": a.tolist(), "b": b.tolist(), "statistic": statistic, "p": stats.kstwobign.sf((root + 0.12 + 0.11 / root) * statistic)}


def autocovariance(values):
    """By correlation of the whole series, unlike the sums in Rust."""
    centred = numpy.asarray(values) - numpy.mean(values)
    return numpy.correlate(centred, centred, "full")[len(values) - 1 :] / len(values)


def effective(values):
    covariance = autocovariance(values)
    if covariance[0] == 0:
        return float(len(values))
    rho = covariance / covariance[0]
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = numpy.flatnonzero(pairs <= 0)
    pairs = pairs[: stop[0]] if len(stop) else pairs
    coefficient = min(rho[1] + (1 + 3 * rho[1]) / len(values), 1 - 1 / len(values))
    return max(1.0, len(values) / max(1.0, 2 * pairs.sum() - 1, (1 + coefficient) / (1 - coefficient)))


def series():
    random = numpy.random.default_rng(5)
    for name, coefficient, size in [("white", 0.0, 60), ("weak", 0.3, 200), ("strong", 0.8, 300), ("short", 0.5, 10), ("alternating", -0.7, 81)]:
        values = [0.0]
        for shock in random.normal(0, 1, size + 50):
            values.append(coefficient * values[-1] + shock)
        values = [float(v) for v in numpy.round(values[-size:], 6)]
        covariance = autocovariance(values)
        size_worth = effective(values)
        yield {
            "name": name, "values": values, "lag1": covariance[1] / covariance[0], "lag3": covariance[3] / covariance[0],
            "effective_size": size_worth, "variance": covariance[0] / (1 - 1 / size_worth),
        }


def splitmix(seed):
    mask = (1 << 64) - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        value = seed
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & mask
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & mask
        yield value ^ (value >> 31)


def bootstrap():
    for seed, size, confidence in [(1, 15, 0.95), (2, 40, 0.9)]:
        values = [float(v) for v in numpy.random.default_rng(seed).lognormal(0, 1, size).round(6)]
        draws = splitmix(seed)
        medians = [numpy.median([values[(next(draws) * size) >> 64] for _ in range(size)]) for _ in range(1000)]
        tail = (1 - confidence) / 2
        low, high = numpy.quantile(medians, [tail, 1 - tail], method="inverted_cdf")
        yield {"seed": seed, "values": values, "resamples": 1000, "confidence": confidence, "low": low, "high": high}


def sweeps():
    """Two lines by numerical search over the breakpoint, unlike the closed form in Rust."""
    random = numpy.random.default_rng(3)
    offered = numpy.arange(1.0, 13.0)
    for name, capacity, after, noise, threshold in [("plateau", 6.5, 0.0, 0.01, 0.99), ("overload", 5.3, -0.4, 0.02, 0.99), ("soft", 8.0, 0.3, 0.005, 0.95)]:
        truth = numpy.minimum(offered, capacity) + after * numpy.maximum(offered - capacity, 0)
        received = (truth[:, None] * (1 + noise * random.normal(0, 1, (12, 5)))).round(6)

        def slopes(knee):
            basis = numpy.column_stack([numpy.minimum(offered, knee), numpy.maximum(offered - knee, 0)])
            found, *_ = numpy.linalg.lstsq(numpy.repeat(basis, 5, axis=0), received.ravel(), rcond=None)
            return found, ((numpy.repeat(basis @ found, 5) - received.ravel()) ** 2).sum()

        grid = numpy.linspace(1.5, 10.9, 400)
        near = grid[numpy.argmin([slopes(k)[1] for k in grid])]
        knee = optimize.minimize_scalar(lambda k: slopes(k)[1], bounds=(near - 0.05, near + 0.05), method="bounded", options={"xatol": 1e-12}).x
        (before, slope), _ = slopes(knee)
        point = optimize.brentq(lambda x: before * min(x, knee) + slope * max(x - knee, 0) - threshold * x, knee * 0.9, 20, xtol=1e-13) if before >= threshold else None
        yield {
            "name": name, "offered": offered.tolist(), "received": received.tolist(), "threshold": threshold,
            "breakpoint": knee, "slope_before": before, "slope_after": slope, "point": point,
        }


def compute():
    return {
        "made_with": f"scipy {scipy.__version__}, numpy {numpy.__version__}",
        "pairs": [pair(*sample) for sample in samples()],
        "one_samples": list(one_samples()),
        "large_pairs": list(large_pairs()),
        "series": list(series()),
        "bootstrap": list(bootstrap()),
        "sweeps": list(sweeps()),
        "holm": {"p": [0.001, 0.04, 0.03, 0.2, 0.012], "adjusted": holm([0.001, 0.04, 0.03, 0.2, 0.012])},
    }


def holm(p):
    """Step down: each p times the tests not yet passed, never below the one before."""
    order = numpy.argsort(p)
    raised = numpy.minimum(1, numpy.maximum.accumulate(numpy.asarray(p)[order] * (len(p) - numpy.arange(len(p)))))
    out = numpy.empty(len(p))
    out[order] = raised
    return out.tolist()


def plain(value):
    """JSON's own types."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value.item() if isinstance(value, numpy.generic) else value


def differences(ours, theirs, path=""):
    if isinstance(ours, dict):
        for key in ours:
            if key != "made_with":
                yield from differences(ours[key], theirs.get(key), f"{path}.{key}")
    elif isinstance(ours, list):
        for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(mine, other, f"{path}[{place}]")
    elif isinstance(ours, float):
        if theirs is None or abs(ours - theirs) > 1e-6 * abs(ours) + 1e-12:
            yield f"{path}: {ours} computed, {theirs} committed"
    elif ours != theirs:
        yield f"{path}: {ours} computed, {theirs} committed"


def main():
    computed = plain(compute())
    if "--write" in sys.argv[1:]:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(json.dumps(computed, separators=(",", ":")).replace("},{", "},\n{") + "\n")
        return 0
    found = list(differences(computed, json.loads(GOLDEN.read_text())))
    print("\n".join(found) if found else f"{GOLDEN.name}: all agree with scipy {scipy.__version__}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
