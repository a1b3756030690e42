# Tallystick: what people type. `make try` first; `make test` before a change is handed on.
#
# The environment lives in .venv and is made again only when pyproject.toml changes. Nothing outside of this directory
# is written: no HOME, no git identity and no global package is needed.

SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
INSTALL := $(PY) -m pip --disable-pip-version-check --no-input install --quiet
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help try test check lint types bench docs wheel clean

help: ## what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- environments -------------------------------------------------------------------------------------------------

$(PY):
	@found=""; \
	for name in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found="$$name"; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "make: no Python 3.11 or newer with the module venv was found (looked for python3, python3.14 … python3.11)." >&2; \
	  echo "Install one (Debian and Ubuntu: python3 python3-venv), or name it: make try PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version)"; \
	"$$found" -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(PY)
	@echo "Installing Tallystick and its dependencies into $(VENV)"
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(PY)
	@echo "Installing Tallystick and its development tools into $(VENV)"
	@$(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.bench: pyproject.toml | $(PY)
	@echo "Installing what the benchmarks compare with into $(VENV)"
	@$(INSTALL) -e '.[dev,bench]'
	@touch $@ $(VENV)/.dev $(VENV)/.run

# --- what people type ---------------------------------------------------------------------------------------------

try: $(VENV)/.run ## the main job on a real repository, visibly, in a temporary home
	@$(BIN)/tally try

test: $(VENV)/.dev ## everything: lint, types and all tests; what CI calls
	@status=0; \
	$(PY) -m ruff check . || status=1; \
	$(PY) -m mypy || status=1; \
	$(PY) -m pytest -n $(JOBS) -rsfE || status=1; \
	command -v bwrap >/dev/null || echo "make: without bubblewrap the tests of the sandbox were skipped; to run them: install bubblewrap" >&2; \
	command -v strace >/dev/null || echo "make: without strace the counts of system calls were skipped; to run them: install strace" >&2; \
	exit $$status

check: lint types ## the fast part, under a minute: lint, types, imports, rules, properties, stores
	@$(PY) -m pytest -n $(JOBS) $(wildcard tests/test_*.py) tests/unit tests/property tests/contract tests/golden \
	  --ignore=tests/contract/test_counters.py

lint: $(VENV)/.dev
	@$(PY) -m ruff check .

types: $(VENV)/.dev
	@$(PY) -m mypy

bench: $(VENV)/.bench ## measure it, in interleaved rounds
	@$(PY) -m bench

docs: $(VENV)/.dev ## write the generated reference and the transcripts again
	@$(PY) -m tools.reference
	@$(PY) -m tools.transcript

wheel: $(VENV)/.dev ## build dist/*.whl and dist/*.tar.gz
	@$(INSTALL) build
	@$(PY) -m build --outdir dist .

clean: ## remove the environment and what was built
	@rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
