#!/bin/bash
# Builds the page (web/) into web/dist, which the program takes in; with --test, tests it.
#
#   scripts/page.sh [--if-here] [--test]
#
# --if-here: where Node is missing or too old, says so and leaves it at that: the program is then built without its page, and
# says what it lacks. In CI it has to be there. Exit: 0 done, 1 a test failed, 2 usage, 4 Node is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

if_here='' test=''
for argument in "$@"; do
    case $argument in
    --if-here) if_here=yes ;;
    --test) test=yes ;;
    *)
        echo "usage: scripts/page.sh [--if-here] [--test] (given: $argument)" >&2
        exit 2
        ;;
    esac
done

if ! scripts/ensure.sh web; then
    if [ -n "$if_here" ] && [ -z "${CI:-}" ]; then
        echo "so the page is not $([ -n "$test" ] && echo tested || echo built)" >&2
        exit 0
    fi
    exit 4
fi

# Built again when anything that it is made of is newer.
newest=$(find web/src web/public web/*.html web/*.ts web/*.js web/*.json docs/openapi.json -type f -newer web/dist/index.html -print -quit 2>/dev/null || echo missing)
if [ ! -e web/dist/index.html ] || [ -n "$newest" ]; then
    (cd web && npm run --silent build)
fi
if [ -n "$test" ]; then
    (cd web && npm test --silent)
fi
