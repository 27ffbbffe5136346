# Everything starts here. Each target does the set-up it needs; all of them work from any directory and twice in a row.

SHELL := /bin/bash
ROOT := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))
BIN := $(ROOT).venv/bin
PYTHON ?= python3
SERVES := $(ROOT).venv/.serves
READY := $(ROOT).venv/.ready
# Some tests wait for processes and clocks: one worker more than cores keeps all cores at work.
WORKERS := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1 )))

# What is tested a second time without the speed tricks: what is said on the wire.
BOTH_WAYS := tests/wire tests/vectors tests/gateway/mcp/test_door.py

# `make quick` has these rooms, without the tests marked `outside`: tests/inside.py lets no other test through.
QUICK := $(addprefix tests/,agent cli config core engine models net registry skills store wire)
NOT_QUICK := tests/store/postgres tests/cli/test_mcp_clients.py tests/cli/test_mcp_login.py
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

# The tests start hundreds of processes. Each would compile every module anew if none might keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup system serve quick test pytest sdk web screenshots test-android chaos conformance coverage check release-check format docs recording bench scale-sim bench-peers audit lock clean
.DEFAULT_GOAL := help

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(ROOT)Makefile | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## a virtual environment in .venv with everything in it

$(READY): $(ROOT)pyproject.toml $(ROOT)constraints.txt $(ROOT)scripts/setup
	@PYTHON=$(PYTHON) $(ROOT)scripts/setup all

# What serving needs is a third of the packages and a fifth of the megabytes. `setup` adds the rest to it.
$(SERVES): $(ROOT)pyproject.toml $(ROOT)constraints.txt $(ROOT)scripts/setup
	@PYTHON=$(PYTHON) $(ROOT)scripts/setup serve

system: ## the system packages that the sandbox and the tests in a browser need (as root; otherwise the command to run)
	@$(ROOT)scripts/system-packages

serve: $(SERVES) ## the gateway, with its embedded defaults; installs only what it needs
	@$(BIN)/handspan serve

quick: setup ## the tests that stay in their process, about a minute: after each change
	@cd $(ROOT) && $(BIN)/python -m compileall -q src
	@cd $(ROOT) && TESTS_PROFILE=quick $(BIN)/python -m pytest -q -n $(CORES) --dist worksteal -m "not outside" $(addprefix --ignore ,$(NOT_QUICK)) $(QUICK)

test: setup system ## every gate and every test; the longest of the four parts begins first, and each prints when it has ended
	@$(MAKE) --no-print-directory -C $(ROOT) -j3 --output-sync=target pytest web sdk check

pytest: setup system ## the tests in Python
	@$(ROOT)scripts/node-parts
	@$(ROOT)scripts/fastmcp-client
	@cd $(ROOT) && $(BIN)/python -m compileall -q src
	@cd $(ROOT) && [ -d tests/__pycache__ ] || $(BIN)/python -m pytest -q --collect-only >/dev/null || true # compiles all once, not in every worker
	@cd $(ROOT) && $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal
	@cd $(ROOT) && HANDSPAN_FAST=off $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(BOTH_WAYS)

coverage: setup system ## the tests in Python, and which branches they try: at least 91.5 % of them, and how many in each room
	@cd $(ROOT) && rm -f .coverage .coverage.*
	@cd $(ROOT) && $(BIN)/coverage run -m pytest -q -n $(WORKERS) --dist worksteal
	@cd $(ROOT) && $(BIN)/coverage combine -q && $(BIN)/python scripts/coverage_of_rooms.py

release-check: setup ## build the wheels, install each in an environment of its own, and use it from an empty folder
	@$(ROOT)scripts/release-check

sdk: setup system ## the TypeScript SDK: checked, built and tested, in Node and in a browser
	@$(ROOT)scripts/sdk-test

web: setup system ## the page: checked, built and tested in a browser with a real gateway
	@$(ROOT)scripts/web-test

screenshots: setup system ## pictures of every page in web/screenshots, and those of the README in docs/pictures
	@$(ROOT)scripts/screenshots

test-android: setup ## the app for Android and its libraries: built by Maven, tested on a JVM (JDK 17) with Android's framework code and a real gateway; not part of `test`
	@$(ROOT)scripts/android-test

chaos: setup ## dropped links, kills, hostile clients, floods, outages, a soak of ten minutes; then properties and floods in their deep form
	@cd $(ROOT) && $(BIN)/python -m tests.chaos
	@cd $(ROOT) && $(BIN)/python -m tests.chaos --postgres storm pages kills sigterm walks
	@cd $(ROOT) && TESTS_PROFILE=deep $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --timeout 3600 -o faulthandler_timeout=3700 -m "hypothesis or flood"
	@cd $(ROOT) && TESTS_PROFILE=deep $(BIN)/python -m pytest -q --timeout 3600 -o faulthandler_timeout=3700 tests/interaction/test_behaviours.py -k postgres

conformance: setup ## the MCP conformance suite against our MCP server and our MCP client: passed and failed
	@$(ROOT)scripts/node-parts
	@cd $(ROOT) && $(BIN)/python -m tests.conformance

check: setup ## format, lint, types, import contracts; then the longest files and functions and the counts of composition, as a mirror
	@cd $(ROOT) && $(BIN)/ruff format --check -q . && $(BIN)/ruff check -q . && echo "ruff: clean"
	@cd $(ROOT) && $(BIN)/mypy
	@cd $(ROOT) && $(BIN)/lint-imports --no-logo
	@cd $(ROOT) && $(BIN)/python scripts/longest.py && $(BIN)/python scripts/composition.py

format: setup ## put every file in the house's form
	@cd $(ROOT) && $(BIN)/ruff check -q --fix . ; $(BIN)/ruff format -q .

docs: setup ## write what is generated: docs/settings.md, docs/troubleshooting.md, the prices of models, the JSON Schemas of the protocol, the types of REST and events of the SDK
	@cd $(ROOT) && $(BIN)/python scripts/settings_page.py && $(BIN)/python scripts/troubleshooting_page.py && $(BIN)/python scripts/prices.py && $(BIN)/python scripts/protocol_schemas.py && $(BIN)/python scripts/sdk_types.py

recording: setup ## run the README's story and draw it anew: docs/pictures/terminal.svg
	@cd $(ROOT) && $(BIN)/python scripts/recording.py

bench: setup ## our figures against the floor, as a table and in bench/results/latest.json
	@cd $(ROOT) && $(BIN)/python -m bench

scale-sim: setup ## what a million devices need, computed from figures that are measured here
	@cd $(ROOT) && $(BIN)/python -m bench.scale_sim

bench-peers: setup ## the same, beside the peers in virtual environments of their own; draws docs/pictures/peers-*.svg
	@cd $(ROOT) && $(BIN)/python -m bench --peers

audit: setup ## known holes in what we depend on, and the security rules of the linter
	@cd $(ROOT) && $(BIN)/ruff check -q --select S --ignore S101,S603,S607 src && echo "ruff S: clean"
	@cd $(ROOT) && $(BIN)/pip-audit --progress-spinner off --skip-editable

lock: setup ## write constraints.txt anew: the newest versions that fit pyproject.toml
	@cd $(ROOT) && scripts/lock

clean: ## remove what make made
	@cd $(ROOT) && rm -rf .venv .venv-fastmcp .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/results
	@cd $(ROOT) && rm -rf sdks/typescript/node_modules sdks/typescript/dist web/node_modules web/dist web/screenshots
