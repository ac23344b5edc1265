# Every target a person needs, each with its `## help`. CI calls `make test` and nothing cleverer.

BIN := .venv/bin
RUNTIME := .venv/.runtime
WORKSHOP := .venv/.workshop
NODE_MODULES := channels/web/widget/node_modules/.installed
TYPES := tests/channels/slack/types/node_modules/.installed
TYPED := .venv/.typed
FOREIGN := tests/foreign_mcp/node_modules/.installed
PYTEST := $(BIN)/python -m pytest
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check

# What is compiled is kept: else each process of the tests compiles all, and rewrites the asserts of 400 files, again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install workshop run test slow quick check whole browser format lint typecheck fuzz bench chaos load churn widget lock wheel sbom audit clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The workshop is the runtime and more, with the same pins: to go from one to the other and back installs nothing again.
install: $(RUNTIME) ## Make .venv and install what a server needs (does nothing when up to date)

$(RUNTIME): requirements.lock requirements-build.lock pyproject.toml scripts/venv scripts/build
	@scripts/venv
	@$(PIP) install --require-hashes --requirement requirements.lock
	@scripts/build editable
	@touch $@

workshop: $(WORKSHOP) ## Bring into .venv what tests, checks and builds need besides

$(WORKSHOP): $(RUNTIME) requirements-dev.lock
	@echo "Bringing the workshop into .venv (about a minute, once)"
	@$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@

run: install ## Install, migrate the database and serve; Ctrl-C stops it
	@$(BIN)/parley migrate
	@exec $(BIN)/parley serve

# The tests wait as well as compute: two more at once than there are cores, eight at most.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 6 ? n + 2 : 8)))
PARALLEL := --numprocesses=$(WORKERS) --dist=worksteal
# The checks run beside the tests. They are shown at the end, and either of the two fails the target.
test: workshop browser ## Run the gate: the checks, and beside them the tests
	@$(BIN)/python scripts/gate.py $(PARALLEL)

slow: workshop browser ## Run the gate on a third of the machine
	@PARLEY_PATIENCE=5 $(BIN)/python scripts/gate.py $(PARALLEL) --slow

quick: workshop ## Run the pure tests alone: no database, no process, no browser
	@$(PYTEST) --numprocesses=$(shell getconf _NPROCESSORS_ONLN) --dist=worksteal --quick

check: lint typecheck ## Run what needs no test: style, format, import layers, types

whole: workshop browser $(NODE_MODULES) $(TYPES) $(FOREIGN) ## Run every test, all cases, on both databases (AREA=channels/slack: of that folder)
	@$(if $(AREA),:,$(BIN)/pyright tests)
	@scratch=$$(scripts/scratch); trap 'rm -rf "$$scratch"' EXIT; trap 'exit 1' INT TERM; \
	PARLEY_PICTURES=1 TMPDIR=$$scratch $(PYTEST) $(PARALLEL) --whole $(or $(addprefix tests/,$(AREA)),tests tests/chaos)

# What is built with node, and servers of others that ours are tried against: none of the gate needs them.
$(NODE_MODULES): channels/web/widget/package-lock.json $(WORKSHOP)
	@scripts/npm --prefix channels/web/widget ci --no-audit --no-fund
	@touch $@

$(TYPES): tests/channels/slack/types/package-lock.json $(WORKSHOP)
	@scripts/npm --prefix tests/channels/slack/types ci --no-audit --no-fund
	@touch $@

$(FOREIGN): tests/foreign_mcp/package-lock.json tests/foreign_mcp/requirements.txt $(WORKSHOP)
	@scripts/npm --prefix tests/foreign_mcp ci --no-audit --no-fund --silent
	@$(BIN)/python -m venv tests/foreign_mcp/.venv
	@tests/foreign_mcp/.venv/bin/python -m pip install -qq --disable-pip-version-check --requirement tests/foreign_mcp/requirements.txt
	@touch $@

browser: workshop ## Find a Chromium for the browser tests, or install one
	@scripts/browser

format: workshop ## Format the code and fix what can be fixed by itself
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

lint: workshop ## Check style, format, import layers and our own rules
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/rules.py

typecheck: $(TYPED) ## Check the types of the product, if its code has changed since; of the tests, `make whole` does

$(TYPED): pyproject.toml requirements-dev.lock $(shell find agent_core app channels migrations parley -name '*.py' -o -type d -not -name __pycache__) | workshop
	@$(BIN)/pyright
	@touch $@

