#!/usr/bin/env bash
# test.sh PYTHON [ARGUMENTS OF PYTEST]: the suite in two runs. Workers that never import TensorFlow
# stay small and start at once; what needs it has workers of its own.
set -uo pipefail
python=$1
shift
worst=0
# run WORKERS WHICH: status 5, no such test among those that were asked for, is no failure
run() {
	"$python" -m pytest -n "$1" --tensorflow="$2" "${@:3}"
	local status=$?
	test $status = 5 || test $status = 0 || worst=$status
}
# else each thread of a worker keeps memory of its own for what it has freed
export MALLOC_ARENA_MAX=2
# more workers than cores where much of the work is waiting for servers
run 3 without "$@"
run 2 only "$@"
exit $worst
