# Every target sets up what it needs: a Python ≥ 3.11 and make are all a fresh machine must have.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed-

.PHONY: demo test test-browser screenshots lint bench docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train a small model on SCAN, test it, show three trees: some minutes"
	@echo "make test    the tests"
	@echo "make test-browser  the tests of ctree view and of the documentation, in a real Chromium"
	@echo "make screenshots   the same; takes the pictures of docs/explorer.md"
	@echo "make lint    ruff, pyright, import-linter"
	@echo "make bench   time every backend and the reading of data, write benchmarks/results/"
	@echo "make docs    draw the figures, build the documentation into site/"
	@echo "make clean   remove the environment, the site and caches; runs stay"

$(BIN)/python:
	./setup-venv "$(PYTHON)"

# One stamp for each set of extras: what has been installed stays until pyproject or the constraints change.
$(STAMP)%: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

# Threads that wait asleep: on a machine with other work, waiting awake makes two of them slower than one.
demo: $(STAMP)dev
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python examples/demo.py

# A process on each core, of one thread each; the one that is done first takes tests of the other.
test: $(STAMP)dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# In one process: the pages are served once for all tests.
test-browser: $(STAMP)dev $(STAMP)docs
	browser=$$(./find-chromium) && CTREE_BROWSER="$$browser" $(BIN)/python -m pytest tests/browser

screenshots: export CTREE_SCREENSHOTS = docs/figures
screenshots: test-browser

lint: $(STAMP)dev $(STAMP)docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: $(STAMP)dev
	$(BIN)/python benchmarks/inference.py
	$(BIN)/python benchmarks/data.py

docs: $(STAMP)dev $(STAMP)docs
	$(BIN)/python docs/figures.py
	$(BIN)/python docs/results.py
	$(BIN)/python docs/trees.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf .venv site .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
