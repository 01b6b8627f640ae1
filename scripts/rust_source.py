"""What the checks of this directory read of Rust sources."""

import re

COMMENTS = re.compile(r"""//[^\n]*|/\*.*?\*/""", re.S)
COMMENTS_AND_STRINGS = re.compile(r"""//[^\n]*|/\*.*?\*/|\br(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", re.S)
TESTS = re.compile(r"^\s*#\[cfg\(test\)\]\s*\n\s*(?:pub(?:\([^)]*\))? )?mod \w+ \{", re.M)


def _without(pattern, text):
    return pattern.sub(lambda match: "\n" * match.group().count("\n"), text)


def without_comments(text):
    """The source without comments, lines kept."""
    return _without(COMMENTS, text)


def code_only(text):
    """The source without comments and string literals, lines kept, so that prose may say any word."""
    return _without(COMMENTS_AND_STRINGS, text)


def without_tests(text):
    """The source up to its inline tests, which are last in a file."""
    found = TESTS.search(text)
    return text[: found.start()] if found else text


def is_test(path):
    """Whether a file under crates/ is of tests alone."""
    return path.stem.endswith("tests") or path.stem.startswith("test_") or "tests" in path.parts
