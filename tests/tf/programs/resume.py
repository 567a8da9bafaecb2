"""Checkpoints an iterator in many places and is killed; then goes on from each of them.

What a job is:

    source, options      of TFRecordDataset, whose batches have "id"; with a schema
    epochs, symbolic     how often it repeats; experimental_symbolic_checkpoint
    folder               where the checkpoints go, or come from
    save                 batches behind which one is written; the process is killed behind the last
    restore              batches behind which one was written: prints what follows each

Prints a line for each batch, of the ids in it, and an empty line behind each dataset's end.
"""

from __future__ import annotations

import os
import signal
from typing import Any

import tensorflow as tf

import tfio_store as tfs

SPEC = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "tokens": tf.io.RaggedFeature(tf.int64),
    "text": tf.io.FixedLenFeature([], tf.string),
}


def iterator_of(job: dict[str, Any]) -> Any:
    dataset = tfs.TFRecordDataset(job["source"], schema=SPEC, **job["options"])
    options = tf.data.Options()
    options.experimental_symbolic_checkpoint = job["symbolic"]
    return iter(dataset.repeat(job["epochs"]).with_options(options))


def show(batch: Any) -> None:
    print(" ".join(map(str, batch["id"].numpy().tolist())), flush=True)


def save(job: dict[str, Any]) -> None:
    iterator = iterator_of(job)
    for number in range(max(job["save"]) + 1):
        if number in job["save"]:
            tf.train.Checkpoint(iterator=iterator).write(f"{job['folder']}/{number}")
        show(next(iterator))
    os.kill(os.getpid(), signal.SIGKILL)


def restore(job: dict[str, Any]) -> None:
    for number in job["restore"]:
        iterator = iterator_of(job)
        checkpoint = tf.train.Checkpoint(iterator=iterator)
        checkpoint.read(f"{job['folder']}/{number}").assert_consumed()
        for batch in iterator:
            show(batch)
        print(flush=True)


def main(job: dict[str, Any]) -> None:
    save(job) if "save" in job else restore(job)
