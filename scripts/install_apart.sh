#!/usr/bin/env bash
# install_apart.sh VENV PYTHON REQUIREMENTS WHAT: packages of fixed versions in a virtual environment
# apart from .venv. The project itself is not installed there: the tests run on the extensions that
# .venv's installation has built, so that one build is seen to serve all. Only another version of
# Python needs a build of its own.
set -euo pipefail
venv=$1 python=$2 requirements=$3 what=$4
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps"
version() { "$1" -V | cut -d. -f-2; }
test -x "$venv/bin/python" || "$python" -m venv "$venv"
echo "installing $what into $venv ..."
$pip -r "$requirements"
if test "$(version "$venv/bin/python")" != "$(version .venv/bin/python)"; then
	TFIO_STORE_CORE=compiled $pip -e .
fi
touch "$venv/.ready"
