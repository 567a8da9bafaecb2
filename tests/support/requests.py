"""What opening a dataset in a bucket asks of it, and the first records.

The requests are those that arrive at `bench.fast_store`, which writes down each one.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import tfio_store as tfs
from bench.fast_store import fast_store, options

SETTLED_S = 0.3
"""Requests that nobody waits for have arrived when none has come for so many seconds."""


_PARTS = ((".manifest.json", "manifest"), (".index", "index"))
"""Parts of names, and what has them."""


class Request(NamedTuple):
    """One request, and how many bytes of an object it got."""

    what: str
    nbytes: int


class Bucket:
    """A folder as a bucket, whose requests are counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bucket"
        self.folder.mkdir(exist_ok=True)
        self.log = folder / "requests"
        self.log.touch()

    @contextlib.contextmanager
    def served(self) -> Iterator[dict[str, Any]]:
        """The ``storage_options`` that reach it, while the block runs."""
        with fast_store(self.folder.parent, log=self.log) as url:
            yield options(url)

    def asked(self, step: Callable[[], object]) -> list[Request]:
        """The requests that a step makes."""
        before = self.log.stat().st_size
        step()
        seen = -1
        while seen != (seen := self.log.stat().st_size):
            time.sleep(SETTLED_S)
        lines = self.log.read_bytes()[before:].splitlines()
        return [Request(_what(line), line["nbytes"]) for line in map(json.loads, lines)]


def _what(line: dict[str, Any]) -> str:
    """What a request is for, by the name that it asks for."""
    name = line["key"].rpartition("/")[2]
    missing = " (missing)" if line["status"] == 404 else ""
    if not line["key"]:
        return "a listing"
    if line["method"] == "HEAD":
        return f"a file of this name{missing}"
    return next((what for part, what in _PARTS if part in name), "block") + missing


def write(bucket: Bucket, name: str, shards: int, *, each: int = 10, **how: Any) -> str:
    """A dataset of so many small shards. Returns its URL."""
    with tfs.ShardedWriter(str(bucket.folder / name / "train"), num_shards=shards, **how) as writer:
        for number in range(shards * each):
            writer.write(b"%010d" % number)
    return f"s3://bucket/{name}/train"


def steps(bucket: Bucket, url: str, how: dict[str, Any]) -> dict[str, list[Request]]:
    """The requests of each step that a dataset is measured by."""
    kept: dict[str, Any] = {}

    def opened(kind: Any) -> None:
        kept["it"] = kind(url, storage_options=how)

    def first() -> None:
        with kept["it"].shard(7, 1000) as reader:
            next(iter(reader))

    return {
        "open a RecordSource": bucket.asked(lambda: opened(tfs.RecordSource)),
        "then one record": bucket.asked(lambda: kept["it"][len(kept["it"]) // 2]),
        "open a RecordReader": bucket.asked(lambda: opened(tfs.RecordReader)),
        "then the first record of shard(7, 1000)": bucket.asked(first),
    }


def told(requests: list[Request]) -> str:
    """Requests in words: "manifest, 3 x index"."""
    counts: dict[str, int] = {}
    for request in requests:
        counts[request.what] = counts.get(request.what, 0) + 1
    return ", ".join(what if n == 1 else f"{n} x {what}" for what, n in sorted(counts.items()))
