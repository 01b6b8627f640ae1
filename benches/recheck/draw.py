"""Random parameters of a run, the same for the same seed and number."""
import random

UDP_LAWS = ["none", "loss", "burst", "nth", "constant", "uniform-allow", "normal-fifo-release",
            "exponential", "duplicate", "rate", "rate-delay", "corrupt-leave", "corrupt-repair", "everything",
            "late", "outage", "burst-jitter", "shuffle"]
TCP_LAWS = ["none", "loss", "burst", "constant", "uniform-allow", "normal-fifo-release", "rate", "rate-delay",
            "everything", "duplicate", "corrupt-leave", "nth"]
DIRECTIONS = ["forward", "reverse", "bidir"]


def rounded(random_, low, high, digits=3):
    """Uniform in the logarithm, with few digits."""
    value = low * (high / low) ** random_.random()
    return float(f"{value:.{digits}g}")


def plain(value):
    return f"{value:f}".rstrip("0").rstrip(".")


def laws_of(kind, rng, offered, tcp):
    """One line of the emulator's laws. `offered` is the direction's wire rate in bit/s; of TCP a target."""
    def loss():
        return f"loss {plain(rounded(rng, 0.2, 2 if tcp else 12))}%"

    def burst():
        percentage, run = rounded(rng, 0.3, 2 if tcp else 8), rng.choice([2, 3, 5, 8])
        return f"loss {plain(percentage)}% run {run}"

    def constant():
        return f"delay {rng.randint(1, 40)}ms"

    def jitter(shape, order):
        mean = rng.randint(4, 30)
        spread = plain(rounded(rng, 0.2, mean / 3, 2))
        return f"delay {mean}ms ±{spread}ms {shape} {order}"

    def duplicate():
        return f"duplicate {plain(rounded(rng, 0.5, 8))}%"

    def rate(factor):
        queue = rng.choice([f"{rng.randint(20, 200)}ms", f"{rng.randint(16, 96)}K", f"{rng.randint(20, 100)}packets"])
        return f"rate {max(100, int(offered * factor / 1000))}k queue {queue}"

    def corrupt(checksum):
        return f"corrupt {plain(rounded(rng, 0.3, 1 if tcp else 5))}% {checksum} flip {rng.choice([1, 2, 5])}"

    factor = 1.0 if tcp else rng.choice([0.7, 0.85, 0.95, 1.1])
    if kind == "none":
        return "none"
    if kind == "loss":
        return loss()
    if kind == "burst":
        return burst()
    if kind == "nth":
        return f"loss every {rng.randint(50, 200) if tcp else rng.randint(5, 60)}"
    if kind == "constant":
        return constant()
    if kind in ("uniform-allow", "normal-allow", "normal-fifo-release"):
        return jitter(*kind.split("-", 1))
    if kind == "exponential":
        return f"delay {rng.randint(11, 20)}ms ±{rng.randint(2, 10)}ms exponential most 100ms allow"
    if kind == "duplicate":
        return duplicate()
    if kind == "rate":
        return rate(factor)
    if kind == "rate-delay":
        return f"{rate(factor)}, {constant()}"
    if kind == "corrupt-leave":
        return corrupt("leave")
    if kind == "corrupt-repair":
        return corrupt("repair")
    if kind == "burst-jitter":
        return f"{burst()}, {jitter('normal', 'allow')}"
    if kind == "late":  # with a short loss threshold, see below
        return f"{loss()}, delay 1ms..{rng.randint(250, 400)}ms allow"
    if kind == "outage":  # losses one after another
        return f"loss ge {plain(rounded(rng, 0.5, 2))}% to-good {rng.randint(4, 10)}%"
    if kind == "shuffle":  # displaces most packets by more than 32
        return f"delay 40ms ±{rng.randint(8, 12)}ms normal allow"
    if kind == "everything":
        if tcp:
            return f"{loss()}, {rate(1.0)}, {jitter('normal', 'fifo-release')}"
        return f"{loss()}, {duplicate()}, {rate(1.2)}, {jitter('uniform', 'allow')}"
    raise ValueError(kind)


def payload_of(rng, kind, family):
    if kind == "corrupt-repair":
        return rng.choice([2, 4, 8, 16, 24, 32, rng.randint(32, 1400), rng.randint(32, 1400)])
    if kind == "shuffle":
        return rng.randint(32, 200)
    largest = 1472 if family == 4 else 1452
    return rng.choice([rng.randint(32, 1400), rng.randint(32, 400), rng.randint(400, largest), 64, largest,
                       rng.randint(16, 31), rng.randint(8, 15), rng.choice([0, 1, 2, 3, 4, 7])])


