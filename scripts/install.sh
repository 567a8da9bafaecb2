#!/usr/bin/env bash
# install.sh VENV EXTRA STAMP: the project with an extra, editable, in a virtual environment.
set -euo pipefail
venv=$1 extra=$2 stamp=$3
pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check"
test -x "$venv/bin/python" || "${PYTHON:-python3}" -m venv "$venv"
echo "installing .[$extra] into $venv ..."
# pip before 24 finds a conflict where extras name other extras of the same project
$pip --upgrade 'pip>=24'
TFIO_STORE_CORE=compiled $pip -c requirements/constraints.txt -e ".[$extra]"
touch "$stamp"
