# `make demo` and `make test` each work first on a fresh clone; nothing else has to be installed before.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-oldest test-newest results-check format docs docs-pictures bench picture dist \
	test-dist stranger clean

help:
	@echo "make demo      set up .venv and run the whole pipeline on a small real dataset (minutes)"
	@echo "make test      set up .venv and run the linter, the type checker and the tests"
	@echo "make test-all  the same with the slow tests"
	@echo "make results-check  rebuild all of results/ from its evidence, after a change of what computes it"
	@echo "make test-oldest  run the tests with the oldest supported versions; test-newest: with the newest"
	@echo "make dist      build wheel and sdist in dist/; make test-dist: install the wheel and use it"
	@echo "make stranger  follow the README and docs/production.md in a fresh clone and environment"
	@echo "make format    let ruff format and fix the code"
	@echo "make docs      fill the tables in the documents, then build the site into build/site"
	@echo "make docs-pictures  run the tutorials and draw the pictures of the documents again"
	@echo "make bench     measure, and rewrite the committed tables in benchmarks/results"
	@echo "make picture   copy the picture of the last demo run into the README"
	@echo "make clean     remove .venv, caches and runs"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "RRISE needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.11 …" % sys.version_info[:2])'
	@echo "==> creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt src/rrise/_version.py | $(VENV)/bin/python
	@echo "==> installing rrise with the versions of constraints.txt (a minute or two, once)"
	@$(PIP) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "==> installing the development tools"
	@$(PIP) -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed
	@echo "==> rrise demo"
	@$(BIN)/rrise demo

test: $(VENV)/.installed-dev
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> mypy --strict"
	@$(BIN)/mypy
	@echo "==> pytest"
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=logical --maxprocesses=8 --dist=worksteal --durations=10 $(PYTEST)

test-all: PYTEST = -m 'slow or not slow'
test-all: test

results-check: $(VENV)/.installed-dev
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=logical --maxprocesses=4 --dist=worksteal \
		-m 'slow or not slow' -k 'results_are_what_their_evidence_gives or pages_about_them' tests/test_results.py
	@$(BIN)/python -m tests.rebuilding

test-oldest test-newest: $(VENV)/.installed-dev
	@$(BIN)/python tests/other_versions.py $(@:test-%=%) $(PYTEST)

dist: $(VENV)/.installed-dev
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist .

stranger:
	@$(PYTHON) tests/stranger.py

test-dist: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -m 'slow or not slow' tests/test_distribution.py

format: $(VENV)/.installed-dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(VENV)/.installed
	@$(PIP) -e '.[docs]'
	@$(BIN)/python docs/settings_tables.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-pictures: $(VENV)/.installed-dev
	@$(BIN)/python docs/pictures.py
	@for page in images tables signals production; do \
		$(BIN)/python docs/snippets.py docs/tutorials/$$page.md --pictures docs/images/tutorials || exit 1; done

bench: $(VENV)/.installed-dev
	@$(PIP) -e '.[benchmark]'
	@$(BIN)/python benchmarks/foundation.py
	@$(BIN)/python benchmarks/votes.py
	@$(BIN)/python benchmarks/small_votes.py
	@$(BIN)/python benchmarks/training.py
	@$(BIN)/python benchmarks/fresh_votes.py
	@$(BIN)/python benchmarks/evaluation.py
	@$(BIN)/python benchmarks/bulk.py
	@$(BIN)/python benchmarks/at_scale.py

picture: $(VENV)/.installed
	@cp runs/demo/evaluation/summary.png docs/images/demo.png

clean:
	rm -rf $(VENV) runs build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
