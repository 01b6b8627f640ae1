#!/bin/bash
# Puts the program, its man pages, completions, documents, scenarios and systemd units under one root, for `make install` and `make dist`.
#   scripts/place.sh PROGRAM ROOT
set -euo pipefail
if [ $# != 2 ]; then
    echo "usage: scripts/place.sh PROGRAM ROOT" >&2
    exit 2
fi
weir=$1 root=$2
here=$(dirname "$0")/..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# All is made before anything is placed: nothing half-installed.
"$weir" man --out "$work/man" >/dev/null
for shell in bash zsh fish; do "$weir" completions "$shell" >"$work/$shell"; done
for made in man/weir.1 bash zsh fish; do
    if [ ! -s "$work/$made" ]; then
        echo "$weir wrote an empty $made: nothing was installed" >&2
        exit 1
    fi
done
install -D -m 755 "$weir" "$root/bin/weir"
install -D -m 644 -t "$root/share/man/man1" "$work"/man/*.1
install -D -m 644 "$work/bash" "$root/share/bash-completion/completions/weir"
install -D -m 644 "$work/zsh" "$root/share/zsh/site-functions/_weir"
install -D -m 644 "$work/fish" "$root/share/fish/vendor_completions.d/weir.fish"
(cd "$here/scenarios" && find . -type f) | while read -r file; do
    install -D -m 644 "$here/scenarios/$file" "$root/share/weir/scenarios/$file"
done
install -D -m 644 -t "$root/lib/systemd/system" "$here"/packaging/{weir,weir-agent@}.service
install -D -m 644 -t "$root/share/doc/weir" "$here"/{LICENSE-MIT,LICENSE-APACHE,README.md,CHANGELOG.md}
(cd "$here/docs" && find . -type f) | while read -r file; do
    install -D -m 644 "$here/docs/$file" "$root/share/doc/weir/docs/$file"
done
