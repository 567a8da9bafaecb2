#!/usr/bin/env bash
# The kept corpora and half a minute more, where there is clang. The seed is the same at each run, so
# that a change is judged by itself; `make fuzz` looks on.
set -euo pipefail
if command -v clang >/dev/null; then
	make --no-print-directory -j2 fuzz FUZZ_SECONDS=30 ARGUMENTS='--seed 1'
else
	echo "no clang: not fuzzed"
fi
