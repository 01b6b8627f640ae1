#!/bin/bash
# Requests of every kind that the OpenAPI document allows, and of many that it does not, against a server of its own.
#
#   scripts/api_fuzz.sh PROGRAM [EXAMPLES]
#
# schemathesis comes from the package index into a virtual environment under the target directory. The server answers
# in a network namespace without any way out, so that whatever it is made to start reaches no other host (scripts/api_server.sh). Streams, labs, calibrations and demos are left out.
# Requests that the document allows are accepted, with the exceptions in scripts/schemathesis.toml. Exit: 0 nothing found, else that of schemathesis.
set -euo pipefail
if [ $# -lt 1 ]; then
    echo "usage: scripts/api_fuzz.sh PROGRAM [EXAMPLES]" >&2
    exit 2
fi
config=$(realpath "$(dirname "$0")/schemathesis.toml")
weir=$(realpath "$1") examples=${2:-25}
venv=${SCHEMATHESIS_VENV:-${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/schemathesis}
if ! [ -x "$venv/bin/schemathesis" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet 'schemathesis>=4,<5'
fi
venv=$(realpath "$venv")
export SCHEMATHESIS_VENV=$venv
. "$(dirname "$0")/api_server.sh" "$weir" "$examples"
# In the directory that goes: schemathesis keeps notes where it runs.
cd "$work"
"$venv/bin/schemathesis" --config-file "$config" run "$url/api/v1/openapi.json" \
    --checks not_a_server_error,content_type_conformance,response_schema_conformance,positive_data_acceptance \
    --exclude-path /api/v1/events --exclude-path /api/v1/labs --exclude-path /api/v1/calibration \
    --exclude-path /api/v1/demo \
    --max-examples "$examples" --request-timeout 30 --continue-on-failure --rate-limit 95/s --phases examples,fuzzing --seed 1 --no-color
kill -0 "$server"
