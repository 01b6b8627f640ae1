#!/usr/bin/env python3
"""Checks that the tests under crates/*/tests assert on fields and codes, not on sentences.

    scripts/prose.py [ROOT]

A sentence is three words in a row in a string that an assertion compares with, or that `contains`, `starts_with` and the like look
for. The messages of assertions and command lines are no sentences. scripts/prose.txt lists the strings that are right: names,
documents, and the texts of other programs. What a text looks like is a golden file's matter.

Exit: 0 the rule holds, 1 each breach is named on stderr.
"""

import pathlib
import re
import sys

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)
WORDS = re.compile(r"[a-z]{2,}[,:;.]? [a-z]{2,}[,:;.]? [a-z]{2,}")
ASSERTION = re.compile(r"\bassert(?P<two>_eq|_ne)?!\(")
SEARCH = re.compile(r"\b(?:contains|starts_with|ends_with|strip_prefix|strip_suffix|split_once|rsplit_once|find)\(")
CHARACTER = re.compile(r"'(?:\\.[^']*|[^'\\])'")
# Arguments of programs, which tests of suggested commands compare.
COMMAND = re.compile(r"^(?:weir|ip|nft|tc|sysctl) ")
# Its tests are of the texts.
EXEMPT = ("crates/report/",)


def arguments(text, start):
    """The arguments of a call whose parenthesis was opened before `start`."""
    depth, at, begin, out = 1, start, start, []
    while depth and at < len(text):
        string = STRING.match(text, at) or CHARACTER.match(text, at)
        if string:
            at = string.end()
            continue
        char = text[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 1:
            out.append((begin, text[begin:at]))
            begin = at + 1
        at += 1
    return [*out, (begin, text[begin : at - 1])]


def compared(text):
    """(offset, text) of what assertions compare and searches look for."""
    for call in ASSERTION.finditer(text):
        yield from arguments(text, call.end())[: 2 if call["two"] else 1]
    for call in SEARCH.finditer(text):
        yield from arguments(text, call.end())[:1]


def found(text):
    """(line, string) of each sentence that a test compares with."""
    out = set()
    for start, part in compared(text):
        for string in STRING.finditer(part):
            value = re.sub(r"\\\n\s*", "", string[1])
            if WORDS.search(value) and not COMMAND.match(value):
                out.add((text.count("\n", 0, start + string.start()) + 1, value))
    return sorted(out)


def allowed(root):
    """The strings of prose.txt, by path."""
    lines = (root / "scripts/prose.txt").read_text().splitlines()
    pairs = (line.split(": ", 1) for line in lines if line and not line.startswith("#"))
    out = {}
    for path, string in pairs:
        out.setdefault(path, set()).add(string)
    return out


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent.parent)
    right, breaches = allowed(root), 0
    for file in sorted(root.glob("crates/*/tests/**/*.rs")):
        path = file.relative_to(root).as_posix()
        if path.startswith(EXEMPT):
            continue
        for line, string in found(file.read_text()):
            if string not in right.get(path, ()):
                breaches += 1
                print(f"{path}:{line}: assert on a field or code instead of {string!r}", file=sys.stderr)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
