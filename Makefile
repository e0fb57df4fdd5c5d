.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# Two OpenMP threads that spin at barriers starve one another on small machines; waiting passively costs nothing.
export OMP_WAIT_POLICY ?= PASSIVE

# Debian packages, where this is root on Debian
APT_GET := [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
  && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends >/dev/null

.PHONY: help install browser spark demo test lint bench torture fuzz load audit paper results docs wheel clean

help: ## Show the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

install: .venv/installed ## Create .venv and install orderfree with the pinned versions

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

browser: ## Install Chromium for the tests of the page (Debian, as root); they are skipped where it is missing
	@command -v chromedriver >/dev/null || { $(APT_GET) chromium chromium-driver; } \
	  || echo "chromium-driver is not here and cannot be installed (that takes root and apt-get): no tests of the page"

spark: install ## Install Java and pyspark for the test of the Spark recipe (456 MB); it is skipped where they are missing
	@command -v java >/dev/null || { $(APT_GET) default-jre-headless; } \
	  || echo "Java is not here and cannot be installed (that takes root and apt-get): no test of the Spark recipe"
	@$(BIN)/python -c "import pyspark" 2>/dev/null \
	  || timeout 300 $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt pyspark \
	  || echo "pyspark cannot be installed: no test of the Spark recipe"

demo: install ## Train on the toy corpus, evaluate every decoder, predict three new texts, write a report
	$(BIN)/orderfree demo --out demo --overwrite

lint: install ## Style, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One thread in each of the two processes: threads of both on the same cores would wait for one another.
test: export OMP_NUM_THREADS ?= 1
test: lint browser spark ## Lint, types, import layers and all tests
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

bench: install ## Speed and memory, as ratios taken in one run
	$(BIN)/python benchmarks/speed/run.py
	$(BIN)/python benchmarks/speed/scaling.py
	$(BIN)/python benchmarks/speed/slow_twin.py
	$(BIN)/python benchmarks/speed/precision.py
	$(BIN)/python benchmarks/memory.py

torture: install ## Kill trainings 50 times at random moments: every one ends in the same bytes
	$(BIN)/python benchmarks/reliability/torture.py

fuzz: install ## Damaged model directories, made-up predictions, requests, files for the readers, sizes, properties
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt atheris
	$(BIN)/python benchmarks/reliability/fuzz_models.py
	$(BIN)/python benchmarks/reliability/fuzz_predictions.py
	$(BIN)/python benchmarks/reliability/fuzz_service.py
	$(BIN)/python benchmarks/reliability/fuzz_sizes.py
	$(BIN)/python benchmarks/reliability/fuzz_readers.py
	$(BIN)/pytest -n 2 --hypothesis-profile thorough tests/properties

load: install ## The service under twice its load, for half an hour, stopped in the middle: MODEL=runs/x TEXTS=test.jsonl
	$(BIN)/python benchmarks/load.py $(MODEL) $(TEXTS)

audit: install ## Known vulnerabilities, licences and an SBOM (build/sbom.json) of what is installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt pip-audit cyclonedx-bom pip-licenses
	mkdir -p build
	$(BIN)/pip-licenses --from=mixed --format=markdown --output-file=build/licences.md
	$(BIN)/cyclonedx-py environment .venv --pyproject pyproject.toml --of JSON -o build/sbom.json
	$(BIN)/pip-audit --progress-spinner off --disable-pip --no-deps -r constraints.txt

paper: install ## The runs of the paper's tables that are still owed: start them, or go on (scripts/paper_runs.sh --list)
	scripts/paper_runs.sh

results: install ## Tables and figures in docs/results, docs/how_to/choose.md and README.md, from the result files
	$(BIN)/python benchmarks/results_pages.py
	$(BIN)/python benchmarks/data_tables.py
	$(BIN)/python benchmarks/choose_tables.py
	$(BIN)/python benchmarks/readme_table.py

docs: install ## Pages of commands and config keys from the code, then the site (build/site), with its links checked
	$(BIN)/python scripts/reference_pages.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: install ## Build the wheel (dist), then go from it to a served prediction in a clean environment, as the README says
	rm -rf build/lib dist
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	$(BIN)/python benchmarks/five_commands.py dist/*.whl

clean: ## Remove what the other targets made
	rm -rf .venv demo build dist
