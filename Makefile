# `make help` lists the targets. `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev,export,lora
# One thread a process: small matrices on a shared machine lose by more.
export OMP_NUM_THREADS ?= 1

.PHONY: help install demo test lint types unit test-gpu bench bench-gpu docs stress constraints dist try-wheel check-tag clean
.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/installed ## make .venv with loopmt and its development tools, at the versions of constraints.txt

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "loopmt needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt setuptools "torch==$$(sed -n 's/^torch==//p' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e ".[$(EXTRAS)]"
	touch $@

demo: install ## train, compare and translate between built-in languages; about 6 minutes on two CPU cores
	$(BIN)/loopmt demo

test: lint types unit ## everything that must pass before a change is merged: lint, types, unit

lint: install ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install ## mypy --strict
	$(BIN)/mypy

# A test that hangs says where, and ends.
HANGING := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

unit: install ## pytest without the tests that need CUDA or long
	$(BIN)/python -m pytest -n 2 -m "not gpu and not slow" $(HANGING)

test-gpu: ## the tests that need CUDA, with the Python and torch of the machine
	python3 -m pytest -m gpu $$(grep -rl --include='test_*.py' 'mark\.gpu' tests)

# JOEY=PYTHON names an environment with JoeyNMT 2.3.
bench: install ## speed on the CPU beside other toolkits
	$(BIN)/python -m benchmarks.speed --device cpu $(if $(JOEY),--joey $(JOEY))
	$(BIN)/python -m benchmarks.pages

bench-gpu: ## speed on a GPU beside other toolkits
	PYTHONPATH=src:$$PYTHONPATH python3 -m benchmarks.speed --device cuda
	PYTHONPATH=src:$$PYTHONPATH python3 -m benchmarks.pages

docs: install ## build the documentation site in site/ (to search it: python3 -m http.server -d site)
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

stress: install ## a hundred kills, fuzzing, pairs of verbs, hostile clients, and the long form of the tests of damage
	$(BIN)/python -m stress.kills --kills 100 --torchrun 15 --out docs/results/stress/kills.json
	$(BIN)/python -m stress.fuzz --cases 10000 --out docs/results/stress/fuzz.json
	$(BIN)/python -m stress.together --out docs/results/stress/together.json
	$(BIN)/python -m stress.hostile --out docs/results/serve/hostile.json
	$(BIN)/python -m pytest -m slow

constraints: install ## write constraints.txt and requirements-hashed.txt; UPGRADE=--upgrade takes the newest versions
	$(BIN)/python -m pip install --quiet "uv>=0.8"
	$(BIN)/python scripts/constraints.py --extras $(EXTRAS),docs $(UPGRADE)

dist: install ## build the source archive and the wheel in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation --quiet

try-wheel: dist ## install the wheel into an empty environment, and run the demo there
	rm -rf build/try
	$(PYTHON) -m venv build/try
	build/try/bin/python -m pip install --quiet -c constraints.txt "$$(echo dist/*.whl)[all]"
	cd build/try && bin/loopmt doctor && bin/loopmt demo

check-tag: ## fail unless TAG is the version of pyproject.toml, with a section in the changelog
	$(PYTHON) scripts/check_tag.py "$(TAG)"

clean: ## remove the environment, builds and caches
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
