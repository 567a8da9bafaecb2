# Everything runs from .venv, which each target makes as it needs. PYTHON picks the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What Cython makes begins with an underscore.
EXT_FILES := $(shell find ext -name '*.py[x]' -o -name '*.px[di]' -o -name '[a-z]*.[ch]')
SOURCES := setup.py pyproject.toml $(EXT_FILES)

.PHONY: constraints demo test test-pure servers test-stores test-ceph ceph lint types clean help lint-c test-c fuzz fuzz-short bench-core bench-filesystem stress-filesystem test-filesystem-c test-tensorflow-c test-filesystem-asan test-tensorflow-asan bench-example

help:
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# One stamp per set of extras, so that the demo does not wait for what only tests need.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing .[$(1)] into $(VENV) ..."
	@# pip before 24 finds a conflict where extras name other extras of the same project
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=24'
	@TFIO_STORE_CORE=compiled $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(1)]'
	@touch $@
endef

$(VENV)/.demo: $(SOURCES)
	$(call install,demo)

$(VENV)/.dev: $(SOURCES)
	$(call install,dev)

$(VENV)/.bench: $(SOURCES)
	$(call install,bench)

# Versions that are known to go together: without them pip tries its way through hundreds.
constraints: ## choose constraints.txt and requirements-tf216.txt anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.10 --extra dev --extra bench \
		--no-annotate --no-header --no-emit-package tfio-store pyproject.toml -o constraints.txt
	echo 'tensorflow==2.16.2' | uv pip compile --quiet --universal --python-version 3.10 --extra test \
		--no-annotate --no-header --no-emit-package tfio-store pyproject.toml - -o requirements-tf216.txt
	sed -i -E 's/\[[^]]*\]==/==/' constraints.txt requirements-tf216.txt

demo: $(VENV)/.demo ## write shards to an S3 server, read them back, train a Keras model
	$(BIN)/python examples/demo.py

# More workers than cores: much of the suite waits for servers.
test: $(VENV)/.dev ## the whole test suite
	$(BIN)/python -m pytest -n 4

test-pure: $(VENV)/.dev ## all but TensorFlow and the slow, on the pure-Python core
	TFIO_STORE_CORE=pure $(BIN)/python -m pytest -n 4 -m "not slow" $(addprefix tests/,records example dataset read write tools)

servers: ## install Ceph (apt, as root) and Azurite (npm), which the tests of stores use if they are there
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get install -y --no-install-recommends radosgw ceph-mon ceph-osd ceph-common; \
	else echo "Ceph needs root and apt: passed by"; fi
	@if command -v npm >/dev/null; then npm install --no-audit --no-fund --prefix .cache/azurite azurite@3.35.0; \
	else echo "Azurite needs npm: passed by"; fi

test-stores: $(VENV)/.dev ## every store on every server that is installed
	$(BIN)/python -m pytest tests/storage tests/servers

test-ceph: $(VENV)/.dev ## the same on Ceph alone, with faults
	$(BIN)/python -m pytest tests/storage -k "ceph or faults"

ceph: $(VENV)/.dev ## run a Ceph S3 gateway until interrupted; prints its URL and keys
	$(BIN)/python -m tests.servers.ceph

lint: $(VENV)/.dev ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev ## mypy strict
	$(BIN)/mypy

