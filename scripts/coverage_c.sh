#!/usr/bin/env bash
# coverage_c.sh FLOOR TESTS...: which lines of our C these tests reach. Fails below FLOOR percent.
set -euo pipefail
python=$PWD/.venv/bin/python floor=$1
shift
if ! command -v gcov >/dev/null; then
	echo "no gcov: the coverage of C is not measured"
	exit 0
fi
# Threads count too: without atomic counters they would lose some. Two modules are built of some files: one
# seed gives both the same stamp, so that their counts are added up.
scripts/built_apart.sh gcov '--coverage -fprofile-update=atomic -frandom-seed=1'
find build/gcov-objects -name '*.gcda' -delete
(cd build/gcov && PYTEST_ADDOPTS= "$python" -m pytest -q -n 4 -p no:cacheprovider -m "not long" "$@")
# What Cython made begins with an underscore.
"$python" -m gcovr --root . --filter 'ext/.*/[a-z][^/]*\.[ch]$' --fail-under-line "$floor" build/gcov-objects
