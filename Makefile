# `make demo` and `make test` do all the set-up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Each test file in one of as many processes as there are cores: what its tests share is made once.
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile
# The files with tests marked `bf16`: states of encoders, and the training of heads, LMs and what stands between them.
COMPUTING := $(shell grep -l 'mark.bf16' tests/*/test_*.py)

.PHONY: demo test test-long test-bf16 test-web test-llm check docs install format clean

demo: install
	$(BIN)/boustro demo

test: install
	$(PYTEST)

# With the tests that are marked `long`: every documented command, and many random cases.
test-long: install
	$(PYTEST) -m '' --hypothesis-profile long

test-bf16: install
	BOUSTRO_BF16=1 $(PYTEST) -m 'bf16 and not long' $(COMPUTING)

# The exported page in Chromium and its module in Node, with onnxruntime-web; needs npm.
test-web: install $(VENV)/web/node_modules/onnxruntime-web
	BOUSTRO_ONNXRUNTIME_WEB=$(abspath $(VENV)/web/node_modules/onnxruntime-web) $(BIN)/python -m pytest -m web tests/apps/test_export_page.py

$(VENV)/web/node_modules/onnxruntime-web: | $(VENV)/.installed
	npm install --silent --no-audit --no-fund --prefix $(VENV)/web onnxruntime-web@1.30.0

# Tests with a real LM: make test-llm DIR=path/of/a/transformers/folder
test-llm: install
	BOUSTRO_REAL_LM=$(abspath $(DIR)) $(BIN)/python -m pytest -m real_lm tests

check: install
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

# The site, in site/; the search works where it is served, for example by `python -m http.server --directory site`.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/.docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

format: install
	$(BIN)/ruff check --fix src tests bench
	$(BIN)/ruff format src tests bench

install: $(VENV)/.installed

# The constraint keeps a bare `torch` from pulling several gigabytes of CUDA packages.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) boustro-demo site