# The core's C without Python: every warning an error, under the address and undefined-behaviour
# sanitizers.
CORE_C := $(wildcard ext/crc32c/*.c ext/tfrecord/*.c ext/memory/*.c)
STRICT := -std=c11 -g -Wall -Wextra -Wconversion -Wsign-compare -Werror
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ_SECONDS ?= 1200

PYTHON_H = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')

lint-c: ## every C file of ours compiles without a warning
	@for file in $(filter %.c,$(EXT_FILES)); do $(CC) $(STRICT) -Iext -I$(PYTHON_H) -fsyntax-only $$file || exit 1; done

build/test-c: $(CORE_C) $(filter %.h,$(EXT_FILES)) $(wildcard tests/c/*)
	@mkdir -p build
	$(CC) $(STRICT) -O1 $(SANITIZE) -Iext tests/c/*.c $(CORE_C) -o $@ -pthread

test-c: build/test-c ## the C core's tests under sanitizers, with every CRC kernel of this CPU
	ASAN_OPTIONS=allocator_may_return_null=1 build/test-c

FUZZ_C := $(STRICT) -O2 $(SANITIZE) -fsanitize=fuzzer -Iext
FUZZ_HEADERS := $(filter %.h,$(EXT_FILES)) tests/fuzz/oracle.h

build/fuzz-scan: tests/fuzz/fuzz_scan.c $(CORE_C) $(FUZZ_HEADERS)
	@mkdir -p build
	clang $(FUZZ_C) $< $(CORE_C) -o $@

# Windows and chunks so small that short files cross many; system calls that the target plays.
FILE_C := $(CORE_C) ext/tensorflow/ops/stream.c ext/tensorflow/ops/request.c ext/tensorflow/ops/part.c ext/tensorflow/ops/chunk.c
FILE_SIZES := -DWINDOW='((size_t)48)' -DLONG='((size_t)24)' -DSTREAM_CHUNK='((uint64_t)64)'
FILE_CALLS := $(foreach call,pread preadv2 fstatfs open fstat close,-Wl,--wrap=$(call))

build/fuzz-file: tests/fuzz/fuzz_file.c $(FILE_C) $(FUZZ_HEADERS)
	@mkdir -p build
	clang $(FUZZ_C) $(FILE_SIZES) $(FILE_CALLS) $< $(FILE_C) -o $@

EXAMPLE_C := $(wildcard ext/example/example_*.c)

build/fuzz-example build/fuzz-example-write: $(EXAMPLE_C) $(FUZZ_HEADERS)
build/fuzz-example: tests/fuzz/fuzz_example.c
build/fuzz-example-write: tests/fuzz/fuzz_example_write.c
build/fuzz-example build/fuzz-example-write:
	@mkdir -p build
	clang $(FUZZ_C) $(filter tests/%.c,$^) $(EXAMPLE_C) -o $@

FUZZERS := build/fuzz-scan build/fuzz-file build/fuzz-example build/fuzz-example-write

fuzz: $(FUZZERS) $(VENV)/.dev ## fuzz framing, files, Examples (libFuzzer, clang) and metadata on all cores, FUZZ_SECONDS in all; findings go to build/
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_ARGUMENTS)

fuzz-short: ## the kept corpora and half a minute more; passed by where there is no clang
	@if command -v clang >/dev/null; then $(MAKE) fuzz FUZZ_SECONDS=30; else echo "no clang: not fuzzed"; fi

bench-example: $(VENV)/.bench ## Examples beside TensorFlow's protobufs and parser, and tfrecord's
	$(BIN)/python -m bench.example

bench-core: $(VENV)/.bench ## CRC32C, framing and local files beside their peers
	$(BIN)/python -m bench.core

.PHONY: bench-writer chaos differential
differential: $(VENV)/.dev ## 10,000 random cases of reading against plain Python and TensorFlow (up to an hour)
	$(BIN)/python -m tests.differential --cases 10000 --seconds 3600 --report docs/differential.md

bench-writer: $(VENV)/.bench ## files and sharded datasets beside TensorFlow's writer and raw uploads
	$(BIN)/python -m bench.writer

chaos: $(VENV)/.dev ## kill 400 writers, put 300 on a bad line, let crowds loose, check what is left (50 minutes)
	$(BIN)/python -m tests.chaos --report docs/chaos.md

.PHONY: chaos-read
chaos-read: $(VENV)/.dev ## 10,000 reads, each with a fault, from every store that runs here (an hour)
	$(BIN)/python -m tests.chaos_read --reads 10000 --seconds 7200 --report docs/chaos-read.md

.PHONY: protocol
protocol: $(VENV)/.dev ## the commit protocol over a simulated store, in every order, with faults (20 minutes)
	$(BIN)/python -m tests.protocol --report docs/protocol.md

bench-reader: $(VENV)/.bench ## an object store through a shaped connection; compressed shards
	$(BIN)/python -m bench.reader

bench-reader-memory: $(VENV)/.bench ## peak memory of reading 4 GiB
	$(BIN)/python -m bench.reader_memory

bench-filesystem: $(VENV)/.bench .venv-tf216/.peer ## TFRecordDataset on S3 through the filesystem plugin, beside tensorflow-io
	$(BIN)/python -m bench.filesystem --peer-python .venv-tf216/bin/python --exits 50

FILESYSTEM_C := tests/c_filesystem/stress.c ext/tensorflow/filesystem/cache.c ext/tensorflow/filesystem/object.c ext/tensorflow/filesystem/reader.c ext/tensorflow/filesystem/gate.c

test-filesystem-c: ## the filesystem's block cache under ASan, UBSan and TSan, many threads
	@mkdir -p build
	$(CC) $(STRICT) -O1 $(SANITIZE) -Iext $(FILESYSTEM_C) -o build/filesystem-asan -pthread
	build/filesystem-asan
	$(CC) $(STRICT) -O1 -fsanitize=thread -Iext $(FILESYSTEM_C) -o build/filesystem-tsan -pthread
	build/filesystem-tsan

LENT_C := tests/c_tensorflow/lent.c ext/tensorflow/ops/lent.c ext/tensorflow/ops/part.c ext/tensorflow/ops/chunk.c $(CORE_C)

WINDOWS_C := tests/c_tensorflow/windows.c ext/tensorflow/ops/window.c ext/tensorflow/ops/windows.c ext/tensorflow/ops/runs.c ext/tensorflow/ops/records.c \
	ext/tensorflow/ops/request.c ext/tensorflow/call.c ext/tensorflow/ops/lent.c ext/tensorflow/ops/part.c ext/tensorflow/ops/chunk.c $(CORE_C)

test-tensorflow-c: ## the cache of blocks and the windows under the TensorFlow ops, likewise
	@mkdir -p build
	$(CC) $(STRICT) -O1 $(SANITIZE) -Iext $(LENT_C) -o build/lent-asan -pthread
	build/lent-asan
	$(CC) $(STRICT) -O1 -fsanitize=thread -Iext $(LENT_C) -o build/lent-tsan -pthread
	build/lent-tsan
	$(CC) $(STRICT) -O1 $(SANITIZE) -Iext $(WINDOWS_C) -o build/windows-asan -pthread
	build/windows-asan
	$(CC) $(STRICT) -O1 -fsanitize=thread -Iext $(WINDOWS_C) -o build/windows-tsan -pthread
	build/windows-tsan

# What is run lies beside the instrumented copy of the package, so that it is the one that is imported.
# Python itself leaks by design; libstdc++ is there for ASan to know how TensorFlow throws.
ASAN := build/asan
ASAN_SECONDS ?= 120
ASAN_PYTHON = cd $(ASAN) && ASAN_OPTIONS=detect_leaks=0 CUDA_VISIBLE_DEVICES= \
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libstdc++.so)" \
	$(abspath $(BIN))/python

$(ASAN)/.ready: $(VENV)/.bench $(SOURCES) $(shell find tfio_store -name '*.py')
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' 'cython>=3.1,<4'
	CFLAGS='-fsanitize=address -fno-omit-frame-pointer -O1 -g' \
		$(BIN)/python setup.py -q build --build-base build/asan-objects --build-lib $(ASAN)
	@ln -sfn ../../tests ../../bench $(ASAN)
	@touch $@

test-filesystem-asan: $(ASAN)/.ready ## the filesystem suite and the stress run in TensorFlow, the extensions under ASan
	$(ASAN_PYTHON) -m pytest -q -p no:cacheprovider -m "not slow" -k "memory or s3" tests/tf/test_filesystem.py
	$(ASAN_PYTHON) -m bench.filesystem_stress --seconds $(ASAN_SECONDS)

test-tensorflow-asan: $(ASAN)/.ready ## datasets in TensorFlow, the extensions under ASan
	@rm -rf $(ASAN)/strings && mkdir $(ASAN)/strings
	$(ASAN_PYTHON) -m tests.tf.programs.strings strings
	$(ASAN_PYTHON) -m pytest -q -p no:cacheprovider -m "not slow" tests/tf/test_batches.py tests/tf/test_dataset.py \
		tests/tf/test_dataset_storage.py tests/tf/test_training_op.py tests/tf/test_training_op_parsing.py

stress-filesystem: $(VENV)/.bench ## 32 threads in TensorFlow on S3 for two minutes while requests fail
	$(BIN)/python -m bench.filesystem_stress

.PHONY: bench-tfdata bench-cliffs bench-tfdata-s3 soak test-tf216 test-tf216-all
bench-tfdata: $(VENV)/.bench ## TFRecordDataset beside TensorFlow's own, on local files
	$(BIN)/python -m bench.tfdata

.PHONY: bench-training
bench-training: $(VENV)/.bench ## shuffled and parsed batches beside TensorFlow's own pipelines, by reduce and in a loop
	$(BIN)/python -m bench.training

bench-cliffs: $(VENV)/.bench ## TFRecordDataset far from the usual (tiny files, batches of 1), beside TensorFlow's own
	$(BIN)/python -m bench.cliffs

bench-tfdata-s3: $(VENV)/.bench .venv-tf216/.peer ## TFRecordDataset on S3 (Ceph) beside tensorflow-io
	$(BIN)/python -m bench.tfdata_s3 --peer-python .venv-tf216/bin/python

soak: $(VENV)/.dev ## open and drop datasets for 20 minutes; fails if memory, threads or descriptors grow
	$(BIN)/python -m tests.tf.programs.soak --minutes 20 --cycles 1000

# The oldest TensorFlow that is supported, which needs Python 3.9 to 3.12. The project itself is not
# installed there: the tests run on the extensions that .venv's installation has built, so that one
# build is seen to serve both. Only another version of Python needs a build of its own.
PYTHON_TF216 ?= $(shell for python in $(PYTHON) python3.12 python3.11 python3.10; do \
	$$python -c 'import ensurepip, sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' \
	2>/dev/null && echo $$python && break; done)
TF216 := .venv-tf216/bin/python

.venv-tf216/.ready: $(SOURCES) requirements-tf216.txt $(VENV)/.dev
	@test -x $(TF216) || $(PYTHON_TF216) -m venv .venv-tf216
	@echo "installing TensorFlow 2.16 into .venv-tf216 ..."
	@$(TF216) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-tf216.txt
	@test "$$($(TF216) -V | cut -d. -f-2)" = "$$($(BIN)/python -V | cut -d. -f-2)" || \
		TFIO_STORE_CORE=compiled $(TF216) -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

.venv-tf216/.peer: .venv-tf216/.ready
	@$(TF216) -m pip install --quiet --disable-pip-version-check --no-deps tensorflow-io==0.37.1
	@touch $@

test-tf216: ## the TensorFlow tests, but for the slow ones, on the oldest TensorFlow supported
	@if test -n "$(PYTHON_TF216)"; then $(MAKE) --no-print-directory test-tf216-all NOT_SLOW='-m "not slow"'; \
	else echo "TensorFlow 2.16 needs Python 3.10 to 3.12 (PYTHON_TF216): passed by"; fi

test-tf216-all: .venv-tf216/.ready ## all of them
	$(TF216) -m pytest -n 4 $(NOT_SLOW) tests/tf
