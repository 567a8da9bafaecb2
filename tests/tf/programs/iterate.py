"""Iterates a dataset in a process of its own: to be saved, killed and restored.

Its job, as JSON on standard input where it is a program:

    arguments, options   of TFRecordDataset
    checkpoint           path prefix of the iterator's checkpoint
    restore              begin from that
    before, save         records to read, and then whether to save
    after                records to print, one per line, as hex
    symbolic             experimental_symbolic_checkpoint
    die                  end by SIGKILL
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import tensorflow as tf

import tfio_store as tfs


def main(job: dict[str, Any]) -> None:
    dataset = tfs.TFRecordDataset(*job["arguments"], **job["options"])
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = job.get("symbolic", False)
    iterator = iter(dataset.with_options(options))
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    if job.get("restore"):
        checkpoint.read(job["checkpoint"]).assert_consumed()
    for _ in range(job.get("before", 0)):
        next(iterator)
    if job.get("save"):
        checkpoint.write(job["checkpoint"])
    for _ in range(job["after"]):
        element = next(iterator, None)
        if element is None:
            break
        value = element.numpy()
        for record in [value] if isinstance(value, bytes) else value.tolist():
            print(record.hex(), flush=True)
    if job.get("die"):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(json.load(sys.stdin))
