#!/bin/bash
# Clients generated from the OpenAPI documents: each starts a UDP test on a server of its own, waits for its end and reads its record.
#
#   scripts/api_clients.sh PROGRAM
#
# openapi-python-client (from the package index, in a virtual environment under the target directory) reads docs/openapi.json;
# progenitor (from the crate registry, scripts/api_clients/rust) reads docs/openapi-3.0.json. Exit: 0 if both work.
set -euo pipefail
if [ $# -lt 1 ]; then
    echo "usage: scripts/api_clients.sh PROGRAM" >&2
    exit 2
fi
weir=$(realpath "$1")
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
venv=$target/openapi-python-client
python_client=$target/api-clients-python
rust_client=$target/api-clients/debug/weir-api-client
if [ -z "${WEIR_API_ISOLATED:-}" ]; then
    if ! [ -x "$venv/bin/openapi-python-client" ]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install --quiet 'openapi-python-client>=0.29,<0.30'
    fi
    mkdir -p "$python_client"
    "$venv/bin/openapi-python-client" generate --path docs/openapi.json --meta none --overwrite --output-path "$python_client/weir" \
        --config scripts/api_clients/python.yaml
    cargo build --locked --manifest-path scripts/api_clients/rust/Cargo.toml --target-dir "$target/api-clients"
fi
. scripts/api_server.sh "$weir"
PYTHONPATH=$python_client "$venv/bin/python" scripts/api_clients/client.py "$url" "127.0.0.1:$port"
"$rust_client" "$url" "127.0.0.1:$port"
