# Python 3.11+ and make are all that is needed; everything else is installed into .venv.
SHELL := /bin/sh
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BOOTSTRAP = $(if $(PYTHON),$(PYTHON) scripts/bootstrap.py,$(error DeerFlow needs Python 3.11 or newer, and none was found. Install one, or: make PYTHON=/path/to/python))
BIN := .venv/bin
# Runs a command with Node on its PATH: the system's if it is new enough, else the one in .venv.
RUN = $(BOOTSTRAP) run
# One more than there are cores: tests often wait for a process, a browser or a database.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) + 1 )))
# In memory where the system has such a folder: to create and delete their files is a third of the work of the tests.
TEMPORARY := $(shell [ -w /dev/shm ] && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)
# Bytecode is kept whatever the environment says: each worker would compile every test module anew.
PYTEST = PYTHONDONTWRITEBYTECODE= $(TEMPORARY) $(RUN) $(BIN)/pytest -n $(WORKERS) --dist worksteal
FAST = --hypothesis-profile=fast -m "not browser and not slow and not external" --ignore=tests/e2e -p no:schemathesis

.DEFAULT_GOAL := help
.PHONY: help start dev setup install config config-upgrade check check-style check-types check-architecture check-web test test-fast test-changed test-nightly test-bare web bench doctor clean format lock screenshots snapshots tools system reference

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1|\2/' | awk -F'|' '{printf "  make %-12s %s\n", $$1, $$2}'

start: setup ## Install what is missing and serve the page on http://127.0.0.1:2026 (HOST, PORT, ARGS)
	@exec $(BIN)/deerflow serve $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT)) $(ARGS)

dev: setup ## The same, restarted after every change of the Python source (HOST, PORT, ARGS)
	@exec $(BIN)/python scripts/dev.py src -- $(BIN)/deerflow serve $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT)) $(ARGS)

setup: ## Install and build all that `make start` needs, without serving
	@$(BOOTSTRAP) app

install: setup ## The same as `make setup`

config: setup ## Write a config.yaml with comments for every setting, unless there is one
	@if [ -e config.yaml ]; then echo "config.yaml is there already"; else $(BIN)/deerflow config init; fi

config-upgrade: setup ## Turn a config.yaml of the public DeerFlow into one of this project; the old file is kept
	@$(BIN)/deerflow config migrate config.yaml

check: tools ## Formatting, lint, types, import direction, shape; also of the web page
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-types check-architecture check-style check-web

check-style:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/shape.py

check-types:
	$(BIN)/mypy

check-architecture:
	$(BIN)/pytest -q tests/architecture

check-web:
	$(RUN) npm --prefix web run --silent check

test: check system ## Checks, Python tests, web tests and browser tests
	$(PYTEST) --ignore=tests/architecture
	$(RUN) npm --prefix web test --silent

test-fast: tools ## Python tests without browser, containers, other servers and long ones, on SQLite; for every edit
	$(PYTEST) -q $(FAST) --ignore=tests/architecture

test-changed: tools ## The same, of the folders that differ from main
	$(PYTEST) -q $(FAST) $$($(BIN)/python scripts/changed_tests.py)

test-nightly: tools system ## The fuzz tests with 20,000 random examples each, and MCP servers as published today
	$(PYTEST) --nightly --hypothesis-profile=nightly --timeout=36000 \
		tests/runtime/test_fuzz.py tests/mcp/test_pasted_entries.py tests/harness/test_founding_samples.py

test-bare: system ## All of it in a fresh Debian with only what the README asks for (root; TARGET=test)
	@$(PYTHON) scripts/test_bare.py $(TARGET)

web: tools ## Build the web page anew
	@$(BOOTSTRAP) web

bench: tools ## Benchmarks, compared with bench/baseline.md (ONLY=name,name; ACCEPT=1 writes that file)
	@$(BIN)/python bench/_run.py $(if $(ACCEPT),--accept) $(ONLY)

doctor: setup ## Look for what does not work here, and say how to mend it
	@$(BIN)/deerflow doctor

format: tools ## Format and mend what can be mended by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshots: tools system ## Take the pictures in docs/images again
	$(BIN)/python scripts/screenshots.py

snapshots: tools ## Accept what the snapshot tests show now
	ACCEPT_SNAPSHOTS=1 $(BIN)/pytest -q tests/gateway/test_snapshots.py tests/agents/test_lead_agent_prompt.py \
		tests/persistence/test_database.py

reference: tools ## Generate docs/reference from the code
	@$(BIN)/python scripts/reference.py

lock: tools ## Resolve the locked versions again
	@sh scripts/lock.sh

clean: ## Remove everything that was installed or built here; threads and configuration stay
	rm -rf .venv web/node_modules src/deerflow/gateway/static .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +

tools:
	@$(BOOTSTRAP) dev

system:
	@$(BOOTSTRAP) system
