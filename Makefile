# duetime: one command for each thing a newcomer, a developer or CI wants.
# A line of the form "target: ## text" is what `make help` prints.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# Everything the tests need; a new broker or way in adds its extra here.
EXTRAS := dev,mysql,postgresql
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
# Files of tests that run at the same time; much of a test is waiting for a server.
WORKERS := 2
WITH_SERVERS := $(BIN)/python scripts/services up && env="$$($(BIN)/python scripts/services env)" && eval "$$env" &&

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: .venv/core.stamp ## a small shop on SQLite closes its orders before your eyes; ARGS="--timeout 3s --rate 200"
	@$(BIN)/duetime demo $(ARGS)

.PHONY: test
test: .venv/dev.stamp ## start the servers and run every test that is not marked long; ARGS="tests/unit -x"
	@$(WITH_SERVERS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not long" $(ARGS)

.PHONY: test-long
test-long: .venv/dev.stamp ## the tests that do not fit CI: large tables, long races
	@$(WITH_SERVERS) $(BIN)/python -m pytest -m long $(ARGS)

.PHONY: check
check: .venv/dev.stamp ## lint, format, types, direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: .venv/dev.stamp ## format the code and repair what the linter can repair
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

.PHONY: bench-small
bench-small: .venv/dev.stamp ## every benchmark once on small data, so that none rots
	@$(WITH_SERVERS) for file in benchmarks/[a-z]*.py; do [ -e "$$file" ] || continue; \
		echo "== $$file --small"; $(BIN)/python "$$file" --small $(ARGS) || exit 1; done

.PHONY: bench
bench: .venv/dev.stamp ## every benchmark at full size; prints its figures and keeps them as dated JSON
	@$(WITH_SERVERS) for file in benchmarks/[a-z]*.py; do [ -e "$$file" ] || continue; \
		echo "== $$file"; $(BIN)/python "$$file" $(ARGS) || exit 1; done

.PHONY: services-up
services-up: ## start the database servers of the tests (private ports and folder, loopback only)
	@scripts/services up

.PHONY: services-down
services-down: ## stop them; their data stays
	@scripts/services down

.PHONY: clean
clean: ## stop the servers; remove their data, .venv and everything built
	@scripts/services wipe
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/core.stamp: pyproject.toml
	@scripts/venv
	@echo "Installing duetime and its core dependencies into .venv"
	@$(PIP_INSTALL) .
	@touch $@

.venv/dev.stamp: pyproject.toml
	@scripts/venv
	@echo "Installing duetime with $(EXTRAS) into .venv"
	@$(PIP_INSTALL) ".[$(EXTRAS)]"
	@touch .venv/core.stamp $@
