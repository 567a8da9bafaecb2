"""``python -m tfio_store.accelerate train.py --its --arguments``: an unchanged program, faster.

Whoever imports this module means the function `tfio_store.accelerate`, and is given that.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from tfio_store._startup import run

    sys.exit(run(sys.argv[1:]))

from tfio_store.tf.accelerate import accelerate

__all__ = []

sys.modules[__name__] = accelerate  # type: ignore[assignment]
