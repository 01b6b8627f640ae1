#!/usr/bin/env python3
"""Instructions per datagram of accounting, and per packet of the emulator's engine, counted by callgrind and held against
committed figures (within 2 %).

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
# Each figure: where it is kept, its words, the example that is counted and how it is asked, its modes (as they are kept: as
# the example calls them), and two numbers of packets (whole batches of 64).
COUNTED = (
    ("instructions_per_datagram", "instructions per datagram, sent and received", "weir-flow", "account",
     lambda number, mode: (str(number), mode), {"cut": "per-packet", "merged": "coalesced"}, 20_000, 120_000),
    ("instructions_per_packet", "instructions per packet, engine", "weir-impair", "engine_hot",
     lambda number, mode: (mode, str(number)), {"other-only": "mix", "flows-16": "mix-16", "flows-1000": "mix-1000"}, 64_000, 192_000),
)


def run(command, **options):
    done = subprocess.run(command, text=True, capture_output=True, timeout=540, **options)
    if done.returncode != 0:
        sys.exit(f"instructions.py: {' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr.strip()[-4000:]}")
    return done


def counted(program, arguments):
    out = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program), *arguments])
    found = re.search(r"Collected\s*:\s*(\d+)", out.stderr)
    if not found:
        sys.exit("instructions.py: callgrind printed no count")
    return int(found.group(1))


def judge(kept, figures, words="instructions per datagram, sent and received"):
    """One line for each figure, and the modes whose figure lies more than the tolerance off the committed one."""
    lines, off = [], []
    for mode, now in figures.items():
        then = kept.get(mode)
        if then is None:
            lines.append(f"{words}, {mode}: {now} (none committed)")
            off.append(mode)
            continue
        change = now / then - 1
        lines.append(f"{words}, {mode}: {now} (committed {then}, {change:+.1%})")
        if abs(change) > TOLERANCE:
            off.append(mode)
    return lines, off


def bless(kept, compiler, figures, why):
    """The committed file with new figures and why they changed, the newest note first."""
    if len(why.split()) < 3:
        sys.exit("instructions.py: WEIR_BLESS: a few words are wanted that say why the figures changed")
    # A figure that did not change needs no reason.
    changed = {name: modes for name, modes in figures.items() if modes != kept.get(name)}
    note = {**changed, "rustc": compiler, "why": why}
    return {"rustc": compiler, **figures, "notes": [note, *kept.get("notes", [])]}


def main():
    if not shutil.which("valgrind"):
        if os.environ.get("CI") and os.geteuid() == 0:
            sys.exit("instructions.py: valgrind is missing (scripts/ensure.sh test)")
        print("SKIPPED instructions per packet: valgrind is not installed", file=sys.stderr)
        return
    cargo = os.environ.get("CARGO", "cargo")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    compiler = run(["rustc", "--version"]).stdout.strip()
    kept = json.loads(FIGURES.read_text())
    figures, off = {}, []
    for key, words, package, example, arguments, modes, few, many in COUNTED:
        run([cargo, "build", "--release", "--locked", "-p", package, "--example", example], cwd=ROOT)
        program = target / "release" / "examples" / example
        # The difference of two runs leaves start and end out.
        figures[key] = {
            name: round((counted(program, arguments(many, mode)) - counted(program, arguments(few, mode))) / (many - few), 1)
            for name, mode in modes.items()
        }
        lines, wrong = judge(kept.get(key, {}), figures[key], words)
        print("\n".join(lines))
        off += wrong
    if why := os.environ.get("WEIR_BLESS"):
        FIGURES.write_text(json.dumps(bless(kept, compiler, figures, why), indent=2, ensure_ascii=False) + "\n")
    elif kept["rustc"] != compiler:
        print(f"not judged: made with {kept['rustc']}, this is {compiler}")
    elif off:
        sys.exit(f"instructions.py: {', '.join(off)}: more than 2 % off the committed figure; WEIR_BLESS='why' if that is meant")


if __name__ == "__main__":
    main()
