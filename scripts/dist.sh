#!/bin/bash
# dist/weir-VERSION-TARGET.tar.gz: the stripped program with README, licences, man page and completions.
#   scripts/dist.sh PROGRAM
# Exit: 0 done, 1 the stripped program is larger than it may be, 2 usage.
set -euo pipefail
if [ $# != 1 ]; then
    echo "usage: scripts/dist.sh PROGRAM" >&2
    exit 2
fi
weir=$(realpath "$1")
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
target=$(rustc -vV | sed -n 's/^host: //p')
name=weir-$version-$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/place.sh "$weir" "$work/$name"
strip "$work/$name/bin/weir"
# Most of the program is derived code: a type read in a second way shows here first.
most=16000000
size=$(stat -c %s "$work/$name/bin/weir")
echo "the stripped program has $size bytes, $most at most"
[ "$size" -le "$most" ] || exit 1
for file in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE; do
    install -m 644 "$file" "$work/$name/$file"
done
mkdir -p dist
# Sorted names, one owner, the commit's time: the same input gives the same bytes.
stamp=$(git log -1 --format=%ct 2>/dev/null || echo 0)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$stamp" -C "$work" -c "$name" | gzip -n9 >"dist/$name.tar.gz"
echo "dist/$name.tar.gz"
