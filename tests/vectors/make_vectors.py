"""Writes the golden files of this folder with TensorFlow: ``python tests/vectors/make_vectors.py``.

They are committed, so that the tests need no TensorFlow to know what it writes. `records` says
what each file holds.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

HERE = Path(__file__).parent

NAMES = ("none", "one", "empties", "sizes", "many")
COMPRESSIONS = {"": "", "gz": "GZIP", "zz": "ZLIB"}
"""By the suffix of the golden file."""

_SIZES = (0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, 70_000)


def records(name: str) -> list[bytes]:
    """The records of a golden file, by the first part of its name."""
    rng = random.Random(name)
    return {
        "none": [],
        "one": [b"foo"],
        "empties": [b""] * 5,
        "sizes": [rng.randbytes(n) for n in _SIZES],
        "many": [b"record %d" % i for i in range(10_000)],
    }[name]


def golden(name: str, suffix: str = "") -> Path:
    """Where a golden file lies."""
    return HERE / (f"{name}.tfrecord" + (f".{suffix}" if suffix else ""))


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    for name in NAMES:
        for suffix, compression in COMPRESSIONS.items():
            with tf.io.TFRecordWriter(str(golden(name, suffix)), compression) as writer:
                for record in records(name):
                    writer.write(record)


if __name__ == "__main__":
    main()
