# Everything runs from .venv, which each target makes as it needs. PYTHON picks the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := setup.py pyproject.toml $(wildcard ext/*.c ext/*.h ext/*.pyx ext/*.pxd)

.PHONY: demo test test-pure lint types clean help

help:
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# One stamp per set of extras, so that the demo does not wait for what only tests need.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing .[$(1)] into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(1)]'
	@touch $@
endef

$(VENV)/.demo: $(SOURCES)
	$(call install,demo)

$(VENV)/.dev: $(SOURCES)
	$(call install,dev)

demo: $(VENV)/.demo ## write shards to an S3 server, read them back, train a Keras model
	$(BIN)/python examples/demo.py

test: $(VENV)/.dev ## the whole test suite
	$(BIN)/python -m pytest

test-pure: $(VENV)/.dev ## the suite on the pure-Python core
	TFIO_STORE_CORE=pure $(BIN)/python -m pytest

lint: $(VENV)/.dev ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy strict
	$(BIN)/mypy
