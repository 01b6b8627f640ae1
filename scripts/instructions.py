#!/usr/bin/env python3
"""Instructions per datagram of accounting, counted by callgrind and held against committed figures (within 2 %).

Counts do not depend on how busy the machine is, but on the compiler: they are judged only with the rustc that the
figures were made with. A count below its figure fails too: work that is no longer done may be work no longer counted.
WEIR_BLESS='why it changed' writes new figures, with these words beside them.
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


def judge(kept, figures):
    """One line for each figure, and the modes whose figure lies more than the tolerance off the committed one."""
    lines, off = [], []
    for mode, now in figures.items():
        then = kept[mode]
        change = now / then - 1
        lines.append(f"instructions per datagram, sent and received, {mode}: {now} (committed {then}, {change:+.1%})")
        if abs(change) > TOLERANCE:
            off.append(mode)
    return lines, off


def bless(kept, compiler, figures, why):
    """The committed file with new figures and why they changed, the newest note first."""
    if len(why.split()) < 3:
        sys.exit("instructions.py: WEIR_BLESS: a few words are wanted that say why the figures changed")
    note = {"instructions_per_datagram": figures, "rustc": compiler, "why": why}
    return {"rustc": compiler, "instructions_per_datagram": figures, "notes": [note, *kept.get("notes", [])]}


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
    kept = json.loads(FIGURES.read_text())
    lines, off = judge(kept["instructions_per_datagram"], figures)
    print("\n".join(lines))
    if why := os.environ.get("WEIR_BLESS"):
        FIGURES.write_text(json.dumps(bless(kept, compiler, figures, why), indent=2, ensure_ascii=False) + "\n")
    elif kept["rustc"] != compiler:
        print(f"not judged: made with {kept['rustc']}, this is {compiler}")
    elif off:
        sys.exit(f"instructions.py: {', '.join(off)}: more than 2 % off the committed figure; WEIR_BLESS='why' if that is meant")


if __name__ == "__main__":
    main()