fuzz: workshop ## Try new random examples, where `make test` tries the same few each time; all of the API as it describes itself
	@$(PYTEST) --hypothesis-profile=default $(PARALLEL) --whole -m hypothesis
	@$(PYTEST) --whole -q tests/e2e/test_openapi.py

# SHORT=1 shows in a minute or two that each of the three works, and measures nothing to keep.
bench: workshop ## Measure this machine against a bare byte pipe, and bills against the cheapest, in about ten minutes
	@$(BIN)/python -m tests.bench $(if $(SHORT),--quick)

# The storm alone takes about 16 minutes; before it kills at each transaction of each scenario, then a thousand races and
# restarts over approvals (through all surfaces a fifth of the races, as each costs as much as ten), every crash point on
# both databases, every fault, kill and crowd in Slack, a thousand hostile connections at once, and at last one visitor
# beside three who flood.
chaos: workshop ## Kill processes on Postgres 200 times under load, race approvals, every crash, fault and kill, in about 45 minutes
ifdef SHORT
	@$(BIN)/python -m tests.chaos --storm-only --kills 6 --pause 0.5 --talks 8 --zombies 1 --away 2 --deploys 0
else
	@$(BIN)/python -m tests.chaos
	@PARLEY_ROUNDS=1000 PARLEY_WAITING=1000 $(PYTEST) --whole --timeout=1800 -q -s tests/agent_core/test_approval_race.py \
		tests/agent_core/test_approval_restart.py tests/e2e/test_approval_race.py tests/e2e/test_approval_restart.py
	@$(PYTEST) --whole -q $(PARALLEL) tests/agent_core/test_crash.py tests/agent_core/engine tests/e2e/test_kill.py \
		tests/e2e/test_stop.py tests/e2e/test_approvals.py
	@$(PYTEST) --whole -q $(PARALLEL) -k "kill or fault or crowd" tests/channels/slack
	@$(PYTEST) --whole -q -s --timeout=600 tests/e2e/test_edges.py tests/e2e/test_edges_memory.py
	@PARLEY_ROUNDS=50 $(PYTEST) --whole -q tests/e2e/test_cuts.py
endif

load: workshop ## Measure 300 streams through several processes on Postgres, in about five minutes
	@$(BIN)/python -m tests.load $(if $(SHORT),--streams 10 --rounds 1,--write)

churn: workshop ## Have clients come and go and see memory stay flat, in about 20 minutes (MINUTES=5 for fewer)
	@$(BIN)/python -m tests.load.churn --minutes $(or $(MINUTES),20) --write

widget: $(NODE_MODULES) ## Build the browser bundle (brings its own node)
	@scripts/npm --prefix channels/web/widget run build

lock: workshop ## Bring all lock files in line with pyproject.toml, keeping pins that still fit
	@python=$$PWD/$(BIN)/python; temp=$$(mktemp -d); trap 'rm -rf "$$temp"' EXIT; \
	$$python -m venv "$$temp" && \
	"$$temp/bin/python" -m pip install --quiet --disable-pip-version-check uv && \
	"$$temp/bin/uv" pip compile --quiet pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --output-file requirements-dev.lock
	@$(PIP) install --require-hashes --requirement requirements-dev.lock
	@$(BIN)/python scripts/locked.py runtime >requirements.lock.new && mv requirements.lock.new requirements.lock
	@$(BIN)/python scripts/locked.py build >requirements-build.lock.new && mv requirements-build.lock.new requirements-build.lock

wheel: ## Build the wheel (needs nothing but Python)
	@scripts/venv
	@scripts/build wheel

sbom: workshop ## Write the bill of materials of what runs (CycloneDX) to dist/
	@mkdir -p dist
	@$(BIN)/python scripts/locked.py sbom >dist/parley.cdx.json

audit: workshop ## Look up known weaknesses of what runs (asks the advisory database of PyPI)
	@temp=$$(mktemp -d); trap 'rm -rf "$$temp"' EXIT; \
	$(BIN)/python -m venv "$$temp" && \
	"$$temp/bin/python" -m pip install --quiet --disable-pip-version-check pip-audit && \
	"$$temp/bin/pip-audit" --disable-pip --require-hashes --requirement requirements.lock

clean: ## Remove the environment and everything generated; data/ stays
	@rm -rf .venv artifacts build dist htmlcov .coverage .hypothesis .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -prune -exec rm -rf {} +
	@rm -rf channels/web/widget/node_modules
