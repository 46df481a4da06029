# make demo and make test are all the set-up there is: each creates .venv, installs and runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
EXTRAS := openblas,models,test,lint

.PHONY: demo test lint format bench clean

# Reinstalls when anything that goes into the wheel changed.
SOURCES := CMakeLists.txt pyproject.toml $(shell find ep python -type f -not -name '*.pyc')

$(VENV)/.installed: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps dist/*.whl
	$(BIN)/python -m pip install --quiet "onnxruntime-ep-tunableop[$(EXTRAS)]" --find-links dist
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.installed
	$(BIN)/python -m pytest

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/lint_cpp.py

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(shell git ls-files '*.h' '*.cc' '*.inc')

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.shapes
	$(BIN)/python -m benchmarks.overhead

clean:
	rm -rf build dist $(VENV)
