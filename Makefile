# Each target does its own set-up and can be run again at any time; `make help` lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# A set-up that fails is a failed run, and ends with the count that every runner ends with.
SETUP := scripts/setup || { echo "0 passed, 1 failed"; exit 1; }
GATES := .venv/bin/python tests/runner/gates.py

.PHONY: help setup check test evidence torture bench demo docs clean distclean

help: ## this text
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## packages, virtual environment and collection path (every target does this itself)
	@scripts/setup

check: ## for use during development: unit tests, and checks of what changed since BASE (the upstream branch, or the commit before)
	@rm -f tests/output/summary.txt; $(SETUP)
	@$(GATES) --suite check

test: ## every routine gate that is not current in tests/evidence.json, and a long one if it fits; EVIDENCE=GATE chooses it, EVIDENCE=none runs all routine gates and no other
	@rm -f tests/output/summary.txt; $(SETUP)
	@$(GATES) --suite test

evidence: ## make test from a checkout without changes, which records what passes; GATE=NAME only this gate, or those whose names begin so
	@rm -f tests/output/summary.txt; $(SETUP)
	@$(GATES) --evidence $(if $(GATE),--only $(GATE))

torture: ## every long matrix, for a day; ROUNDS=3 times the whole flow; recorded like make evidence; RESUME=1 continues a run that was interrupted
	@rm -f tests/output/summary.txt; $(SETUP)
	@$(GATES) --suite torture --evidence $(if $(RESUME),--resume)

bench: ## vm_define compared with its peer, a minimal module and a ping: a table of ratios (QUICK=1 only shows that it works)
	@scripts/setup
	@.venv/bin/python -m benchmarks $(if $(QUICK),--quick)

demo: ## a whole footprint on this machine: lab up, site twice, a table of the results; CLOUD=1: with an OpenStack cloud
	@scripts/setup
	@PATH="$(CURDIR)/.venv/bin:$$PATH" lab/demo$(if $(CLOUD),-cloud)

docs: ## the documentation site with search and reference, in .cache/site/html
	@scripts/setup
	@.venv/bin/python docs/docsite/build.py

clean: ## remove every lab of this checkout completely, and the files of earlier runs
	@lab/lab down --all
	@python3 tests/support/leftovers.py
	@rm -rf .lab* tests/output .pytest_cache .hypothesis .ansible .cache/checked .cache/build .cache/molecule .cache/site
	@find . -path ./.venv -prune -o -path ./.cache -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean ## also forget the virtual environment and all caches
	@rm -rf .venv .cache
