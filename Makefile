# Commands for developers. `make help` lists them.
# Every recipe line is one plain command, so that make runs the command without a shell and a SIGTERM to make reaches the command.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup setup-dev demo up reset test test-long generate docs screenshots lock bench bench-peers bench-bus bench-host quality chaos soak lint clean

PY := .venv/bin/python

# The demo gets the user's files and question through the environment, so that no shell splits them.
# Files are separated by spaces; a name with a space needs quotes: make demo DOCS="'my file.pdf' b.png"
export DOCS ASK

# Some machines disable Python's bytecode files. Each process of a test run then needs 0.3 s more.
unexport PYTHONDONTWRITEBYTECODE

# Disables Material's banner about MkDocs 2.0. pyproject.toml explains the versions of both.
export NO_MKDOCS_2_WARNING=1

# Tests of `make test` and `make test-long`: make test TESTS=tests/core, TESTS="tests/core tests/api -k retry"
TESTS ?= tests
ifeq ($(TESTS),app)
override TESTS := tests --ignore=tests/functions_emulator --ignore=tests/servicebus_emulator
endif

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## create or update .venv and node_modules for `make demo` and `make up` from the pinned files
	@sh scripts/setup.sh

setup-dev: ## run `make setup`, and install the tools of `make test`, `make lint`, `make generate` and the benchmarks, which run this target
	@sh scripts/setup.sh dev

demo: setup ## run documents through OCR, EMBEDDING and SIS; DOCS="a.pdf b.png" selects yours, ASK="..." your question
	@$(PY) -m scripts.demo

up: setup ## serve until Ctrl-C: API 7071, bus 5672 (admin 5300), Azurite 10000-10002; TRACES=1 shows traces on 4318, AUTH=1 requires tokens and issues them on 7080
	@$(PY) -m emulator up $(if $(TRACES),--traces) $(if $(AUTH),--auth)

reset: setup ## delete the data of `make up` and `make demo` in .lucius: jobs, messages, documents, keys and logs
	@$(PY) -m emulator reset

test: setup-dev ## run every test that this machine can run, on every core; TESTS=tests/core runs one folder, TESTS=app all without the emulators' own
	@sh scripts/system_packages.sh
	@$(PY) -m pytest -q -m "not long" -n auto --maxprocesses 4 --dist loadscope --no-loadscope-reorder --durations 10 $(TESTS)

test-long: setup-dev ## run the tests marked `long`; TESTS as for `make test`
	@$(PY) -m pytest -q -m long --timeout 3600 --durations 10 $(TESTS)

generate: setup-dev ## write the generated files: tables of docs/, API documents, the client's models, Config.json, plots of docs/explanation/scale; with `bicep` the snapshots of the templates
	@$(PY) -m scripts.generate
	@$(PY) -m infra.checks --write
	@$(PY) -m benchmarks.scale

docs: setup-dev ## build the site of docs/ into site/; fail on a broken link or a page missing in the navigation; SERVE=1 serves it on http://127.0.0.1:8000
	@$(PY) -m mkdocs $(if $(SERVE),serve,build) --strict
	@echo docs: built site/, read it with make docs SERVE=1

screenshots: setup-dev ## take the pictures of docs/guides/dashboard.md with a browser, in light and dark
	@$(PY) -m tests.dashboard.screenshots

lock: setup-dev ## write the hashes of the deployed packages from the package index, for the versions in constraints.txt
	@$(PY) -m scripts.lock

bench: setup-dev ## measure whole jobs: counts and CPU per job, latencies, backlog, growth; PART=latency runs a part, FULL=1 large sizes, JSON=FILE keeps the figures, RECORD=1 writes them into docs/explanation/performance
	@$(PY) -m benchmarks.jobs $(if $(FULL),--full) $(if $(RECORD),--record) $(if $(JSON),--json $(JSON)) $(PART)

bench-peers: setup-dev ## run the same job on LUCIUS, DBOS, Celery and Restate in turns; WORKER=external sends steps to a worker that replies; PEERS="LUCIUS DBOS" runs some; JSON and RECORD as for `make bench`
	@$(PY) -m benchmarks.peers $(if $(WORKER),--worker $(WORKER)) $(if $(RECORD),--record) $(if $(JSON),--json $(JSON)) $(PEERS)

bench-bus: setup-dev ## measure the Service Bus emulator
	@$(PY) -m benchmarks.bus

quality: setup-dev ## measure OCR, EMBEDDING and SIS on generated documents, scans and questions; SEED=x regenerates the held-out half, FAILURES=1 shows failed questions of the other half, CONSTANTS=1 changes each constant of the services, RECORD=after keeps the figures
	@$(PY) -m benchmarks.quality $(if $(SEED),--seed $(SEED)) $(if $(FAILURES),--failures) $(if $(CONSTANTS),--constants) $(if $(RECORD),--record $(RECORD))

bench-host: setup-dev ## measure the Functions host and its durable engine
	@$(PY) -m benchmarks.host

chaos: setup-dev ## run 300 jobs on the real stack, kill its processes, send wrong replies; then audit every row
	@$(PY) -m pytest -q -m long --timeout 3600 tests/chaos

soak: setup-dev ## run the simulation and the model with more seeds
	@$(PY) -m pytest -q -m long --timeout 7200 tests/simulation tests/model

lint: setup-dev ## run ruff, mypy, import-linter and the checks of names, texts, operation summaries and the site
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports
	@$(PY) scripts/retired_words.py
	@$(PY) -m scripts.plain_english
	@$(PY) scripts/summaries.py
	@$(PY) -m mkdocs build --strict

clean: ## remove .venv, node_modules, .lucius and the caches
	@rm -rf .venv node_modules .lucius .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis site *.egg-info
