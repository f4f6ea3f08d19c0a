# `make check` is what continuous integration runs; it installs what it needs into .venv first.
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: setup check lint types imports test check-long conformance format bench clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

check: lint types imports test

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: setup
	$(BIN)/lint-imports

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow"

check-long: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow

conformance: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/conformance

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	$(BIN)/python -m bench

clean:
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
