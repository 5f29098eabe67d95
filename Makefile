# make setup     creates .venv, or updates it when pyproject.toml or constraints.txt has changed;
#                every target below but `make docs` does this first
# make demo      writes demo/index.html: imagined futures, scores and worlds
# make test      runs the test suite on a CPU, in about 4 minutes on two cores; tests of the studio
#                in a browser run if a browser is found, and are skipped otherwise
# make test-all  runs the slow tests too: models that train until they have learned, 3D worlds,
#                and compilers
# make test-slow runs only the slow tests and those in a browser: after `make test` on a machine
#                without a browser, all that is left
# make fuzz      tries 20,000 random bad inputs in its own process and 500 in processes of their own
# make browser   installs a Chromium for the tests if none is found
# make lint      checks style and types with ruff and pyright
# make lock      writes constraints.lock, the hashes of the versions in constraints.txt
# make soak      works with a studio in 8 tabs for 10 minutes, and prints times and memory;
#                SECONDS=120 for 2 minutes
# make docs      builds the documentation site in site/, and checks its links; it installs the
#                package with the extra `docs`, and no tools of the tests
# make results   writes docs/results.md, its figures and the tables of scores in README.md and
#                docs/model-zoo.md from docs/results/*.json
# make clean     removes .venv, demo and site
#
# ARGS is passed on to pytest: make test ARGS='tests/test_maze.py -x'

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TOUCH := $(BIN)/python -c 'import pathlib, sys; pathlib.Path(sys.argv[1]).touch()'
# Caching the bytecode of rewritten test modules halves the time of collecting them again.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

.PHONY: setup demo test test-all test-slow fuzz browser lint lock soak docs results clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[dev]'
	$(TOUCH) $@

$(DOCS_STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[docs]'
	$(TOUCH) $@

demo: setup
	$(BIN)/gswm demo --out demo

test: setup
	$(PYTEST) -m 'not slow' $(ARGS)

test-all: setup
	$(PYTEST) $(ARGS)

test-slow: setup
	$(PYTEST) -m 'slow or browser' $(ARGS)

fuzz: setup
	GSWM_FUZZ=20000 $(PYTEST) tests/fuzz $(ARGS)

browser: setup
	@$(BIN)/python tests/browser.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

lock: $(STAMP) $(DOCS_STAMP)
	$(BIN)/python tools/lock.py

soak: setup
	$(BIN)/python tools/soak.py --seconds $(or $(SECONDS),600)

docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

results: setup
	$(BIN)/gswm report docs/results --out report --markdown docs/results.md
	$(BIN)/python tools/tables.py

clean:
	rm -rf $(VENV) demo site
