#!/usr/bin/env bash
# Versions that are known to go together: without them pip tries its way through hundreds. Those that
# stand there stay, unless they are deleted before.
set -euo pipefail
# compile PYTHON FILE ARGUMENTS...
compile() {
	uv pip compile --quiet --universal --python-version "$1" --no-annotate --no-header --no-emit-package tfio-store \
		-o "requirements/$2" "${@:3}"
	sed -i -E 's/\[[^]]*\]==/==/' "requirements/$2"
}
compile 3.10 constraints.txt --extra dev --extra bench --extra docs pyproject.toml
echo 'tensorflow==2.16.2' | compile 3.10 tf216.txt --extra test pyproject.toml -
compile 3.11 engines.txt --extra test --extra engines pyproject.toml
# PyTorch without CUDA, where the index has it: what only CUDA needs stays out
sed -i -E '/^(nvidia-|cuda-|triton)/d' requirements/engines.txt
