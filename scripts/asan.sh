#!/usr/bin/env bash
# asan.sh ARGUMENTS: .venv's Python with the extensions built for the address sanitizer.
# What is run lies beside the instrumented copy of the package, so that it is the one that is imported.
set -euo pipefail
python=$PWD/.venv/bin/python cc=${CC:-cc}
if [ ! build/asan/.ready -nt setup.py ] || [ -n "$(find ext tfio_store -newer build/asan/.ready -name '*.[cphy]*' -print -quit)" ]; then
	$python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' 'cython>=3.1,<4'
	CFLAGS='-fsanitize=address -fno-omit-frame-pointer -O1 -g' \
		TFIO_STORE_CORE=compiled $python setup.py -q build --build-base build/asan-objects --build-lib build/asan
	ln -sfn ../../tests ../../bench build/asan
	touch build/asan/.ready
fi
cd build/asan
# Python itself leaks by design; libstdc++ is there for ASan to know how TensorFlow throws.
export ASAN_OPTIONS=detect_leaks=0 CUDA_VISIBLE_DEVICES=
LD_PRELOAD="$($cc -print-file-name=libasan.so) $($cc -print-file-name=libstdc++.so)" exec "$python" "$@"
