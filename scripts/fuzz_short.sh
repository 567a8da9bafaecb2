#!/usr/bin/env bash
# The kept corpora and half a minute more, where there is clang.
set -euo pipefail
if command -v clang >/dev/null; then
	make --no-print-directory fuzz FUZZ_SECONDS=30
else
	echo "no clang: not fuzzed"
fi
