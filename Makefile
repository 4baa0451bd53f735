# CronFlow's targets. The first of each kind makes .venv; nothing is installed outside it.
#
#   make demo            a three-node cluster on real servers, running docs/examples (FOR=60s ends by itself; PORT=8501)
#   make test            every test, on real servers
#   make mutants         takes each compare-and-set condition away and looks whether a test fails; WORDS=lua some of them,
#                        CHANGED=1 those in files that have changed, WITHIN=180 as many as begin within so many seconds
#   make check           lint, formatting, types, layers
#   make ui              the dashboard's page from dashboard/ into cronflow/_ui; needs Node 20.19 or later
#   make uitest          the page's types, its tests, and it in a real browser (CHROMIUM, else /usr/bin/chromium)
#   make shots           pictures of the page on a real cluster, into dashboard/test-results/shots
#   make bench           executions a second, lateness of a lone job and of a herd, what lists and the stream cost
#   make bench-ui        what a tick costs the browser's main thread, at 100 nodes and 1,000 runs a second
#   make build           the wheel and the source archive, with the page in them, into dist
#   make secrets         random values into deploy/secrets, for docker-compose.yml; what is there stays
#   make docs            regenerates the reference pages and the picture in docs
#   make client          regenerates the blocking client from the one for asyncio
#   make docs-site       the documents as a site, into build/site
#   make clean           removes .venv, the built page and what the tools left

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
FOR ?=
PORT ?=
WORDS ?=
CHANGED ?=
WITHIN ?=
DATA ?= .cronflow/demo
CHROMIUM ?= /usr/bin/chromium
# Three times as many as cores: most of the time of the process tests is waiting.
WORKERS ?= $(shell n=$$(nproc); echo $$((n > 2 ? 8 : 3 * n)))

PAGE := $(shell find dashboard/src dashboard/public -type f ! -name 'openapi.*') $(wildcard cronflow/api/*.py cronflow/api/routes/*.py cronflow/schemas/*.py)
NEW_ENOUGH := const [a, b] = process.versions.node.split(".").map(Number); process.exit(a * 100 + b < 2019 ? 1 : 0)
uitest shots: export PYTHON := $(CURDIR)/$(BIN)/python

# Hundreds of processes of the tests import CronFlow: compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
# What npm has to say of its own versions is nobody's business here.
export npm_config_update_notifier := false

.DEFAULT_GOAL := help
.PHONY: help demo tools-in-ci tests-compiled test mutants check ui page-where-node-is uitest shots bench bench-ui build secrets docs client docs-site clean

help:
	@sed -n 's/^#   //p' Makefile

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "CronFlow needs Python 3.11 or later; none was found on PATH." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,dev]'
	@touch $@

demo: .venv/ready page-where-node-is
	$(BIN)/cronflow dev docs/examples/jobs.yaml docs/examples/reminder.py --data $(DATA) $(if $(FOR),--for $(FOR)) $(if $(PORT),--port $(PORT))

# What tests need besides Python, as program:package of Debian. In CI it is installed where it can be; elsewhere the tests
# say what is missing. A program below $(BIN) is taken out of its package, which would start a service.
TOOLS := $(CHROMIUM):chromium $(BIN)/promtool:prometheus /usr/bin/systemd-analyze:systemd /usr/bin/docker-compose:docker-compose
tools-in-ci: .venv/ready
	@if [ -n "$$CI" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		for tool in $(TOOLS); do \
			program=$${tool%%:*}; package=$${tool##*:}; \
			if [ -x "$$program" ]; then continue; fi; \
			if [ -z "$$updated" ]; then apt-get -qq update; updated=yes; fi; \
			case "$$program" in \
			$(BIN)/*) folder=$$(mktemp -d); \
				(cd $$folder && apt-get -qq download $$package && dpkg -x *.deb .) \
					&& cp $$folder/usr/bin/$${program##*/} $$program; \
				rm -rf $$folder ;; \
			*) DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $$package >/dev/null ;; \
			esac; \
		done; \
	fi

# The workers would all compile all tests at the same time.
tests-compiled: .venv/ready
	@said=$$($(BIN)/python -m pytest --collect-only -qq $(TESTS)) || { echo "$$said"; exit 1; }

# What the tests need is made side by side: most of it waits for a network, and no part needs more than one core.
test:
	@$(MAKE) --no-print-directory -j3 tools-in-ci tests-compiled page-where-node-is
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

mutants: .venv/ready
	$(BIN)/python -m tests.mutants $(if $(CHANGED),--changed) $(if $(WITHIN),--within $(WITHIN)) $(WORDS)

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

dashboard/node_modules/.package-lock.json: dashboard/package.json dashboard/package-lock.json
	cd dashboard && npm ci --no-audit --no-fund

cronflow/_ui/index.html: dashboard/node_modules/.package-lock.json dashboard/index.html dashboard/vite.config.ts dashboard/generate.mjs $(PAGE) | .venv/ready
	cd dashboard && npm run build

ui: cronflow/_ui/index.html

# The demo shows the page where it can be built, and runs without it elsewhere.
page-where-node-is: .venv/ready
	@if ! node -e '$(NEW_ENOUGH)' 2>/dev/null; then \
		echo "Node 20.19 or later is not here: the API serves no page. Everything else works." >&2; \
	elif ! $(MAKE) --no-print-directory --silent ui; then \
		echo "The page could not be built, see above: the API serves none. Everything else works." >&2; \
	fi

uitest: ui .venv/ready
	cd dashboard && npm run types && npm run check && npm test && npm run test:browser

shots: ui .venv/ready
	cd dashboard && npm run shots

bench: .venv/ready
	$(BIN)/python -m tests.bench

bench-ui: ui
	cd dashboard && npm run --silent bench

build: ui .venv/ready
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

# The user of the containers must be able to read the files; the folder keeps everybody else out.
secrets:
	@mkdir -p deploy/secrets && chmod 700 deploy/secrets
	@for secret in ADMIN_PASSWORD:18 JWT_SECRET:48 SECRETS_KEY:32; do \
		file=deploy/secrets/$${secret%%:*}; \
		if [ -e "$$file" ]; then echo "$$file stays"; continue; fi; \
		openssl rand -base64 $${secret##*:} > "$$file.new" && chmod 444 "$$file.new" && mv "$$file.new" "$$file" \
			&& echo "$$file made" || exit 1; \
	done

docs: .venv/ready
	$(BIN)/python -m tools.docs.api > docs/reference/api.md
	$(BIN)/python -m tools.docs.metrics > docs/reference/metrics.md
	$(BIN)/python -m tools.docs.cli > docs/reference/cli.md
	$(BIN)/python -m tools.docs.settings > docs/reference/settings.md
	$(BIN)/python -m tools.docs.glossary > docs/reference/glossary.md
	$(BIN)/python -m tools.docs.life_of_a_run > docs/concepts/life-of-a-run.md
	$(BIN)/python -m tools.docs.life_of_a_run svg > docs/images/life-of-a-run.svg

client: .venv/ready
	$(BIN)/python -m tools.blocking_client

docs-site: .venv/ready
	$(BIN)/mkdocs build --strict

clean:
	rm -rf dashboard/node_modules dashboard/test-results cronflow/_ui
	rm -rf build/site .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
