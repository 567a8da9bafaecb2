"""A program that ends with objects of the library in a global.

    python -m tests.support.kept KIND,KIND... URL OPTIONS

They end behind the modules that they come from, whose names are None by then. So it is wherever
something holds the module of a program, as ``import __main__`` does there.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import __main__
from tests.support.collecting import KINDS, TENSORFLOW_KINDS

kept: list[Any] = []


def main() -> None:
    kinds, url, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    for kind in kinds.split(","):
        kept.append((KINDS | TENSORFLOW_KINDS)[kind](f"{url}/{kind}", options))
        print(kind, flush=True)
    json.main = __main__  # type: ignore[attr-defined]  # which ends late itself


if __name__ == "__main__":
    main()
