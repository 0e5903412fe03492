# Rota's front door: `make` alone lists what there is.
#
# A target is here only if it works on a fresh clone. The tools that lint are pinned in
# tools/go.mod, which is a module of its own, so that the product's go.mod names only what the
# product is built of.

GO        ?= go
PKG       ?= ./...
TESTFLAGS ?=
FUZZTIME  ?= 10s
SEEDS     ?= 4000
ARGS      ?=

# Per package. A test that hangs must end with its goroutines' stacks, not with the CI's patience.
TIMEOUT ?= 15m

# Tests that run beside each other in a package: most of them wait most of the time.
PARALLEL ?= 4

LINT := $(GO) tool -modfile=tools/go.mod golangci-lint

# Everything that can change the binary, embedded scripts and pages included. Only a cheap find;
# whether a package really has to be compiled again is for Go to judge.
SOURCES := go.mod go.sum $(shell find cmd internal jobs locking scheduler -type f \
	! -name '*_test.go' ! -path '*/testdata/*' 2>/dev/null)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ Try it

# make itself exits 2 whenever a command fails; the command's own code stands in its last line.
demo: bin/rota ## A fleet of three hosts on this machine, one of them killed, and a verdict (ARGS="--for 60s --hosts 5")
	@./bin/rota demo $(ARGS)

build: bin/rota ## Build ./bin/rota, one static binary

bin/rota: $(SOURCES) | toolchain
	@if test -e $@; then echo 'building bin/rota'; else \
		echo 'building bin/rota; Go compiles the libraries once, so the first time takes a minute or so'; fi
	@CGO_ENABLED=0 $(GO) build -trimpath -o $@ ./cmd/rota

##@ Check it

test: deps-or-hint ## All tests (PKG=./locking/..., TESTFLAGS='-run Lease -v')
	$(GO) test -timeout $(TIMEOUT) -parallel $(PARALLEL) $(TESTFLAGS) $(PKG)

race: deps-or-hint ## All tests under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout $(TIMEOUT) -parallel $(PARALLEL) $(TESTFLAGS) $(PKG)

lint: toolchain ## gofmt, go vet, golangci-lint (the first time it builds the linter: 1 to 2 minutes)
	@echo 'gofmt -l'; files=$$(gofmt -l .) && if test -n "$$files"; then \
		printf '%s\n' "$$files"; echo 'these are not gofmt-clean: run make fmt' >&2; exit 1; fi
	$(GO) vet ./...
	@echo 'golangci-lint; Go builds it once, which takes a minute or two'
	@$(LINT) config verify
	@$(LINT) run --allow-parallel-runners
	@echo 'the same for bench/, a module of its own'
	@$(GO) -C bench vet ./...
	@$(GO) -C bench tool -modfile=../tools/go.mod golangci-lint run --allow-parallel-runners

soak: deps-or-hint ## The claim's model with many more seeds a policy (SEEDS=4000)
	ROTA_MODEL_GUARDS=search ROTA_MODEL_SEEDS=$(SEEDS) $(GO) test -count=1 -timeout 2h -run TestModel -v ./scheduler/ledger

fuzz: toolchain ## Each fuzz target for FUZZTIME (10s), one after the other
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | \
	while IFS=: read -r file name; do \
		echo "$${file%/*} $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$${file%/*}" </dev/null || exit 1; \
	done

# bench/ is a module of its own. It reports allocations where they mean something, and has tests,
# which run here and nowhere else.
bench: deps-or-hint ## All benchmarks, then those of bench/, which take 4 minutes (docs/performance.md)
	$(GO) test -run '^$$' -bench . -benchmem $(TESTFLAGS) $(PKG)
	$(if $(filter ./...,$(PKG)),$(GO) -C bench test -timeout $(TIMEOUT) -bench . $(TESTFLAGS) ./...)

cover: deps-or-hint ## Test coverage: the sum here, the lines in bin/cover.html
	@mkdir -p bin
	$(GO) test -timeout $(TIMEOUT) -coverpkg=./... -coverprofile=bin/cover.out $(TESTFLAGS) $(PKG)
	@$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	@$(GO) tool cover -func=bin/cover.out | tail -n 1

##@ Look after it

fmt: toolchain ## Format the Go sources (gofumpt)
	$(LINT) fmt

deps: ## Install what the tests need: Redis, PostgreSQL, MariaDB, ip, a C compiler, systemd-analyze (Debian and its kin, as root)
	@.ci/deps install

clean: ## Remove bin/
	rm -rf bin

help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# As root, or with CI set, this installs what is missing; elsewhere it says what to run and stops.
deps-or-hint: toolchain
	@.ci/deps ensure

toolchain:
	@command -v $(GO) >/dev/null || { echo 'rota: go is not in PATH; Go 1.26 or newer builds it' >&2; \
		echo 'rota: hint: https://go.dev/dl/' >&2; exit 1; }

.PHONY: demo build test race lint soak fuzz bench cover fmt deps clean help deps-or-hint toolchain
