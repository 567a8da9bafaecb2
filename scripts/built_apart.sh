#!/usr/bin/env bash
# built_apart.sh NAME CFLAGS: build/NAME, a copy of the package with its extensions built by CFLAGS.
# What is run lies beside that copy, so that it is the one that is imported.
set -euo pipefail
python=$PWD/.venv/bin/python folder=build/$1
if [ ! "$folder/.ready" -nt setup.py ] || [ -n "$(find ext tfio_store -newer "$folder/.ready" -name '*.[cphy]*' -print -quit)" ]; then
	$python -m pip install --quiet --disable-pip-version-check 'setuptools>=77' 'cython>=3.1,<4'
	CFLAGS=$2 TFIO_STORE_CORE=compiled $python setup.py -q build --build-base "$folder-objects" --build-lib "$folder"
	ln -sfn ../../tests ../../bench "$folder"
	touch "$folder/.ready"
fi
