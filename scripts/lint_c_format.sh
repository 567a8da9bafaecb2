#!/usr/bin/env bash
# lint_c_format.sh [-i]: whether our C has the one format (see .clang-format), or with -i gives it that.
# Versions of clang-format differ in what they make of the same rules: only one of them counts.
set -euo pipefail
version=14
tool=$(command -v clang-format-$version || command -v clang-format || true)
if [ -z "$tool" ] || ! "$tool" --version | grep -q "version $version\."; then
	echo "no clang-format $version: the format of the C files is passed by"
	exit 0
fi
find ext tests/c tests/c_filesystem tests/c_tasks tests/c_tensorflow tests/fuzz -name '[a-z]*.[ch]' -print0 |
	xargs -0 "$tool" "${@:---dry-run}" -Werror
