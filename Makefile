.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# Two OpenMP threads that spin at barriers starve one another on small machines; waiting passively costs nothing.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: help install demo test lint bench results clean

help: ## Show the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: .venv/installed ## Create .venv and install orderfree with the pinned versions

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: install ## Train on the toy corpus, evaluate every decoder, predict three new texts, write a report
	$(BIN)/orderfree demo --out demo --overwrite

lint: install ## Style, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## Lint, types, import layers and all tests
	$(BIN)/pytest -n 2 --dist loadfile

bench: install ## Speed and memory, as ratios taken in one run
	$(BIN)/python benchmarks/speed/run.py
	$(BIN)/python benchmarks/speed/scaling.py
	$(BIN)/python benchmarks/speed/slow_twin.py
	$(BIN)/python benchmarks/memory.py

results: install ## Tables and figures in docs/results, from the result files
	$(BIN)/python benchmarks/results_pages.py

clean: ## Remove what the other targets made
	rm -rf .venv demo build dist
