#!/usr/bin/env python3
"""Checks the house's two structural rules: dependencies point down only, and `unsafe` lives in two rooms (and in
the counting allocator of a test).

    scripts/layers.py [ROOT]

Exit: 0 both hold, 1 each breach is named on stderr.
"""

import pathlib
import re
import sys
import tomllib

import rust_source

# From the roof down: a crate may use those to its right only. A new crate is entered here first.
HOUSE = "cli api experiment fleet jobs exchange report peers runs emulator traffic lab link sim flow impair net stats wire model laws".split()
UNSAFE_ROOMS = {"net", "link"}
# The counting allocators of tests, which can't be written without it.
UNSAFE_FILES = {"crates/impair/tests/no_allocation.rs", "crates/emulator/tests/counting/mod.rs"}
TABLES = ("dependencies", "dev-dependencies", "build-dependencies")
UNSAFE = re.compile(r"\bunsafe\s*(?:\{|fn\b|impl\b|extern\b|trait\b)|\bunsafe\s*\(|allow\s*\(\s*unsafe_code\s*\)")


def crate_name(package):
    return "cli" if package == "weir" else package.removeprefix("weir-")


def dependency_tables(manifest):
    """Every dependency table, those for one platform included."""
    for table in TABLES:
        yield manifest.get(table, {})
    for platform in manifest.get("target", {}).values():
        for table in TABLES:
            yield platform.get(table, {})


def breaches(root):
    found = []
    for manifest_path in sorted((root / "crates").glob("*/Cargo.toml")):
        room = manifest_path.parent.name
        manifest = tomllib.loads(manifest_path.read_text())
        where = manifest_path.relative_to(root)
        if room not in HOUSE:
            found.append(f"{where}: crate {room} has no floor in the house (scripts/layers.py lists them)")
            continue
        if crate_name(manifest["package"]["name"]) != room:
            found.append(f"{where}: package {manifest['package']['name']} lives in crates/{room}")
        for table in dependency_tables(manifest):
            for key, value in table.items():
                package = value.get("package", key) if isinstance(value, dict) else key
                if package != "weir" and not package.startswith("weir-"):
                    continue
                used = crate_name(package)
                if used not in HOUSE:
                    found.append(f"{where}: {package} has no floor in the house")
                elif HOUSE.index(used) <= HOUSE.index(room):
                    found.append(f"{where}: {room} uses {used}, which is not below it")
        if room not in UNSAFE_ROOMS:
            for source in sorted(manifest_path.parent.rglob("*.rs")):
                if source.relative_to(root).as_posix() in UNSAFE_FILES:
                    continue
                for number, line in enumerate(rust_source.code_only(source.read_text()).split("\n"), 1):
                    if UNSAFE.search(line):
                        found.append(f"{source.relative_to(root)}:{number}: unsafe outside {', '.join(sorted(UNSAFE_ROOMS))}")
    return found


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    found = breaches(root)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
