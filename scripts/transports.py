#!/usr/bin/env python3
"""Checks that no code asks which transport or header format a connection has: it asks what that can do.

    scripts/transports.py [ROOT]

The transports are those that `transports!` in crates/model/src/plan/transport/mod.rs declares. Outside that directory,
crates/traffic/src/transport/ and tests, no code names a variant (`TransportName::Udp`), imports one, or compares a
label. Making a plan with a transport (`Transport::udp()`) is no question and allowed, comparing with one is not.

Header formats (`HeaderFormat::None`) are named in crates/model/src/plan/header.rs, crates/wire/src/header/ and tests only.

Exit: 0 the rule holds, 1 each breach is named on stderr.
"""

import pathlib
import re
import sys

REGISTRATION = "crates/model/src/plan/transport/mod.rs"
OWN = ("crates/model/src/plan/transport/", "crates/traffic/src/transport/")
# Header formats: where they are named, and how.
FORMATS_OWN = ("crates/model/src/plan/header.rs", "crates/wire/src/header/")
FORMAT = re.compile(r"\bHeaderFormat::(?:[A-Z][a-z]\w*|\*|\{)")
# `wire::packet` has a `Transport` of its own: what a packet carries, by IP's protocol field.
PACKETS = re.compile(r"\bpacket::(?:Transport\b|\{[^}]*\bTransport\b)|\benum Transport\b")
ENTRY = re.compile(r"^    ([A-Z]\w*): (\w+)\(\w+\),$", re.M)
NOISE = re.compile(r"""//[^\n]*|/\*.*?\*/""", re.S)
TESTS = re.compile(r"^\s*#\[cfg\(test\)\]\s*\n\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{", re.M)


def declared(text):
    """Variants and modules of the registration."""
    start = text.index("\ntransports! {")
    return ENTRY.findall(text[start:text.index("\n}", start)])


def without_tests(text):
    """The source up to its inline tests, which are last in a file, and without comments; lines kept."""
    found = TESTS.search(text)
    text = text[: found.start()] if found else text
    return NOISE.sub(lambda match: "\n" * match.group().count("\n"), text)


def patterns(transports, packets):
    variants = "|".join(variant for variant, _ in transports)
    modules = "|".join(module for _, module in transports)
    labels = "|".join(module.replace("_", "-") for _, module in transports)
    kinds = "TransportName" if packets else "(?:TransportName|Transport)"
    yield re.compile(rf"\b{kinds}::(?:{variants})\b")
    yield re.compile(rf"\bTransportName::(?:\*|\{{)")
    yield re.compile(rf"[=!]= *(?:\w+::)*Transport::(?:{modules})\(\)")
    yield re.compile(rf'\blabel\(\) *[=!]= *"(?:{labels})"')


def breaches(root):
    transports = declared((root / REGISTRATION).read_text())
    found = []
    for path in sorted((root / "crates").glob("*/src/**/*.rs")):
        where = path.relative_to(root).as_posix()
        is_tests = path.stem.endswith("tests") or "/tests/" in where
        if is_tests:
            continue
        text = without_tests(path.read_text())
        for match in () if where.startswith(FORMATS_OWN) else FORMAT.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{where}:{line}: `{match.group()}`: ask what the header carries (wire::header::Carries)")
        if where.startswith(OWN):
            continue
        for pattern in patterns(transports, PACKETS.search(text)):
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{where}:{line}: `{match.group()}`: ask what the transport can do (plan::Description)")
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    found = breaches(root)
    for breach in found:
        print(breach, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
