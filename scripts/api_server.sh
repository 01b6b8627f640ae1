# Sourced by scripts that use the API of a server of their own: $1 is the program, the rest are the script's other arguments.
#
# Runs the script again in a network namespace without any other interface than `lo`, then starts `weir serve --ui` there, with its
# files in a directory that is removed at the end. Sets `url`, `port` (of the test server), `server` (its process) and `work`.
if [ -z "${WEIR_API_ISOLATED:-}" ]; then
    export WEIR_API_ISOLATED=1
    if [ "$(id -u)" = 0 ]; then isolate=(unshare --net); else isolate=(unshare --user --map-root-user --net); fi
    exec "${isolate[@]}" "$0" "$@"
fi
ip link set dev lo up
work=$(mktemp -d)
server=
clean() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap clean EXIT
export WEIR_DATA_DIR=$work/data WEIR_CONFIG_DIR=$work/config WEIR_RUNTIME_DIR=$work/runtime NO_COLOR=1
port=${WEIR_PORT:-19347}
"$1" serve --ui=127.0.0.1:0 -B 127.0.0.1 -p "$port" >"$work/out" 2>"$work/err" &
server=$!
for _ in $(seq 100); do
    url=$(sed -n 's|^\(page and \)\{0,1\}API on \(http://[^/]*\)/.*|\2|p' "$work/out")
    [ -n "$url" ] && break
    sleep 0.1
done
if [ -z "$url" ]; then
    cat "$work/err" >&2
    exit 1
fi
