# Every target sets up what it needs in .venv, from nothing but Python 3.11 or newer, pip and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python tests/compile_loops.py && $(BIN)/python -m pytest -n logical --maxprocesses 8 \
	--dist loadfile --no-loadscope-reorder
CORE := bm25 boundary cli container corpus densify explain filter gip hybrid index living lossless operators replaced \
	runs search slicing vocabulary
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-fast gpu crash lint format docs clean
.DEFAULT_GOAL := demo

demo: $(VENV)/core            ## search the standard library's documentation
	@$(BIN)/denslice demo

test: $(VENV)/dev             ## the whole test suite on all cores (about seven minutes on two); browser tests are skipped where chromium cannot be had
	@sh tests/install_chromium.sh
	@$(PYTEST)

test-fast: $(VENV)/dev        ## the core laws, in a minute: the paper, encoding words, the index and its folder, search, commands
	@$(PYTEST) $(CORE:%=tests/test_%.py)

gpu: $(VENV)/gpu              ## what the test suite leaves out: the same tests on an NVIDIA GPU
	@$(BIN)/python -m pytest -m gpu

crash: $(VENV)/dev            ## kills, readers beside a writer, few handles, and damage to every file, in full (about half an hour)
	@$(BIN)/python tests/kill_writer.py --kills 1000
	@$(BIN)/python tests/kill_upgrade.py --kills 200
	@$(BIN)/python tests/kill_sync.py --edits 100
	@$(BIN)/python tests/kill_deepen.py --kills 200
	@$(BIN)/python tests/many_commits.py --commits 10000
	@$(BIN)/python tests/readers.py --commits 100 --docs 500
	@for use in read add merge; do for kind in texts vectors; do \
		$(BIN)/python tests/damage.py --kind $$kind --use $$use || exit 1; done; done

lint: $(VENV)/dev             ## format, lint, types, direction of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(VENV)/docs            ## the documentation site, in site/; every warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html, or read it while you write: $(BIN)/mkdocs serve"

clean:
	rm -rf $(VENV) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "denslice needs Python 3.11 or newer")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/core: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing denslice and what it needs into $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing denslice and its development tools into $(VENV) ..."
	@$(PIP) torch
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/core

$(VENV)/docs: $(VENV)/bin/python pyproject.toml constraints.txt
	@$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/core

$(VENV)/gpu: $(VENV)/dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[gpu]'
	@touch $@
