# The front door: `make simulate` runs the main job, `make test` the tests. Both make .venv the first time.

PYTHON ?= python3
BIN := .venv/bin
INSTALL ?= $(BIN)/python -m pip install --quiet

# A file's tests stay together in one process, in order. Federations wait more than they compute: one process more than
# two cores have.
PARALLEL ?= -n 3 $(BY_FILE)
BY_FILE := --dist loadfile --no-loadscope-reorder
# `dummy` reads and checks every page of the site, and writes none.
BUILDER ?= html

.PHONY: simulate test test-quick test-all lint docs clean

# Tests start many processes: what one of them, or `make docs`, has compiled, the others need not compile again.
test test-quick test-all docs: export PYTHONDONTWRITEBYTECODE =

simulate: .venv/installed
	$(BIN)/python -m fedlearn.simulate --clients 100 $(ARGS)

test: .venv/installed-dev
	$(BIN)/python -m pytest $(PARALLEL) -m "not long and not network" $(ARGS)

test-quick: .venv/installed-dev
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

test-all: .venv/installed-dev
	$(BIN)/python -m pytest $(PARALLEL) -m "" --hypothesis-profile long $(ARGS)

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.plain

docs: .venv/installed-dev
	$(BIN)/sphinx-build -b $(BUILDER) --quiet --fail-on-warning --keep-going docs docs/_build
	@[ $(BUILDER) != html ] || echo docs/_build/index.html

# torch and torchvision come from the registry in one go with the rest: installed apart they may not fit each other.
.venv/installed: EXTRAS = [all]
.venv/installed-dev: EXTRAS = [dev,docs]
.venv/installed .venv/installed-dev: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(INSTALL) --editable '.$(EXTRAS)'
	touch $@

clean:
	rm -rf docs/_build docs/reference/generated docs/reference/api/*.rst .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
