"""One life of a reader: goes on from a saved place, reads, saves, reads on, and is killed.

Reads one JSON object from standard input:

    reader      a name in `READERS`
    source      dataset of Examples with "id", "tokens" and "text"
    epochs      how often it is read
    restore     what an earlier life saved, or null
    steps       steps to read before it saves, or null: it reads to the end
    save        where it saves
    after       steps to read behind that, which are lost, before SIGKILL

Prints the ids of each step on a line of its own, and "saved" where it has saved.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import tfio_store as tfs

__all__ = ["READERS", "example"]

SEED = 11
BATCH = 64


class Life(Protocol):
    """Iterates lists of ids."""

    def __iter__(self) -> Life: ...

    def __next__(self) -> list[int]: ...

    def save(self, path: str) -> None: ...


class Trained:
    """Shuffled, parsed batches in tf.data, saved as a `tf.train.Checkpoint`."""

    def __init__(self, job: dict[str, Any]) -> None:
        import tensorflow as tf

        spec = {
            "id": tf.io.FixedLenFeature([], tf.int64),
            "tokens": tf.io.RaggedFeature(tf.int64),
            "text": tf.io.FixedLenFeature([], tf.string),
        }
        dataset = tfs.TFRecordDataset(
            job["source"], schema=spec, batch_size=BATCH, shuffle=2, seed=SEED
        )
        self._batches: Any = iter(dataset.repeat(job["epochs"]))
        self._checkpoint = tf.train.Checkpoint(iterator=self._batches)
        if job["restore"]:
            self._checkpoint.read(job["restore"]).assert_consumed()

    def __iter__(self) -> Trained:
        return self

    def __next__(self) -> list[int]:
        batch = next(self._batches)
        ids: list[int] = batch["id"].numpy().tolist()
        found = zip(batch["tokens"].to_list(), batch["text"].numpy().tolist(), strict=True)
        assert list(found) == [tokens_and_text(i) for i in ids]
        return ids

    def save(self, path: str) -> None:
        self._checkpoint.write(path)


class Read:
    """Shuffled records of a `RecordReader`, whose state is saved as JSON."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._reader = tfs.RecordReader(job["source"]).shuffle(SEED, window=1)
        self._epochs = job["epochs"]
        if job["restore"]:
            self._reader.restore(json.loads(Path(job["restore"]).read_text()))

    def __iter__(self) -> Read:
        return self

    def __next__(self) -> list[int]:
        while self._reader.state()["epoch"] < self._epochs:
            records = list(islice(self._reader, BATCH))
            if records:
                found = tfs.decode_examples(records, {"id": "int64"})
                ids: list[int] = found["id"].tolist()
                assert records == [example(i) for i in ids]
                return ids
        raise StopIteration

    def save(self, path: str) -> None:
        Path(path).write_text(json.dumps(self._reader.state()))


READERS: dict[str, Callable[[dict[str, Any]], Life]] = {
    "tf.data": Trained,
    "RecordReader": Read,
}


def tokens_and_text(i: int) -> tuple[list[int], bytes]:
    return list(range(i % 5)), b"%05d" % i * 400


def example(i: int) -> bytes:
    """The record of this id."""
    tokens, text = tokens_and_text(i)
    return tfs.encode_example({"id": i, "tokens": tokens, "text": text})


def live(job: dict[str, Any]) -> None:
    life = READERS[job["reader"]](job)
    for ids in islice(life, job["steps"]):
        print(*ids, flush=True)
    if job["steps"] is None:
        return
    life.save(job["save"])
    print("saved", flush=True)
    for ids in islice(life, job["after"]):
        print(*ids, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    live(json.load(sys.stdin))
