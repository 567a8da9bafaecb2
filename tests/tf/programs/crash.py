"""Reads a file of empty Examples by a spec, in a process of its own, which may crash."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def survives(module: str, *arguments: str) -> None:
    """Runs ``python -m module arguments``, which must end well."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])


def main() -> None:
    import tensorflow as tf

    import tfio_store as tfs

    spec = {
        "sequence": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "variable": tf.io.VarLenFeature(tf.int64),
        "ragged": tf.io.RaggedFeature(tf.int64),
    }[sys.argv[2]]
    ways: tuple[dict[str, Any], ...] = ({}, {"num_parallel_reads": 1})
    for options in ways:
        found = list(tfs.TFRecordDataset(sys.argv[1], schema={"x": spec}, **options))
        assert len(found) == 2


if __name__ == "__main__":
    main()
