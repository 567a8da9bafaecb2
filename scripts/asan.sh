#!/usr/bin/env bash
# asan.sh ARGUMENTS: .venv's Python with the extensions built for the address sanitizer.
set -euo pipefail
python=$PWD/.venv/bin/python cc=${CC:-cc}
scripts/built_apart.sh asan '-fsanitize=address -fno-omit-frame-pointer -O1 -g'
cd build/asan
# Python itself leaks by design; a size that is only claimed gets no memory; libstdc++ is there for ASan to
# know how TensorFlow throws.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4096 CUDA_VISIBLE_DEVICES=
LD_PRELOAD="$($cc -print-file-name=libasan.so) $($cc -print-file-name=libstdc++.so)" exec "$python" "$@"
