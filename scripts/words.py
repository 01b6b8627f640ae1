#!/usr/bin/env python3
"""Checks the wording of comments, string literals and docs against scripts/words.txt.

    scripts/words.py [ROOT] [--all]

`--all` also reads what words.txt lists as not rewritten yet. Exit: 0 clean; 1 each phrase is named on stderr with its
file, line and replacement.
"""

import pathlib
import re
import subprocess
import sys

RUST = re.compile(r"""(?P<comment>(?://[^\n]*(?:\n[ \t]*(?=//))?)+|/\*.*?\*/)|\bb?r(?P<hash>#*)"(?P<raw>.*?)"(?P=hash)"""
                  r"""|b?"(?P<string>(?:\\.|[^"\\])*)"|'(?:\\.[^']*|[^'\\])'""", re.S)
SCRIPT = re.compile(r"""(?P<comment>(?://[^\n]*(?:\n[ \t]*(?=//))?)+|/\*.*?\*/|<!--.*?-->)|`(?P<raw>(?:\\.|[^`\\])*)`"""
                    r"""|"(?P<string>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'""", re.S)
CODE_BLOCK = re.compile(r"^```.*?^```", re.S | re.M)
INLINE_CODE = re.compile(r"`[^`\n]*`")
MARKS = re.compile(r"^[ \t]*(?://[/!]?|\*|#+|>|- )", re.M)
SUFFIXES = {".rs", ".ts", ".js", ".mjs", ".svelte", ".md", ".toml", ".py", ".sh", ".html"}
# The list itself, what is generated, and pages that quote the phrases.
EXEMPT = ("scripts/words.txt", "scripts/words.py", "scripts/test_words.py", "web/node_modules/", "web/dist/", "docs/openapi.json", "docs/openapi-3.0.json")


def blank(match):
    """Spaces for everything but line breaks, so that positions stay."""
    return re.sub(r"[^\n]", " ", match.group())


def passages(path, text):
    """(offset, text) of everything in a file that people read."""
    suffix = path.suffix
    if suffix == ".rs" or suffix in (".ts", ".js", ".mjs"):
        pattern = RUST if suffix == ".rs" else SCRIPT
        for match in pattern.finditer(text):
            for group, part in match.groupdict().items():
                if part and group != "hash":
                    yield match.start(group), part
    elif suffix == ".md":
        yield 0, INLINE_CODE.sub(blank, CODE_BLOCK.sub(blank, text))
    else:
        yield 0, text


def rules(text):
    """The phrases with their replacements, the allowed places and the paths not rewritten yet."""
    phrases, allowed, todo = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("allow "):
            place, colon, phrase = line.removeprefix("allow ").partition(": ")
            if not colon:
                sys.exit(f"scripts/words.txt:{number}: expected `allow PATH: PHRASE`, got {line!r}")
            allowed.append((place, phrase.lower()))
        elif line.startswith("todo "):
            todo.append(line.removeprefix("todo "))
        else:
            phrase, arrow, instead = line.partition(" -> ")
            if not arrow:
                sys.exit(f"scripts/words.txt:{number}: expected `PHRASE -> INSTEAD`, got {line!r}")
            words = r"\s+".join(phrase.split(" "))
            phrases.append((re.compile(rf"(?<![\w-]){words}(?![\w-])", re.I), instead))
    return phrases, allowed, todo


def lies_in(name, places):
    return any(name == place or place.endswith("/") and name.startswith(place) for place in places)


def found(name, text, phrases, allowed):
    """(line, phrase, replacement) of each phrase in one file."""
    for offset, passage in passages(pathlib.PurePath(name), text):
        # The marks of a comment are white space, so that a phrase is found across its lines.
        plain = MARKS.sub(blank, passage)
        for pattern, instead in phrases:
            for match in pattern.finditer(plain):
                phrase = " ".join(match.group().split())
                if any(phrase.lower() == p and lies_in(name, [place]) for place, p in allowed):
                    continue
                yield text.count("\n", 0, offset + match.start()) + 1, phrase, instead


def main(arguments):
    everything = "--all" in arguments
    roots = [a for a in arguments if not a.startswith("--")]
    root = pathlib.Path(roots[0] if roots else pathlib.Path(__file__).parent.parent)
    phrases, allowed, todo = rules((root / "scripts/words.txt").read_text())
    listing = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=True).stdout
    count = 0
    for name in sorted(listing.decode().split("\0")):
        path = root / name
        if path.suffix not in SUFFIXES or lies_in(name, EXEMPT) or not path.is_file():
            continue
        if not everything and lies_in(name, todo):
            continue
        for line, phrase, instead in found(name, path.read_text(), phrases, allowed):
            print(f"{name}:{line}: {phrase!r}: write {instead}", file=sys.stderr)
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
