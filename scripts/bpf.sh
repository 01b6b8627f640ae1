#!/bin/bash
# Compiles the BPF programs of crates/link/bpf, whose instructions are committed and become part of the program.
#
#   scripts/bpf.sh            compile
#   scripts/bpf.sh --check    compare with what is committed
#
# The result depends on the compiler: Debian 12's clang 14. Exit: 0 done, or skipped with the reason on stderr; 1 they differ;
# 4 in CI without the compiler.
set -euo pipefail
cd "$(dirname "$0")/../crates/link/bpf"

for tool in clang-14 llvm-objcopy-14; do
    if ! command -v "$tool" >/dev/null; then
        echo "SKIPPED check of the BPF programs: $tool is missing (scripts/ensure.sh test)" >&2
        [ -z "${CI:-}" ] || exit 4
        exit 0
    fi
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Source, section, and the file of its instructions.
while read -r source section program; do
    clang-14 -target bpf -mcpu=v3 -O2 -Wall -Wextra -Werror -c "$source.bpf.c" -o "$scratch/$source.o"
    llvm-objcopy-14 -O binary --only-section="$section" "$scratch/$source.o" "$scratch/$program.bin"
    if [ "${1:-}" != --check ]; then
        cp "$scratch/$program.bin" "$program.bin"
    elif ! cmp -s "$scratch/$program.bin" "$program.bin"; then
        echo "crates/link/bpf/$program.bin is not what $source.bpf.c compiles to: run scripts/bpf.sh" >&2
        exit 1
    fi
done <<'PROGRAMS'
send xdp send
receive xdp receive
local tcx/divert divert
local tcx/deliver deliver
local tcx/guard guard
PROGRAMS
