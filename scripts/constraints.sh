#!/usr/bin/env bash
# Versions that are known to go together: without them pip tries its way through hundreds.
set -euo pipefail
compile="uv pip compile --quiet --universal --python-version 3.10 --no-annotate --no-header --no-emit-package tfio-store"
$compile --extra dev --extra bench --extra docs pyproject.toml -o constraints.txt
echo 'tensorflow==2.16.2' | $compile --extra test pyproject.toml - -o requirements-tf216.txt
$compile --python-version 3.11 --extra test --extra engines pyproject.toml -o requirements-engines.txt
# PyTorch without CUDA, where the index has it: what only CUDA needs stays out
sed -i -E '/^(nvidia-|cuda-|triton)/d' requirements-engines.txt
sed -i -E 's/\[[^]]*\]==/==/' constraints.txt requirements-tf216.txt requirements-engines.txt
