#!/bin/bash
# Installs what a bare Debian 12 with Rust, Node and Python lacks for one purpose; does nothing when all is there.
#
#   scripts/ensure.sh demo|test|fleet|bench|fuzz|guest|windows|web|parquet
#
# As root it installs; as anyone else it prints the one command to run. Exit: 0 all there, 2 usage,
# 4 something is missing and can't be installed from here.
set -euo pipefail

# An ordinary user's PATH lacks the directories where nft and ethtool are.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

purpose=${1:-}

# The page needs Node and the packages of its lock; no compiler. Debian 12's Node is too old, so it is not installed here.
if [ "$purpose" = web ]; then
    node_least=20.19
    web=$(cd "$(dirname "$0")/../web" && pwd)
    node_here=$(node --version 2>/dev/null | sed 's/^v//' || true)
    if [ -z "$node_here" ] || ! command -v npm >/dev/null; then
        echo "Node $node_least or newer, with npm, is needed for the page (found: ${node_here:-none})" >&2
        exit 4
    fi
    if [ "$(printf '%s\n' "$node_least" "$node_here" | sort -V | head -n1)" != "$node_least" ]; then
        echo "Node is $node_here; $node_least or newer is needed for the page" >&2
        exit 4
    fi
    if [ ! -e "$web/node_modules/.package-lock.json" ] || [ "$web/package-lock.json" -nt "$web/node_modules/.package-lock.json" ]; then
        (cd "$web" && npm ci --no-audit --no-fund --loglevel=error >&2)
    fi
    exit 0
fi

# DuckDB, which reads the Parquet files of a test. Debian has no package of it; pip installs it where the network has it.
if [ "$purpose" = parquet ]; then
    duckdb=2.0.1
    tools=${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/tools
    mkdir -p "$tools" && tools=$(cd "$tools" && pwd)
    [ "$("$tools/duckdb/bin/python" -c 'import duckdb; print(duckdb.__version__)' 2>/dev/null)" = "$duckdb" ] && exit 0
    rm -rf "$tools/duckdb"
    for python in python3 /usr/bin/python3; do
        if "$python" -m venv "$tools/duckdb" >/dev/null 2>&1 && "$tools/duckdb/bin/pip" install --quiet --disable-pip-version-check "duckdb==$duckdb" >&2; then
            exit 0
        fi
        rm -rf "$tools/duckdb"
    done
    echo "the tests that query Parquet files are skipped: DuckDB $duckdb could not be installed (it needs Python's venv and pip)" >&2
    exit 4
fi

# What is looked for, then the package that has it. `cc` stands for a compiler that links a program.
demo=(cc:gcc cc:libc6-dev)
test=("${demo[@]}" ip:iproute2 tc:iproute2 ping:iputils-ping iperf3:iperf3 iperf:iperf nuttcp:nuttcp ITGSend:d-itg tshark:tshark libpcap:libpcap0.8 nft:nftables ethtool:ethtool python3:python3 venv:python3-venv jsonschema:python3-jsonschema valgrind:valgrind chromium:chromium clang-14:clang-14 llvm-objcopy-14:llvm-14 openssl:openssl)
bench=("${demo[@]}" ip:iproute2 ethtool:ethtool ping:iputils-ping taskset:util-linux python3:python3 iperf3:iperf3 iperf:iperf nuttcp:nuttcp ITGSend:d-itg mgen:mgen sockperf:sockperf tcpreplay:tcpreplay)
fuzz=("${demo[@]}" c++:g++)
guest=("${demo[@]}" ip:iproute2 tc:iproute2 python3:python3 strip:binutils qemu-system-x86_64:qemu-system-x86)
windows=("${demo[@]}" /usr/bin/cargo:cargo-web /usr/bin/rustc:rustc-web rust-src:rust-web-src x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64)
case $purpose in
demo) wanted=("${demo[@]}") ;;
test) wanted=("${test[@]}") ;;
fleet) wanted=("${demo[@]}") ;;
bench) wanted=("${bench[@]}") ;;
fuzz) wanted=("${fuzz[@]}") ;;
guest) wanted=("${guest[@]}") ;;
windows) wanted=("${windows[@]}") ;;
*)
    echo "usage: scripts/ensure.sh demo|test|fleet|bench|fuzz|guest|windows|web|parquet (given: ${purpose:-nothing})" >&2
    exit 2
    ;;
esac

compiler_works() { echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - 2>/dev/null; }

have() {
    local path
    case $1 in
    cc) compiler_works ;;
    # Another Python may come first in PATH; Debian's package is for Debian's.
    jsonschema) python3 -c 'import jsonschema' 2>/dev/null || /usr/bin/python3 -c 'import jsonschema' 2>/dev/null ;;
    venv) python3 -c 'import ensurepip' 2>/dev/null || /usr/bin/python3 -c 'import ensurepip' 2>/dev/null ;;
    libpcap) python3 -c 'import ctypes; ctypes.CDLL("libpcap.so.0.8")' 2>/dev/null ;;
    rust-src) [ -e /usr/lib/rustlib/src/rust/library/Cargo.lock ] ;;
    *) path=$(type -P "$1") && [ -x "$path" ] ;;
    esac
}