def parameters(seed, number):
    """Parameters of run `number` (from 0) of a series."""
    rng = random.Random(f"recheck:{seed}:{number}")
    # 3 of 5 runs are UDP; each kind of law, direction and family comes before one comes again.
    order = random.Random(f"recheck:{seed}:order")
    tcp = number % 5 in (1, 3)
    decks = {True: TCP_LAWS[:], False: UDP_LAWS[:]}
    for deck in decks.values():
        order.shuffle(deck)
    nth = sum(1 for n in range(number) if (n % 5 in (1, 3)) == tcp)
    kind = decks[tcp][nth % len(decks[tcp])]
    family = 4 if rng.random() < 0.5 else 6
    direction = rng.choice(DIRECTIONS)
    parallel = rng.choice([1, 1, 2, 3, 4])
    seconds = rng.choice([3, 3.5, 4, 5])
    if kind == "shuffle":
        parallel = 1
    flags = ["-4" if family == 4 else "-6", "-i", rng.choice(["1", "1", "0.5", "0.8"])]
    if direction != "forward":
        flags.append({"reverse": "-R", "bidir": "--bidir"}[direction])
    if parallel > 1:
        flags += ["-P", str(parallel)]
    given = {"number": number + 1, "transport": "tcp" if tcp else "udp", "family": family, "kind": kind,
             "direction": direction, "parallel": parallel}
    both = 2 if direction == "bidir" else 1
    if tcp:
        if rng.random() < 0.4:
            flags += ["-l", rng.choice(["1000", "4K", "16K", "128K", "256K"])]
        if rng.random() < 0.25:
            flags += ["-M", str(rng.randint(536, 1300))]
        flags += ["-C", rng.choice(["cubic", "reno", "bbr"])]
        target = rounded(rng, 4e6, 20e6, 2)
        limited = "rate" in kind or kind == "everything"
        if not limited or rng.random() < 0.3:
            flags += ["-b", f"{int(target / parallel / both / 1000)}k"]
        if rng.random() < 0.25:
            size = int(target / parallel / both * seconds / 8 / 1024)
            flags += ["-n", f"{size}K"]
            given["ends_by"] = "count"
        else:
            flags += ["-t", str(seconds)]
        offered = target / both
    else:
        flags.append("-u")
        payload = payload_of(rng, kind, family)
        per_flow = rounded(rng, 150, min(1800, 4000 / parallel / both), 3)
        if kind == "shuffle":
            per_flow = rng.randint(4000, 6000) / parallel / both
        if kind == "late":
            per_flow = min(per_flow, 600)
            flags += ["--loss-threshold", f"{rng.choice([80, 100, 150])}ms"]
        given["payload"] = payload
        flags += ["-l", str(payload)]
        if rng.random() < 0.3 and payload >= 32 and kind != "shuffle":
            flags += ["-b", f"{max(20, int(per_flow * payload * 8 / 1000))}k"]
        else:
            flags += ["-b", f"{int(per_flow)}pps"]
        if kind.startswith("corrupt") and rng.random() < 0.5:
            flags.append("--verify")
            given["verify"] = True
        if rng.random() < 0.2:
            flags += ["-k", str(int(per_flow * seconds))]
            given["ends_by"] = "count"
        else:
            flags += ["-t", str(seconds)]
        header = 28 if family == 4 else 48
        offered = per_flow * parallel * (payload + header + 18) * 8
    given.setdefault("ends_by", "time")
    given["seconds"] = seconds
    flags += ["--seed", str(rng.getrandbits(32))]
    law = laws_of(kind, rng, offered, tcp)
    way_back = rng.choice(["none", f"delay {rng.randint(1, 10)}ms"])
    second = laws_of(kind, rng, offered, tcp) if direction == "bidir" else way_back
    given["a_to_b"], given["b_to_a"] = (second, law) if direction == "reverse" else (law, second)
    given["emulator_seed"] = rng.getrandbits(32)
    given["flags"] = flags
    given["mode"] = rng.choice(["text", "text", "json-stream", "json", "page"])
    return given


def impairment(given):
    """The emulator's configuration (weir.impair/1, TOML)."""
    text = f'schema = "weir.impair/1"\nseed = "{given["emulator_seed"]}"\n'
    laws = f'a_to_b = "{given["a_to_b"]}"\nb_to_a = "{given["b_to_a"]}"\n'
    if given["kind"] in ("corrupt-repair", "outage"):
        # Damage with a right checksum, and long outages, would break the control connection: not under test.
        return text + f'[[flow]]\nname = "datagrams"\nfilter = {{ protocol = "udp" }}\n{laws}'
    return text + f"[other]\n{laws}"


def in_words(given):
    """One line for the tables."""
    return (f"{given['transport']} {' '.join(given['flags'])} | a→b: {given['a_to_b']} | "
            f"b→a: {given['b_to_a']} | {given['mode']}")
