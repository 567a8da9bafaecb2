"""The README's first example, as somebody runs it who has no TensorFlow."""

from __future__ import annotations

import ast
import re

from scripts.release.facts import CheckError

__all__ = ["first_example", "without_tensorflow"]

OF_TENSORFLOW = ("TFRecordDataset", "register_filesystem")


def first_example(page: str) -> str:
    """The first block of Python in a page."""
    found = re.search(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    if found is None:
        raise CheckError("the README has no example in Python")
    return found[1]


def without_tensorflow(program: str) -> str:
    """The program without those of its statements that need TensorFlow."""
    tree = ast.parse(program)
    kept = [
        node for node in tree.body if not any(name in ast.unparse(node) for name in OF_TENSORFLOW)
    ]
    if len(kept) == len(tree.body) or len(kept) < 3:
        raise CheckError(
            "the README's example is not as it was: look at scripts/release/example.py"
        )
    return "\n".join(map(ast.unparse, kept))