# Each missing package once; asking for the compiler twice would link twice.
missing_packages() {
    local entry tool package cc_state='' list=' '
    for entry in "${wanted[@]}"; do
        tool=${entry%%:*} package=${entry#*:}
        if [ "$tool" = cc ]; then
            if [ -z "$cc_state" ]; then if have cc; then cc_state=there; else cc_state=missing; fi; fi
            [ "$cc_state" = there ] && continue
        elif have "$tool"; then
            continue
        fi
        case $list in *" $package "*) ;; *) list+="$package " ;; esac
    done
    # Unquoted: the padding goes.
    # shellcheck disable=SC2086
    echo $list
}

rust_least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
if ! command -v cargo >/dev/null; then
    echo "Rust is missing: cargo $rust_least or newer is needed (rustup installs it)" >&2
    exit 4
fi
rust_here=$(cd "$(dirname "$0")/.." && cargo --version | cut -d' ' -f2)
if [ "$(printf '%s\n' "$rust_least" "${rust_here%%-*}" | sort -V | head -n1)" != "$rust_least" ]; then
    echo "cargo is $rust_here; $rust_least or newer is needed: rustup update stable" >&2
    exit 4
fi
if [ "$purpose" = test ]; then
    for component in rustfmt clippy; do
        case $component in rustfmt) probe=cargo-fmt ;; *) probe=cargo-clippy ;; esac
        if ! "$probe" --version >/dev/null 2>&1; then
            if ! command -v rustup >/dev/null; then
                echo "$component is missing and so is rustup: install the $component of your Rust $rust_here" >&2
                exit 4
            fi
            rustup component add "$component"
        fi
    done
fi

# The fleet and its tests talk to a real server, which Debian has in a version that is too old. It is built where Go is.
if [ "$purpose" = test ] || [ "$purpose" = fleet ]; then
    nats=2.15.3
    tools=${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/tools
    mkdir -p "$tools" && tools=$(cd "$tools" && pwd)
    if [ "$("$tools/nats-server" --version 2>/dev/null)" != "nats-server: v$nats" ]; then
        if ! command -v go >/dev/null; then
            echo "weir fleet dev and the tests of the fleet need nats-server: Go, which builds nats-server $nats, is missing" >&2
        elif ! GOBIN=$tools go install "github.com/nats-io/nats-server/v2@v$nats" >&2; then
            echo "weir fleet dev and the tests of the fleet need nats-server: $nats could not be built (the reason is above)" >&2
        fi
    fi
    # The schemas of Kubernetes, by which the manifests in packaging are checked.
    validate=1.37.0
    if [ ! -e "$tools/python/kubernetes_validate-$validate.dist-info" ]; then
        rm -rf "$tools/python"
        if ! python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
            --target "$tools/python" "kubernetes-validate==$validate" >&2; then
            echo "the manifests for Kubernetes are not checked: kubernetes-validate $validate could not be installed" >&2
        fi
    fi
fi

# The queries of the Grafana dashboard run against Debian's Prometheus. It is unpacked, since its package would start a service.
if [ "$purpose" = test ] && [ ! -x "$tools/prometheus/usr/bin/prometheus" ]; then
    unpacked=$(mktemp -d "$tools/prometheus.XXXXXX")
    if (cd "$unpacked" && apt-get download prometheus >/dev/null && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) 2>/dev/null; then
        rm -rf "$tools/prometheus" && mv "$unpacked" "$tools/prometheus"
    else
        rm -rf "$unpacked"
        echo "the test of the Grafana dashboard is skipped: apt-get could not download prometheus" >&2
    fi
fi

packages=$(missing_packages)
[ -z "$packages" ] && exit 0

install="apt-get install -y --no-install-recommends $packages"
if ! command -v apt-get >/dev/null; then
    echo "missing for $purpose: $packages (Debian's names); there is no apt-get here: install them by hand" >&2
    exit 4
fi
if [ "$(id -u)" != 0 ]; then
    echo "missing for $purpose: $packages; run this once:" >&2
    echo "sudo sh -c 'apt-get update && DEBIAN_FRONTEND=noninteractive $install'"
    exit 4
fi
echo "installing for $purpose: $packages" >&2
export DEBIAN_FRONTEND=noninteractive
# tshark's package asks whether others than root may capture: no, which is also its default.
case " $packages " in *" tshark "*)
    if command -v debconf-set-selections >/dev/null; then
        echo 'wireshark-common wireshark-common/install-setuid boolean false' | debconf-set-selections
    fi ;;
esac
if ! { apt-get update -qq && $install -qq >/dev/null; }; then
    echo "could not install: $packages (apt-get's reason is above)" >&2
    exit 4
fi
still=$(missing_packages)
if [ -n "$still" ]; then
    echo "installed, and yet not found: $still" >&2
    exit 4
fi
