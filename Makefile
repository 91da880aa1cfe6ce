# Needs Python 3.11 or newer and make; everything else is installed into .venv.

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

BIN    := .venv/bin
READY  := .venv/.installed
PYTEST := $(BIN)/python -m pytest
BENCH  := $(PYTEST) --benchmark-only --timeout=0 \
  --benchmark-columns=min,median,iqr,rounds --benchmark-sort=name
RESULTS := benchmarks/results/full

# One thread per process: small matrices are faster that way, and times are comparable.
export OPENBLAS_NUM_THREADS   ?= 1
export OMP_NUM_THREADS        ?= 1
export MKL_NUM_THREADS        ?= 1
export VECLIB_MAXIMUM_THREADS ?= 1
export RAYON_NUM_THREADS      ?= 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help .venv demo test test-slow test-deep fuzz lint format types bench bench-full board sdplib paper truth docs api dist test-lowest coverage mutate clean clean-venv

help: ## Show this list
	@awk -F ':.*## ' '/^[.a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  Extra options go in ARGS, e.g. make test ARGS='-k sets -x'"

.venv: $(READY) ## Build the environment with every extra (again when pyproject.toml changes)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "sdpfeas needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]'
	@touch $@

demo: $(READY) ## Compare every backend on the problem cards demo-*, and write demo-report.html
	rm -f demo-study.db
	$(BIN)/sdpfeas compare benchmarks/demo.toml

test: $(READY) ## Run the fast tests
	$(PYTEST) -m "not slow and not deep" -n $(WORKERS) --dist worksteal --benchmark-disable $(ARGS)

test-slow: $(READY) ## Run the slow tests
	$(PYTEST) -m "slow and not deep" -n $(WORKERS) --dist worksteal --benchmark-disable --timeout=1800 $(ARGS)

test-deep: $(READY) ## Run property tests on many random examples
	HYPOTHESIS_PROFILE=deep $(PYTEST) -m "deep or hypothesis" -n $(WORKERS) --dist worksteal \
	  --benchmark-disable --timeout=7200 $(ARGS)

test-lowest: $(READY) ## Run the fast tests with the lowest versions that pyproject.toml allows
	$(BIN)/python tests/dist/lowest.py -n $(WORKERS) --dist worksteal $(ARGS)

coverage: $(READY) ## Show branches of problem, verifier and drivers that no fast test takes
	$(PYTEST) -m "not slow and not deep" -n $(WORKERS) --benchmark-disable --cov=sdpfeas.problem --cov=sdpfeas.verifier \
	  --cov=sdpfeas.drivers --cov-branch --cov-report=term-missing:skip-covered \
	  tests/problem tests/verifier tests/drivers tests/certifier tests/io $(ARGS)

mutate: $(READY) ## Mutate the code that proves verdicts; list mutants that no test detects
	$(BIN)/python tests/mutants.py $(ARGS)

fuzz: $(READY) ## Fuzz solve and verify on problems with known answer, and audit 20,000 proofs (SDPFEAS_TRUTHS, _FUZZ, _AUDITS)
	$(PYTEST) -m slow -s --benchmark-disable --timeout=0 \
	  tests/drivers/test_planted_truth.py tests/verifier/test_fuzz_range.py tests/certifier/test_many_verdicts.py $(ARGS)

lint: $(READY) ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## Repair style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## Check types
	$(BIN)/mypy

bench: $(READY) ## Run the short benchmarks, under 15 minutes; tables are printed
	$(BENCH) benchmarks --sdpfeas-study benchmarks/cards.toml $(ARGS)
	$(BIN)/python benchmarks/contest.py

bench-full: $(READY) ## Run the benchmarks of docs/benchmarks.md, at most 25 minutes, and write it (ARGS=--resume resumes)
	mkdir -p $(RESULTS)
	status=0; \
	$(BENCH) --full --minutes 4 --benchmark-json $(RESULTS)/lines.json $(foreach name,sdplib fair_pca,benchmarks/bench_$(name).py) || status=$$?; \
	$(BIN)/python benchmarks/contest.py --full --minutes 20 $(ARGS) || status=$$?; \
	$(BIN)/python benchmarks/tables.py $(RESULTS) -o docs/benchmarks.md && exit $$status

board: $(READY) ## Run the board, about ten minutes on two idle cores; rewrites docs/board.md
	$(BIN)/sdpfeas board benchmarks/results/board --time-limit 10 --audit-limit 20 -j 2 $(ARGS)
	$(BIN)/python benchmarks/board_page.py benchmarks/results/board

sdplib: $(READY) ## Bracket optimal values of the public files in SDPFEAS_DATA; writes docs/sdplib.md (ARGS=--fresh)
	$(BIN)/python benchmarks/certified_optima.py -o docs/sdplib.md $(ARGS)

paper: $(READY) ## Reproduce tables of the WLDA paper (ARGS='table1 --quick'; docs/paper.md)
	$(BIN)/python -m benchmarks.paper $(ARGS)

truth: $(READY) ## Run every backend on 500 problems with known answer; writes docs/truth.md
	$(BIN)/python benchmarks/truth_table.py

docs: $(READY) ## Build the documentation site into site/, and run its examples
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -d site/.doctrees docs site
	$(BIN)/python tests/site/check_site.py site
	$(BIN)/python tests/site/look.py site $(ARGS)

api: $(READY) ## Rewrite tests/api.txt, the public interface as text
	$(BIN)/python tests/test_api.py --write

dist: $(READY) ## Build wheel and sdist, install each in a clean environment and test it there
	$(BIN)/python tests/dist/check_dist.py

clean: ## Remove build products and caches (not .venv)
	rm -rf dist build site docs/examples docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

clean-venv: ## Remove .venv
	rm -rf .venv
