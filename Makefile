# Two commands do all their own set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS ?= dev,export,lora
# One thread a process: small matrices on a shared machine lose by more.
export OMP_NUM_THREADS ?= 1

.PHONY: install demo test lint types unit test-gpu bench bench-gpu docs stress clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "loopmt needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt "torch==$$(sed -n 's/^torch==//p' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(EXTRAS)]"
	touch $@

demo: install
	$(BIN)/loopmt demo

test: lint types unit

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

# A test that hangs says where, and ends.
HANGING := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

unit: install
	$(BIN)/python -m pytest -n 2 -m "not gpu and not slow" $(HANGING)

test-gpu:
	python3 -m pytest -m gpu tests

# Speed beside the peers; JOEY=PYTHON names an environment with JoeyNMT 2.3.
bench: install
	$(BIN)/python -m benchmarks.speed --device cpu $(if $(JOEY),--joey $(JOEY))
	$(BIN)/python -m benchmarks.table

bench-gpu:
	PYTHONPATH=src:$$PYTHONPATH python3 -m benchmarks.speed --device cuda
	PYTHONPATH=src:$$PYTHONPATH python3 -m benchmarks.table

# The documentation site, in site/; it opens from the disk and loads nothing from other hosts.
docs: install
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Faults at length: kills by the hundred, and every test that `make test` has only a short form of.
stress: install
	$(BIN)/python -m stress.kills --kills 100 --torchrun 15 --out docs/results/stress/kills.json
	$(BIN)/python -m stress.fuzz --cases 10000 --out docs/results/stress/fuzz.json
	$(BIN)/python -m stress.hostile --out docs/results/serve/hostile.json
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
