#!/usr/bin/env bash
# Engines and training loops, in .venv-engines. As in .venv-tf216, the tests run on the extensions that
# .venv's installation has built; another version of Python needs a build of its own.
set -euo pipefail
venv=.venv-engines
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps"
version() { "$1" -V | cut -d. -f-2; }
test -x $venv/bin/python || "${PYTHON:-python3}" -m venv $venv
echo "installing PyTorch, Ray, Beam, Spark, Dask and others into $venv ..."
$pip --upgrade 'pip>=24'
$pip -r requirements-engines.txt
if test "$(version $venv/bin/python)" != "$(version .venv/bin/python)"; then
	TFIO_STORE_CORE=compiled $pip -e .
fi
touch $venv/.ready
