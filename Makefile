# Everything happens in .venv. `make` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

# -q -q shows errors only.
PIP := $(BIN)/python -m pip install -q -q --disable-pip-version-check -c constraints.txt

# A stamp is as old as the last install, so a second call installs nothing unless the
# requirements changed.
RUN := $(VENV)/.installed-run
DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test lint types docs unit bench format clean

help: ## List the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

run: $(RUN) ## Install, draw the edges of a photograph, train two networks on digits for two minutes
	$(BIN)/hnets quickstart

# Types and the documentation take a core each: they are checked beside the tests.
test: lint ## Install, then lint, types, documentation, doctests and tests
	@$(MAKE) --no-print-directory -j 3 unit types docs

lint: $(DEV) ## Check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(DEV) ## Check types
	$(BIN)/mypy

# A strict build lets griffe's complaints about docstrings pass, and a cached one does not repeat
# them: hence --clean and the second look.
docs: $(DEV) ## Build the documentation into site/, warnings are errors
	$(BIN)/zensical build --clean --strict > $(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log; exit 1; }
	@if grep '^griffe:' $(VENV)/docs.log; then echo "docs: docstrings above do not match their code"; exit 1; fi

# One thread per worker: the tensors of the tests are small, and workers would fight for the cores.
# Bytecode is kept, whatever the environment says: the processes that tests start need it, too.
unit: $(DEV) ## Run doctests and tests
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal

bench: $(RUN) ## Compare speed and memory with a plain CNN
	$(BIN)/python benchmarks/layers.py

format: $(DEV) ## Fix style and formatting
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove what the targets wrote, except .venv
	rm -rf build dist site turn-out quickstart-out .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true

# pip is the last thing that venv puts there, so its presence says that the venv is whole.
$(BIN)/pip:
	@v=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null || echo missing); \
	case $$v in \
	  3.11 | 3.12 | 3.13) ;; \
	  *) echo "hnets needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is $$v: name one, as in 'make run PYTHON=python3.12'" >&2; exit 1 ;; \
	esac
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing hnets and its requirements into $(VENV); the first time takes minutes."
	@$(PIP) -e ".[plot,bench,train]"
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing hnets and the tools of its tests into $(VENV); the first time takes minutes."
	@$(PIP) -e ".[dev]"
	@touch $@
