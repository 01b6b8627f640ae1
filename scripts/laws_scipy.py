#!/usr/bin/env python3
"""Loss and delay laws at fixed seeds against theory computed by scipy.

    scripts/laws_scipy.py PROGRAM      (cargo build --release -p weir-model --example draws)

Exit: 0 every law fits, 1 one does not, 4 scipy is not installed (Debian: python3-scipy).
"""
import subprocess
import sys

try:
    import numpy
    from scipy import stats
except ImportError:
    print("SKIPPED laws against scipy: python3-scipy is not installed", file=sys.stderr)
    sys.exit(4)

PACKETS = 400_000
SEEDS = (1, 2, 3)
# Fixed seeds: a law that fits now fits forever; the level only says how unlikely a bad one would pass unseen.
LEVEL = 1e-6
MS = 1e6

DELAYS = {
    "delay 40ms ±5ms normal": stats.norm(40 * MS, 5 * MS),
    "delay 100ms ±30ms normal": stats.norm(100 * MS, 30 * MS),
    "delay 20ms ±10ms uniform": stats.uniform(10 * MS, 20 * MS),
    "delay 30ms ±30ms exponential": stats.expon(0, 30 * MS),
    "delay 30ms ±10ms exponential": stats.expon(20 * MS, 10 * MS),
    "delay pareto(scale=10ms, shape=3)": stats.pareto(3, 0, 10 * MS),
    "delay gamma(shape=2, scale=5ms)": stats.gamma(2, 0, 5 * MS),
    "delay weibull(shape=1.5, scale=5ms)": stats.weibull_min(1.5, 0, 5 * MS),
    "delay log_normal(mean=10ms, deviation=5ms)": stats.lognorm(
        numpy.log(1.25) ** 0.5, 0, 10 * MS / 1.25**0.5),
    "delay student(degrees=4, location=900ms, scale=2ms)": stats.t(4, 900 * MS, 2 * MS),
    "delay cauchy(location=3000s, scale=1ms)": stats.cauchy(3_000_000 * MS, MS),
}
# Correlated, and the correlation of the normal numbers below.
CORRELATED = {
    "delay 40ms ±5ms normal correlation 60%": (stats.norm(40 * MS, 5 * MS), 0.6),
    "delay gamma(shape=2, scale=5ms) correlation 60%": (stats.gamma(2, 0, 5 * MS), 0.6),
    "delay 40ms ±5ms normal half-life 10ms": (stats.norm(40 * MS, 5 * MS), 0.5),
}
LOSSES = {"loss 0.1%": 0.001, "loss 1%": 0.01, "loss 10%": 0.1, "loss 50%": 0.5}
# Loss and mean run.
BURSTS = {"loss 5% run 4": (0.05, 4.0), "loss 5% 25%": (0.05, 1 / (0.95 * 0.75)), "loss 1% run 10": (0.01, 10.0), "loss 20% run 2": (0.2, 2.0)}


def draws(program, law, seed):
    out = subprocess.run([program, law, str(PACKETS), str(seed)], check=True, capture_output=True, timeout=120).stdout
    return numpy.array(out.split(), dtype=numpy.int64)


def run_lengths(lost):
    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([0], lost, [0]))))
    return edges[1::2] - edges[::2]


def geometric(lengths, end):
    """p of a chi-square test of lengths against the geometric law with this chance to end."""
    most = max(2, int(stats.geom.isf(10 / len(lengths), end)))
    expected = [stats.geom.pmf(k, end) for k in range(1, most)] + [stats.geom.sf(most - 1, end)]
    observed = [int((lengths == k).sum()) for k in range(1, most)] + [int((lengths >= most).sum())]
    return stats.chisquare(observed, numpy.array(expected) * len(lengths)).pvalue


def main():
    program = sys.argv[1]
    failed = False

    def judge(law, seed, test, p):
        nonlocal failed
        failed |= p < LEVEL
        print(f"{law:32} seed {seed}  {test:24} p = {p:.4f}{'' if p >= LEVEL else '  DOES NOT FIT'}")

    for seed in SEEDS:
        for law, theory in DELAYS.items():
            sample = draws(program, law, seed)
            judge(law, seed, "Kolmogorov-Smirnov", stats.kstest(sample, theory.cdf).pvalue)
            # Neighbours are independent.
            judge(law, seed, "rank correlation", stats.spearmanr(sample[:-1], sample[1:]).pvalue)
        for law, (theory, rho) in CORRELATED.items():
            # Packets so far apart are nearly independent.
            sample = draws(program, law, seed)
            judge(law, seed, "Kolmogorov-Smirnov", stats.kstest(sample[::40], theory.cdf).pvalue)
            normal = stats.norm.ppf(theory.cdf(sample))
            lag = numpy.corrcoef(normal[:-1], normal[1:])[0, 1]
            deviation = ((1 - rho * rho) / PACKETS) ** 0.5
            judge(law, seed, "correlation", 2 * stats.norm.sf(abs(lag - rho) / deviation))
        for law, p in LOSSES.items():
            lost = draws(program, law, seed)
            judge(law, seed, "binomial", stats.binomtest(int(lost.sum()), PACKETS, p).pvalue)
            judge(law, seed, "runs are geometric", geometric(run_lengths(lost), 1 - p))
        for law, (share, run) in BURSTS.items():
            lost = draws(program, law, seed)
            rho = 1 - 1 / run - share / (run * (1 - share))
            deviation = (PACKETS * share * (1 - share) * (1 + rho) / (1 - rho)) ** 0.5
            judge(law, seed, "count", 2 * stats.norm.sf(abs(lost.sum() - PACKETS * share) / deviation))
            judge(law, seed, "runs are geometric", geometric(run_lengths(lost), 1 / run))
            judge(law, seed, "gaps are geometric", geometric(run_lengths(1 - lost), share / (run * (1 - share))))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
