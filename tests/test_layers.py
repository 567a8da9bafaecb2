"""Imports go down: each module may import only floors below its own, or its own floor."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "tfio_store"

FLOORS = {
    "errors": 0,
    "redaction": 0,
    "_core": 0,
    "_crc32c_pure": 0,
    "_pure": 0,
    "_pure_batch": 0,
    "_tf_filesystem": 0,
    "framing": 1,
    "idx": 1,
    "lookalike": 0,
    "magic": 1,
    "block_index": 1,
    "compression": 1,
    "example": 1,
    "fingerprint": 1,
    "feature": 1,
    "feature_spec": 1,
    "schema": 1,
    "sharding": 1,
    "manifest": 1,
    "shard_layout": 1,
    "batching": 1,
    "storage": 2,
    "tf": 4,
    "table": 4,
    "__init__": 5,
}
"""Modules that are not named stand on floor 3: readers and writers."""

KEEPERS = {
    "fsspec": "storage",
    "s3fs": "storage",
    "gcsfs": "storage",
    "adlfs": "storage",
    "obstore": "storage",
    "tensorflow": "tf",
}
"""Third-party packages that only one place may know."""


def floor(module: str) -> int:
    return FLOORS.get(module.split(".")[0], 3)


def imports(path: Path) -> Iterator[str]:
    """Absolute names of all that a file imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports absolutely"
            assert node.module is not None
            yield node.module
            if node.module == "tfio_store":
                yield from (f"tfio_store.{alias.name}" for alias in node.names)


def modules() -> list[str]:
    return sorted(
        path.relative_to(PACKAGE)
        .with_suffix("")
        .as_posix()
        .replace("/", ".")
        .removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
    )


@pytest.mark.parametrize("module", modules())
def test_imports_go_down(module: str) -> None:
    path = PACKAGE / f"{module.replace('.', '/')}.py"
    if not path.exists():
        path = PACKAGE / module.replace(".", "/") / "__init__.py"
    for name in imports(path):
        package, _, below = name.partition(".")
        if package == "tfio_store" and below:
            assert floor(below) <= floor(module), f"{module} imports {name}, which stands above it"
        keeper = KEEPERS.get(package)
        allowed = keeper in (None, module.split(".")[0]) or module == "feature_spec"
        assert allowed, f"only {keeper} may import {package}"


def test_import_is_light() -> None:
    heavy = ("tensorflow", "pyarrow", "pandas", "s3fs", "gcsfs", "adlfs", "obstore", "torch")
    code = f"import sys, tfio_store; print([m for m in {heavy!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_all_is_sorted_and_resolves() -> None:
    import tfio_store

    assert tfio_store.__all__ == sorted(tfio_store.__all__)
    for name in tfio_store.__all__:
        if name not in tfio_store._TENSORFLOW:
            getattr(tfio_store, name)
