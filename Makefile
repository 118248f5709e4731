# The two commands are `make up` and `make test`; everything else is for developers.
# Nothing but the command's own output goes to standard output, so that scripts can read it.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
PIP = $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
TEST_SETTINGS = DJANGO_SETTINGS_MODULE=tests.settings
SCHEMA = docs/api/openapi.yaml
CODE = mcphub tenants tracing oauth connectors gateway console tests bench chaos examples manage.py

.DEFAULT_GOAL := help
.PHONY: help setup up test check bench chaos inventory fmt lock schema screenshots clean

help:
	@echo "make up      start the hub (ARGS=\"--port 8000 --json\")"
	@echo "make test    run the tests (ARGS=\"tests/core -k crypto\")"
	@echo "make check   lint, types, layers, migrations, schema, lock"
	@echo "make inventory   measure what the gateway relays, write docs/relay-inventory.md"
	@echo "make bench   measure the hub against direct calls"
	@echo "make chaos   break a real stack, print which promises hold (ARGS=\"--only R01,R05\")"
	@echo "make screenshots   pictures of the console for the docs (needs Chromium)"
	@echo "make fmt | lock | schema | clean"

setup: $(STAMP)

# The lock pins hashes, so nothing else than what was reviewed is installed; the project itself is
# added last, editable, without asking any index.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "mcphub needs Python 3.11 or newer: make up PYTHON=python3.12" >&2; exit 2; }
	@echo "Installing into $(VENV) (once) ..." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) >&2
	@$(PIP) install --require-hashes --requirement requirements.lock >&2
	@$(PIP) install --no-build-isolation --no-deps --no-index --editable . >&2
	@touch $@

up: $(STAMP)
	@exec $(BIN)/mcphub up $(ARGS)

test: $(STAMP)
	@exec $(BIN)/python -m pytest $(ARGS)

chaos: $(STAMP)
	@exec $(BIN)/python -m chaos $(ARGS)

inventory: $(STAMP)
	@exec $(BIN)/python -m pytest tests/live/test_relay_inventory.py --write-inventory $(ARGS)

bench: $(STAMP)
	@exec $(BIN)/python -m bench $(ARGS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(TEST_SETTINGS) $(BIN)/python manage.py makemigrations --check --dry-run
	$(TEST_SETTINGS) $(BIN)/python manage.py spectacular --validate --fail-on-warn --file $(VENV)/openapi.yaml
	diff -u $(SCHEMA) $(VENV)/openapi.yaml || { echo "run: make schema" >&2; exit 1; }
	$(BIN)/python -m pytest --quiet tests/house

schema: $(STAMP)
	@mkdir -p $(dir $(SCHEMA))
	$(TEST_SETTINGS) $(BIN)/python manage.py spectacular --validate --fail-on-warn --file $(SCHEMA)

screenshots: $(STAMP)
	$(BIN)/python -m tests.console.screenshots docs/images

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock:
	@$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip --disable-pip-version-check --quiet install uv >&2
	$(VENV)-lock/bin/uv pip compile pyproject.toml --all-extras --universal --generate-hashes \
	    --python-version 3.11 --no-emit-index-url --no-header --quiet -o requirements.lock
	@rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-newest build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
