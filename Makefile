# make demo and make test are all the set-up there is: each creates .venv, installs and runs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# What goes to pip when the wheel is built, e.g. --config-settings=cmake.define.TUNABLEOP_WERROR=ON
WHEEL_FLAGS ?=
# What goes to pytest: two tests at a time, for most of them start processes and wait.
PYTEST_FLAGS ?= -n 2 --dist worksteal
# What goes to tools/lint_cpp.py: --no-tidy for the quick part.
LINT_CPP_FLAGS ?=

.PHONY: demo test sanitize lint format bench clean

# Builds and installs the wheel again when anything that goes into it changed.
SOURCES := CMakeLists.txt pyproject.toml $(shell find ep python models -type f -not -name '*.pyc') \
           $(shell find tests/native tests/gpu_sim -name CMakeLists.txt -o -name '*.cc' -o -name '*.h')
# The same build makes what only tests need, in build/tests; nothing of it is in the wheel.
TESTS_FLAG := --config-settings=cmake.define.TUNABLEOP_BUILD_TESTS=ON
# Several files at once: headers are read once, and it takes half the time.
TOGETHER_FLAG := --config-settings=cmake.define.CMAKE_UNITY_BUILD=ON

$(VENV)/.installed: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	rm -rf dist
	@echo "building the wheel, without further words: some four minutes on two free cores"
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist $(TESTS_FLAG) $(TOGETHER_FLAG) $(WHEEL_FLAGS) .
	$(BIN)/python -m pip install --quiet --force-reinstall --no-deps dist/*.whl
	$(BIN)/python -m pip install --quiet "onnxruntime-ep-tunableop[openblas,models]" --find-links dist
	touch $@

# What only test, lint and format need.
$(VENV)/.tools: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet "onnxruntime-ep-tunableop[test,lint,serve]" --find-links dist
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py

test: $(VENV)/.tools
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

# The native code once with AddressSanitizer and UBSan, once with ThreadSanitizer, under a part of the tests.
sanitize: $(VENV)/.tools
	$(BIN)/python tools/sanitize/run.py

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/lint_cpp.py $(LINT_CPP_FLAGS)

format: $(VENV)/.tools
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(shell git ls-files '*.h' '*.cc' '*.inc')

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.shapes
	$(BIN)/python -m benchmarks.overhead

clean:
	rm -rf build dist $(VENV)
