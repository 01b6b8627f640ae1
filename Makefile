# The commands people and CI type. Each first installs what it lacks (scripts/ensure.sh), then works.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
CC ?= cc
PYTHON ?= python3
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
# What the distribution has and other builds lack. Lints and tests have it throughout, so that nothing is compiled twice.
WITH := --features weir/parquet
TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
WEIR := $(TARGET_DIR)/release/weir

.PHONY: help demo build web test test-guest lint bench bench-udp bench-udp-merged bench-udp-cut bench-udp-xdp bench-tcp bench-rr bench-pacing bench-laws bench-replay bench-impair bench-impair-forward bench-impair-delay bench-impair-tcp bench-impair-held bench-programs bench-fleet fuzz api-fuzz api-clients install dist clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## build, then two hosts, real tests, one table
	@scripts/ensure.sh demo
	@scripts/page.sh --if-here
	$(CARGO) build --release --locked -p weir
	@echo $(WEIR) demo
	@$(WEIR) demo || { code=$$?; test $$code != 5 || echo "exit code 5: no row failed, some are undecided because the host was busy; run make demo again when it is idle" >&2; exit $$code; }

build: ## the release program, with the page where Node is
	@scripts/ensure.sh demo
	@scripts/page.sh --if-here
	$(CARGO) build --release --locked -p weir

web: ## the page, into web/dist (Node 20.19 or newer)
	@scripts/page.sh

# clippy shares nothing with the build of the tests; `--no-run` builds them all before the first one starts. The tests mostly wait, and
# leave the processors to what compiles and counts.
test: ## formatting, lints, layers, the check for Windows, every test
	@scripts/ensure.sh test
	@scripts/ensure.sh parquet || true
	@scripts/page.sh --if-here
	$(MAKE) --no-print-directory lint
	$(CARGO) test --workspace $(WITH) --locked --no-run
	$(PYTHON) scripts/together.py $(MAKE) --no-print-directory compiled -- \
	    $(PYTHON) scripts/tests.py $(CARGO) test --workspace $(WITH) --locked --no-fail-fast
	@WEIR=$(TARGET_DIR)/debug/weir scripts/page.sh --if-here --test

.PHONY: compiled
compiled:
	@scripts/windows.sh
	$(PYTHON) scripts/instructions.py

test-guest: ## netem and the debug build of Weir in one guest kernel (qemu), compared
	@scripts/ensure.sh guest
	$(CARGO) build --locked -p weir
	@$(PYTHON) scripts/guest.py $(TARGET_DIR)/debug/weir

lint: ## formatting, clippy, layers, licences when cargo-deny is here
	$(CARGO) fmt --all -- --check
	$(PYTHON) scripts/layers.py
	$(PYTHON) scripts/words.py
	$(PYTHON) scripts/names.py
	$(PYTHON) scripts/prose.py
	@scripts/bpf.sh --check
	$(PYTHON) -m unittest discover --start-directory scripts --pattern 'test_*.py' --quiet
	$(PYTHON) -m unittest discover --start-directory benches --pattern 'test_*.py' --quiet
	$(PYTHON) -m unittest discover --start-directory benches/recheck --pattern 'test_*.py' --quiet
	$(CARGO) clippy --workspace $(WITH) --all-targets --locked -- -D warnings
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --all-features check; else echo 'licences not checked: cargo-deny is not installed'; fi

# -O2, no -march: the limits are compared with a program built the same way.
BARE_SOURCES := $(wildcard benches/bare/*.c)
BARE := $(patsubst benches/bare/%.c,$(TARGET_DIR)/bare/%,$(BARE_SOURCES))

$(TARGET_DIR)/bare/%: benches/bare/%.c $(wildcard benches/bare/*.h)
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -Wall -Wextra -pthread -o $@ $< -lm

bench-programs: $(BARE)

bench: bench-udp bench-tcp bench-rr bench-pacing bench-laws bench-replay bench-impair bench-impair-forward bench-impair-delay bench-impair-tcp bench-impair-held ## all speed comparisons (each group at most 10 minutes)
bench-udp: bench-udp-merged bench-udp-cut bench-udp-xdp ## UDP, coalesced, per-packet, and by XDP

bench-impair: BENCH = impair-flows --seconds 0.3 --budget 40
bench-impair: ## the emulator with Other only, 16 and 1000 flows (below 50 s once built)

BENCH = $*
bench-udp-merged bench-udp-cut bench-udp-xdp bench-tcp bench-rr bench-pacing bench-laws bench-replay bench-impair bench-impair-forward bench-impair-delay bench-impair-tcp bench-impair-held: bench-%:
	@scripts/ensure.sh bench
	$(MAKE) --no-print-directory bench-programs
	$(CARGO) build --release --locked -p weir
	$(PYTHON) benches/bench.py --weir $(WEIR) --bare $(TARGET_DIR)/bare --only $(BENCH)

bench-fleet: ## a fleet of 300 agents, and starts of four at one instant (5 minutes once built)
	@scripts/ensure.sh test
	$(CARGO) test --release --locked -p weir-fleet --test all -- --ignored --exact --nocapture bench::benchmark
	$(CARGO) build --release --locked -p weir
	PATH=$$PATH:$(TARGET_DIR)/tools benches/starts.py --weir $(WEIR)

fuzz: ## every fuzz target for FUZZ_SECONDS (60) each
	@scripts/ensure.sh fuzz
	FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh

api-fuzz: build ## hostile requests over the OpenAPI document (schemathesis)
	scripts/api_fuzz.sh $(WEIR)

api-clients: build ## clients generated from the OpenAPI documents, each of which runs a test
	scripts/api_clients.sh $(WEIR)

install: build ## program, man pages, documents, systemd unit under DESTDIR/PREFIX
	scripts/place.sh $(WEIR) "$(DESTDIR)$(PREFIX)"

dist: ## dist/weir-VERSION-TARGET.tar.gz, stripped
	@scripts/ensure.sh demo
	@scripts/page.sh --if-here
	$(CARGO) build --profile dist $(WITH) --locked -p weir
	scripts/dist.sh $(TARGET_DIR)/dist/weir

clean: ## what was built; benchruns/ stays
	$(CARGO) clean
	rm -rf dist web/dist web/node_modules fuzz/target fuzz/artifacts $(TARGET_DIR)/bare
