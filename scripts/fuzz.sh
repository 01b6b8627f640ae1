#!/bin/bash
# Runs each target of fuzz/ for FUZZ_SECONDS; a crash stops it and its input is in fuzz/artifacts/.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
# The sanitizer flags are unstable: this lets a stable toolchain take them.
export RUSTC_BOOTSTRAP=1
# SQLite's one source file has two private tables of the same name, which the sanitizer takes for a clash.
export ASAN_OPTIONS="detect_odr_violation=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
if ! command -v cargo-fuzz >/dev/null; then cargo install cargo-fuzz --locked; fi
for target in ${FUZZ_TARGETS:-$(cargo fuzz list)}; do
    echo "fuzz: $target, $seconds s"
    cargo fuzz run "$target" -- -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048
done
