#!/usr/bin/env python3
"""Instructions per datagram of accounting, counted by callgrind and held against committed figures (within 2 %).

Counts do not depend on how busy the machine is, but on the compiler: they are judged only with the rustc that the
figures were made with. WEIR_BLESS=1 writes new figures.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = ROOT / "benches" / "instructions.json"
TOLERANCE = 0.02
FEW, MANY = 20_000, 120_000


def run(command, **options):
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=540, **options)


def counted(program, number, mode):
    out = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), str(number), mode])
    found = re.search(r"Collected\s*:\s*(\d+)", out.stderr)
    if not found:
        sys.exit("instructions.py: callgrind printed no count")
    return int(found.group(1))


def main():
    if not shutil.which("valgrind"):
        if os.environ.get("CI") and os.geteuid() == 0:
            sys.exit("instructions.py: valgrind is missing (scripts/ensure.sh test)")
        print("SKIPPED instructions per packet: valgrind is not installed", file=sys.stderr)
        return
    cargo = os.environ.get("CARGO", "cargo")
    run([cargo, "build", "--release", "--locked", "-p", "weir-flow", "--example", "account"], cwd=ROOT)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = target / "release" / "examples" / "account"
    compiler = run(["rustc", "--version"]).stdout.strip()
    # The difference of two runs leaves start and end out.
    figures = {
        mode: round((counted(program, MANY, mode) - counted(program, FEW, mode)) / (MANY - FEW), 1)
        for mode in ("cut", "merged")
    }
    if os.environ.get("WEIR_BLESS"):
        FIGURES.write_text(json.dumps({"rustc": compiler, "instructions_per_datagram": figures}, indent=2) + "\n")
    kept = json.loads(FIGURES.read_text())
    worse = False
    for mode, now in figures.items():
        then = kept["instructions_per_datagram"][mode]
        change = now / then - 1
        print(f"instructions per datagram, sent and received, {mode}: {now} (committed {then}, {change:+.1%})")
        worse |= change > TOLERANCE
    if kept["rustc"] != compiler:
        print(f"not judged: made with {kept['rustc']}, this is {compiler}")
    elif worse:
        sys.exit("instructions.py: more than 2 % above the committed figure; WEIR_BLESS=1 if that is meant")


if __name__ == "__main__":
    main()
