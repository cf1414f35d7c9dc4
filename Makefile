# What a newcomer types. `make help` lists it.
# Every recipe line is one plain command, so that make runs it itself and a SIGTERM to make reaches it.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo up test test-long bench bench-bus bench-host chaos soak lint clean

PY := .venv/bin/python

# The user's files and question reach the demo through the environment, so that no shell takes them apart.
# Files are parted by spaces; a name with a space in it stands in quotes: make demo DOCS="'my file.pdf' b.png"
export DOCS ASK

help: ## what there is to type
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv and node_modules from the pinned files (quick when they are up to date)
	@sh scripts/setup.sh

demo: setup ## put real documents through OCR, EMBEDDING and SIS; DOCS="a.pdf b.png" takes yours, ASK="..." your question
	@$(PY) -m scripts.demo

up: setup ## serve until Ctrl-C: API 7071, bus 5672 (admin 5300), Azurite 10000-10002; TRACES=1 shows traces on 4318, AUTH=1 wants tokens and issues them on 7080
	@$(PY) -m emulator up $(if $(TRACES),--traces) $(if $(AUTH),--auth)

test: setup ## set up and run every test, on every core
	@$(PY) -m pytest -q -m "not long" -n auto --maxprocesses 4 --dist loadscope --no-loadscope-reorder

test-long: setup ## the tests of sizes and times that are too long for `make test`
	@$(PY) -m pytest -q -m long --timeout 3600

bench: setup ## measure whole jobs: table requests, messages, episodes and CPU a job
	@$(PY) -m benchmarks.jobs

bench-bus: setup ## measure the Service Bus emulator
	@$(PY) -m benchmarks.bus

bench-host: setup ## measure the Functions host and its durable engine
	@$(PY) -m benchmarks.host

chaos: setup ## 300 jobs on the real stack while its parts are killed and its services lie; then the books are audited
	@$(PY) -m pytest -q -m long --timeout 3600 tests/chaos

soak: setup ## the simulation and the model over many more seeds
	@$(PY) -m pytest -q -m long --timeout 7200 tests/simulation tests/model

lint: setup ## ruff, mypy, import-linter
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports

clean: ## remove .venv, node_modules, .lucius and the caches
	@rm -rf .venv node_modules .lucius .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info
