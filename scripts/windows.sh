#!/bin/bash
# Checks that the portable crates compile for Windows, without linking them.
#
#   scripts/windows.sh [ARGUMENTS OF cargo check]
#
# There may be no rustup, hence the compiler of Debian and a standard library that is built from its source. mingw compiles
# SQLite. Packages: scripts/ensure.sh windows. Exit: 0 they compile, or the check is skipped with the reason on stderr.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-pc-windows-gnu
# What they depend on is checked with them: every crate.
crates=(weir-api weir)

skip() {
    echo "SKIPPED check for Windows: $1 (scripts/ensure.sh windows)" >&2
    exit 0
}
for file in /usr/bin/cargo /usr/bin/rustc /usr/bin/x86_64-w64-mingw32-gcc; do
    [ -x "$file" ] || skip "$file is missing"
done
[ -e /usr/lib/rustlib/src/rust/library/Cargo.lock ] || skip "the source of the standard library is missing"
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
here=$(/usr/bin/rustc --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$wanted" "${here%%[-+]*}" | sort -V | head -n1)" != "$wanted" ]; then
    skip "/usr/bin/rustc is $here, and $wanted or newer is needed"
fi

# A directory of its own: the two compilers would rebuild each other's work.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/windows
# Lets a stable compiler take -Zbuild-std.
export RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
# Nothing of it runs, so nothing is optimised.
/usr/bin/cargo check --quiet --locked --target "$target" -Zbuild-std=std,panic_abort "${crates[@]/#/--package=}" \
    --config 'profile.dev.opt-level=0' --config 'profile.dev.package."*".opt-level=0' --config 'profile.dev.debug=false' "$@"
