# make setup     create .venv, or update it after changes to pyproject.toml or constraints.txt;
#                all targets below except `make docs` do this first
# make demo      write demo/index.html: imagined futures, scores and worlds
# make test      run the test suite on a CPU (about 4 minutes on two cores); browser tests of the
#                studio are skipped if no browser is found
# make test-all  run all tests, including slow ones: training until convergence, 3D worlds, compilers
# make test-slow run only the slow and the browser tests, to complete an earlier `make test`
# make fuzz      try 20,000 random bad inputs in one process, and 500 in separate processes
# make browser   install Chromium for the tests if no browser is found
# make lint      check style and types with ruff and pyright
# make lock      write constraints.lock, with the hashes of the versions in constraints.txt
# make soak      use the studio in 8 tabs for 10 minutes, and print response times and memory;
#                SECONDS=120 for 2 minutes
# make docs      build the documentation site in site/ and check its links; installs only the extra
#                `docs`
# make results   write docs/results.md, its figures, and the tables of scores in README.md and
#                docs/model-zoo.md from docs/results/*.json
# make clean     remove .venv, demo and site
#
# ARGS is passed to pytest: make test ARGS='tests/test_maze.py -x'

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.docs-installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TOUCH := $(BIN)/python -c 'import pathlib, sys; pathlib.Path(sys.argv[1]).touch()'
# Cached bytecode of rewritten test modules halves the time of later collections.
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
