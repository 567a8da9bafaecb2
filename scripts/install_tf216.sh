#!/usr/bin/env bash
# The oldest TensorFlow that is supported, in .venv-tf216. The project itself is not installed there:
# the tests run on the extensions that .venv's installation has built, so that one build is seen to
# serve both. Only another version of Python needs a build of its own.
set -euo pipefail
venv=.venv-tf216
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps"
version() { "$1" -V | cut -d. -f-2; }
test -x $venv/bin/python || "$PYTHON_TF216" -m venv $venv
echo "installing TensorFlow 2.16 into $venv ..."
$pip -r requirements-tf216.txt
if test "$(version $venv/bin/python)" != "$(version .venv/bin/python)"; then
	TFIO_STORE_CORE=compiled $pip -e .
fi
touch $venv/.ready
