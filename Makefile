# Short names for the commands of the README and of CONTRIBUTING.md.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: install quickstart test thorough coverage lint format docs figures pictures widths bench compare ci clean

install: $(BIN)/python
	$(BIN)/python -m pip install -e ".[dev]"

$(BIN)/python:
	$(PYTHON) -m venv .venv

quickstart: install
	$(BIN)/python examples/quickstart.py

test: install
	$(BIN)/python -m pytest -n auto

thorough: install
	$(BIN)/python -m pytest -n auto --thorough --weekly
	$(BIN)/python .ci/mutate --papers --all
	$(PYTHON) -m venv .recipes
	.recipes/bin/python -m pip install --no-compile ".[report]" -r docs/early_stopping.txt
	.recipes/bin/python docs/run_blocks.py docs/early_stopping.md

coverage: install
	$(BIN)/python -m pytest -q -n auto --cov --cov-report=term

lint: install
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

format: install
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

docs: install
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

figures: install
	$(BIN)/python docs/pictures.py

pictures: install
	$(BIN)/python docs/contact_sheet.py

widths: docs
	$(BIN)/python docs/check_widths.py docs/_build/html

bench: install
	$(BIN)/python benchmarks/speed.py

compare: install
	$(BIN)/python benchmarks/compare_peers.py

ci:
	.ci/run

clean:
	rm -rf .venv .recipes docs/_build docs/auto_examples docs/generated build dist .pytest_cache .mypy_cache .ruff_cache examples/*.png
