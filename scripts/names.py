#!/usr/bin/env python3
"""Checks that code names no member of an open family outside the member's own files: it asks what the member can do.

    scripts/names.py [ROOT]

FAMILIES lists the families (transports, laws, header formats, session protocols), each with the list that registers its
members, the files that may name them, and what naming is. Tests may name any. Making a plan with a member
(`Transport::udp()`, `"64..1400"`) is no question and allowed, comparing with one is not.

Exit: 0 the rule holds, 1 each breach is named on stderr.
"""

import dataclasses
import pathlib
import re
import sys

import rust_source

MODEL = "crates/model/src"
# `wire::packet` has a `Transport` of its own: what a packet carries, by IP's protocol field.
PACKETS = re.compile(r"\bpacket::(?:Transport\b|\{[^}]*\bTransport\b)|\benum Transport\b")


@dataclasses.dataclass(frozen=True)
class Family:
    """An open family: `list` matches its registration, `entry` a line of that (type, then module). A naming is matched by
    one of `patterns`, in which TYPES, MODULES and LABELS stand for the members. `own` may name them. A family without its
    registration has no members yet."""

    name: str
    registration: str
    list: str
    entry: str
    own: tuple
    patterns: tuple
    instead: str


def laws(name, registration, list_of, own, slot, running, fields=True):
    """A family of laws: those of the slot `slot`, `running` at work."""
    # `use`d or qualified by the family's module; some names (Normal, Constant) are words of others too.
    patterns = [rf"\b(?:{slot}|{running})::(?:TYPES|\*)(?!\w)"]
    if fields:
        patterns.append(rf"\b{slot} *\{{[^{{}}]*\b(?:MODULES)\b *[:,}}]")
        patterns.append(rf"\b{slot.lower()}(?:\.\w+\(\))*\.(?:MODULES)\b(?!\()")
        patterns.append(r"\bimpairment::(?:\{[^}]*\b)?(?:TYPES)\b")
    return Family(name, registration, list_of, r"^\s+(?P<module>\w+): (?P<type>[A-Z]\w*),$", own, tuple(patterns),
                  "ask the law (its moments, bounds, draws)")


FAMILIES = (
    Family(
        "transport", f"{MODEL}/plan/transport/mod.rs", r"^transports! \{\n(.*?)^\}",
        r"^    (?P<type>[A-Z]\w*): (?P<module>\w+)\([\w:]+\),$",
        # Protocols and files of other tools name transports in words of their own.
        (f"{MODEL}/plan/transport/", "crates/traffic/src/transport/", "crates/peers/src/", "crates/exchange/src/"),
        (
            r"\bTransportName::(?:TYPES)\b",
            r"\bTransport::(?:TYPES)\b",
            r"\bTransportName::(?:\*|\{)",
            r"[=!]= *(?:\w+::)*Transport::(?:MODULES)\(\)",
            r'\blabel\(\) *[=!]= *"(?:LABELS)"',
        ),
        "ask what the transport can do (plan::Description)",
    ),
    laws("loss law", f"{MODEL}/impairment/loss/mod.rs", r"^slot_of_laws! \{.*?^    \{\n(.*?)^    \}",
         (f"{MODEL}/impairment/loss/",), "Loss", "LossLaw"),
    laws("delay law", f"{MODEL}/impairment/delay/mod.rs", r"^slot_of_laws! \{.*?^    \{\n(.*?)^    \}\n    \{",
         (f"{MODEL}/impairment/delay/", f"{MODEL}/law/distribution/"), "Delay", "DelayLaw"),
    laws("size law", f"{MODEL}/plan/size/mod.rs", r"^choice_of_laws! \{.*?^    \{\n(.*?)^\}",
         (f"{MODEL}/plan/size/", f"{MODEL}/law/distribution/"), "Size", "SizeLaw", fields=False),
    laws("interval law", f"{MODEL}/plan/spacing/mod.rs", r"^choice_of_laws! \{.*?^    \{\n(.*?)^\}",
         (f"{MODEL}/plan/spacing/", f"{MODEL}/law/distribution/"), "Spacing", "SpacingLaw", fields=False),
    Family(
        "header format", "crates/wire/src/header/mod.rs", r"^formats! \{\n(.*?)^\}",
        r"^    (?P<type>[A-Z]\w*): (?P<module>\w+)\b[^\n]*,$",
        # A session protocol has the header of its tool.
        ("crates/wire/src/header/", f"{MODEL}/plan/header", "crates/peers/src/"),
        (
            r"\bHeaderFormat::(?:\*|\{)",
            r"[=!]= *(?:\w+::)*HeaderFormat::(?:TYPES)\b",
            r"\bmatches!\([^;]*\bHeaderFormat::(?:TYPES)\b",
            r"\bHeaderFormat::(?:TYPES)\b[^\n;,]*=>",
        ),
        "ask what the header carries (wire::header::Carries)",
    ),
    Family(
        "session protocol", "crates/peers/src/lib.rs", r"^pub static PROTOCOLS: &\[Protocol\] =\s+&\[(.*?)\];",
        r"\b(?P<module>\w+)::PROTOCOL\b",
        ("crates/peers/src/",),
        (r"\bweir_peers::(?:\{[^}]*\b)?(?:MODULES)\b", r'\bname *[=!]= *"(?:LABELS)"'),
        "ask the list of protocols",
    ),
)


def declared(family, text):
    """Members of the registration: (type or None, module)."""
    block = re.search(family.list, text, re.S | re.M)
    if not block:
        return []
    entries = re.finditer(family.entry, rust_source.without_comments(block.group(1)), re.M)
    return [(entry.groupdict().get("type"), entry["module"]) for entry in entries]


def patterns(family, members):
    fill = {
        "TYPES": "|".join(kind for kind, _ in members if kind),
        "MODULES": "|".join(module for _, module in members),
        "LABELS": "|".join(module.replace("_", "-") for _, module in members),
    }
    for pattern in family.patterns:
        yield re.compile(re.sub("|".join(fill), lambda match: fill[match.group()], pattern))


def breaches(root, families=FAMILIES):
    found = []
    sources = []
    for path in sorted((root / "crates").glob("*/src/**/*.rs")):
        where = path.relative_to(root)
        if not rust_source.is_test(where):
            text = rust_source.without_comments(rust_source.without_tests(path.read_text()))
            sources.append((where.as_posix(), text))
    for family in families:
        registration = root / family.registration
        if not registration.exists():
            continue
        members = declared(family, registration.read_text())
        if not members:
            found.append(f"{family.registration}: no {family.name} found: correct scripts/names.py")
            continue
        wanted = list(patterns(family, members))
        for where, text in sources:
            if where.startswith(family.own):
                continue
            has_packets = family.name == "transport" and PACKETS.search(text)
            for pattern in wanted:
                if has_packets and pattern.pattern.startswith(r"\bTransport::"):
                    continue
                for match in pattern.finditer(text):
                    line = text.count("\n", 0, match.start()) + 1
                    named = " ".join(match.group().split())
                    found.append(f"{where}:{line}: `{named}` names a {family.name}: {family.instead}")
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = breaches(root)
    for breach in found:
        print(breach, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
