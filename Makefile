# What a developer types. Every target does its own set-up, in $(VENV) and nowhere else: python3 (3.11 or later) with pip
# is all it needs. `make PYTHON=python3.13 VENV=.venv-3.13 test` takes another Python.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= auto
SECONDS ?=
PEERS ?=
ARGS ?=

bin := $(VENV)/bin
# Paths from outside would be seen before ours; a gateway under test takes no settings from whoever runs the tests.
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help demo test check lint fuzz soak lock bench clean

help: ## what can be made
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(VENV)/.run ## see it work: a scripted upstream, the gateway and callers, no key, no network (SECONDS=20)
	$(bin)/python -m gateway demo $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

test: $(VENV)/.dev ## the whole test suite, in parallel (ARGS="-k usage", WORKERS=0 for one process)
	$(bin)/python -m pytest -n $(WORKERS) $(ARGS)

lint: $(VENV)/.dev ## style, formatting and types
	$(bin)/ruff check
	$(bin)/ruff format --check
	$(bin)/mypy

check: lint ## all that must hold: lint, tests, house rules, coverage
	$(bin)/coverage erase
	$(bin)/coverage run -m pytest -n $(WORKERS) $(COVERING) $(ARGS)
	$(bin)/coverage combine --quiet
	$(bin)/coverage report --fail-under=95 --skip-covered
	$(bin)/coverage report --fail-under=100 --include='$(subst $(space),$(comma),$(strip $(WHOLLY_COVERED)))'
	$(bin)/python -m pytest -n $(WORKERS) $(addprefix --ignore=,$(COVERING)) $(ARGS)

fuzz: $(VENV)/.dev ## what hypothesis makes of requests, answers and bytes on the wire, 2,000 examples a dialect
	HYPOTHESIS_PROFILE=deep $(bin)/python -m pytest -n $(WORKERS) tests/fuzz $(ARGS)

soak: $(VENV)/.dev ## the fault matrix as a table, then mixed traffic with faults for 10 minutes (SECONDS=60)
	$(bin)/python -m tests.soak.soak $(SECONDS)

# What must reach every line, and is traced for it. The others run gateways at their own speed: faults, floods, real servers.
COVERING := tests/gateway tests/telemetry
# Where a branch that no test takes is a rule that nobody has seen at work.
WHOLLY_COVERED := gateway/rules/* gateway/dialects/* gateway/relay.py gateway/sse.py gateway/template.py gateway/policy.py
comma := ,
space := $(subst ,, )

lock: ## resolve the dependencies anew (ARGS=--upgrade for the newest)
	PYTHON=$(PYTHON) requirements/lock.sh $(ARGS)

bench: $(VENV)/.run ## what a call costs, beside nginx and no gateway (PEERS=1: and LiteLLM, Portkey, TensorZero; ARGS="--rounds 1")
	$(bin)/python -m tests.bench $(if $(PEERS),--peers) $(ARGS)

clean: ## take away the environment and what the tools left behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.*

# ---- set-up: a stamp per lock file

# pip is the one outside, so that Debian's python3-venv (ensurepip) is not needed; where there is none, ensurepip brings one.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Thinkcap needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Another: make PYTHON=python3.12" >&2; exit 1; }
	@if $(PYTHON) -m pip --version >/dev/null 2>&1; then $(PYTHON) -m venv --without-pip $(VENV); else $(PYTHON) -m venv $(VENV); fi || { \
	  rm -rf $(VENV); echo "No environment could be made: $(PYTHON) needs pip (Debian: apt-get install python3-pip)" >&2; exit 1; }

pip = $$(if [ -x $(bin)/pip ]; then echo $(bin)/python -m pip; else echo $(PYTHON) -m pip --python $(bin)/python; fi) \
  --disable-pip-version-check --quiet --quiet

$(VENV)/.run: requirements/run.txt requirements/build.txt pyproject.toml | $(VENV)/bin/python
	@echo "installing into $(VENV)"
	@$(pip) install --require-hashes -r requirements/run.txt
	@$(pip) install --require-hashes -r requirements/build.txt
	@$(pip) install --no-deps --no-build-isolation --editable .
	@$(bin)/python -m compileall -q gateway telemetry # as pip does for all else: a quarter of the time a start takes
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@$(pip) install --require-hashes -r requirements/dev.txt
	@touch $@
