"""Tasks that die, once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["die", "once"]


def once(flag: Path, what: Callable[[], object]) -> Callable[[Any], Any]:
    """A function over batches that does ``what`` in one task of all, the first time that one runs,
    and gives the batch back. The file ``flag`` tells that it was done."""

    def through(batch: Any) -> Any:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return batch
        what()
        return batch

    return through


def die() -> None:
    """As a process does that the kernel kills."""
    os._exit(137)
