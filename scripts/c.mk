# Our C without Python: test programs under sanitizers, and fuzzers. Every warning is an error.
STRICT := -std=c11 -g -Wall -Wextra -Wconversion -Wsign-compare -Werror
HEADERS := $(filter %.h,$(EXT_FILES)) $(wildcard tests/c*/*.h) tests/fuzz/oracle.h
PYTHON_H = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')

CORE_C := $(wildcard ext/crc32c/*.c ext/inflate/*.c ext/tfrecord/*.c ext/memory/*.c ext/tasks/*.c)
EXAMPLE_C := $(wildcard ext/example/example_*.c) ext/tasks/tasks.c
RECORDS_C := ext/tensorflow/failure.c ext/tensorflow/ops/op_records.c $(CORE_C)

tasks_C := tests/c_tasks/stress.c ext/tasks/tasks.c
core_C := $(wildcard tests/c/*.c) ext/loader/pack.c $(CORE_C)
filesystem_C := tests/c_filesystem/stress.c $(addprefix ext/tensorflow/,failure.c gate.c) \
	$(addprefix ext/tensorflow/filesystem/,cache.c reader.c)
lent_C := tests/c_tensorflow/lent.c ext/tensorflow/ops/op_lent.c $(RECORDS_C)
WINDOWS_C := $(addprefix ext/tensorflow/ops/,op_call.c op_blocks.c op_lent.c op_window.c) $(RECORDS_C)
windows_C := tests/c_tensorflow/windows.c $(WINDOWS_C)
lanes_C := tests/c_tensorflow/lanes.c $(WINDOWS_C)
held_C := tests/c_tensorflow/held.c ext/tensorflow/ops/op_held.c $(WINDOWS_C)

SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all

.SECONDEXPANSION:
build/%-asan: $$($$*_C) $(HEADERS)
	@mkdir -p build
	$(CC) $(STRICT) -O1 $(SANITIZE) -Iext $(filter %.c,$^) -o $@ -pthread
build/%-tsan: $$($$*_C) $(HEADERS)
	@mkdir -p build
	$(CC) $(STRICT) -O1 -fsanitize=thread -Iext $(filter %.c,$^) -o $@ -pthread

build/%-plain: $$($$*_C) $(HEADERS)
	@mkdir -p build
	$(CC) $(STRICT) -O2 -Iext $(filter %.c,$^) -o $@ -pthread

MACOS_C := $(filter ext/%.c,$(EXT_FILES))

# Static, so that another Linux, or an emulator, runs them as they are.
build/core-aarch64 build/core-x86_64: build/core-%: $(core_C) $(HEADERS) | .venv-wheels/.ready
	@mkdir -p build
	.venv-wheels/bin/python -m ziglang cc -target $*-linux-musl -static $(STRICT) -O1 -Iext $(filter %.c,$^) -o $@ -pthread

fuzz-scan_C := $(CORE_C)
fuzz-file_C := $(addprefix ext/tensorflow/ops/,op_stream.c op_pack.c) $(RECORDS_C)
fuzz-pack_C := ext/tensorflow/ops/op_pack.c $(RECORDS_C)
fuzz-example_C := $(EXAMPLE_C)
fuzz-example-write_C := $(EXAMPLE_C)
fuzz-decode_C := $(addprefix ext/tensorflow/ops/,op_call.c op_columns.c op_decode.c) $(EXAMPLE_C) $(RECORDS_C)
FUZZERS := $(addprefix build/fuzz-,scan file pack example example-write decode)

# Windows and chunks so small that short files cross many; system calls that the target plays.
build/fuzz-file: FUZZ_FLAGS := -DWINDOW='((size_t)48)' -DLONG='((size_t)24)' -DSTREAM_CHUNK='((uint64_t)64)' \
	$(foreach call,pread preadv2 fstatfs open fstat close,-Wl,--wrap=$(call))

# Tiles so small that a few records fill several; tensors that the target plays.
build/fuzz-decode: FUZZ_FLAGS := -DTILE='((size_t)3)' -DSTRINGS='((size_t)4)' -DSTEPS='((size_t)5)'

$(FUZZERS): build/%: tests/fuzz/$$(subst -,_,$$*).c $$($$*_C) $(HEADERS)
	@mkdir -p build
	clang $(STRICT) -O2 $(SANITIZE) -fsanitize=fuzzer -Iext $(FUZZ_FLAGS) $(filter %.c,$^) -o $@
