# make demo    makes .venv if it is not there, and shows what gswm imagines, in demo/index.html
# make test    makes .venv if it is not there, and runs the whole suite;
#              the studio's tests in a browser too, where a Chromium is found
# make results writes docs/results.md and its figures from docs/results/*.json

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test results lint clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/gswm demo --out demo

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --ignore tests/test_studio_browser.py $(ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/test_studio_browser.py

results: setup
	$(BIN)/gswm report docs/results --out report --markdown docs/results.md

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

clean:
	rm -rf $(VENV) demo
