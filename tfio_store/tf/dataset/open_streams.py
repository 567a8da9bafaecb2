"""Streams of records, for the op that reads them. There is no TensorFlow here.

`read_stream` keeps its streams open, so that it costs nothing to go on where a call ended. Where it
finds no such stream (after a restore, or on another worker), it opens one and goes there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tfio_store.dataset.header_walk import is_remote
from tfio_store.dataset.model import Dataset, Shard
from tfio_store.read.located import NO_OFFSET
from tfio_store.read.position import Position
from tfio_store.read.reader import RecordReader
from tfio_store.records.compression import codec_name
from tfio_store.records.framing import RecordBatch
from tfio_store.storage import Version
from tfio_store.storage.process import PerProcess
from tfio_store.storage.redaction import redacted
from tfio_store.tf.dataset.carried_storage import from_json
from tfio_store.tf.patience import Step

__all__ = ["forget_steps", "read_stream"]

STREAMS_KEPT = 256
IDLE_SECONDS = 30.0
"""A stream that nobody goes on with gives up its memory after this: an iterator was dropped."""
STREAM_BUDGET = 32 << 20
TWINS = 4
"""Streams that are kept where they stand at the same place of the same file."""


class _Stream(NamedTuple):
    """What tells one stream from another. It knows how to open it."""

    url: str
    codec: str
    version: str
    options: str
    verify: bool
    skip_corrupt: bool
    max_record_bytes: int

    def open(self, records: int, offset: int) -> _Open:
        """A reader that stands behind ``records`` records of this version ("" stands for any).

        ReplacedError where the object is another by now."""
        storage = from_json(self.options)
        codec = self.codec if self.codec == "auto" else codec_name(self.codec)
        store, path = storage.open(self.url)
        info, version = store.info(path), Version(self.version or None)
        version.hold(info.etag, store.url(path))
        shard = Shard(redacted(self.url), info.size, codec, version=version)
        shard = shard.known(secret_url=self.url)
        dataset = Dataset((shard,), storage)
        reader = RecordReader.of(
            dataset,
            verify=self.verify,
            on_corrupt="skip" if self.skip_corrupt else "raise",
            memory_budget=STREAM_BUDGET,
            max_record_bytes=self.max_record_bytes,
            start=Position(records=records, offset=offset if records else NO_OFFSET),
        )
        return _Open(reader, reader.batches(), version)


class _Open(NamedTuple):
    reader: RecordReader
    batches: Iterator[RecordBatch]
    version: Version


class _Found(NamedTuple):
    """The next records of a stream, or None at its end."""

    opened: _Open
    batch: RecordBatch | None


class _Place(NamedTuple):
    stream: _Stream
    records: int


class _Standing(NamedTuple):
    """What stands at a place: an open stream, or the step that goes on from there."""

    what: _Open | Step[_Found]
    since: float

    def drop(self) -> None:
        if isinstance(self.what, _Open):
            self.what.reader.close()


class _OpenStreams:
    """What stands where a call ended. Without a lock (see `patience`): each method changes the
    table by operations that are whole by themselves."""

    def __init__(self) -> None:
        self._kept: dict[tuple[_Place, int], _Standing] = {}

    def take(self, place: _Place) -> _Open | Step[_Found] | None:
        for twin in range(TWINS):
            found = self._kept.pop((place, twin), None)
            if found is not None:
                return found.what
        return None

    def keep(self, place: _Place, what: _Open | Step[_Found]) -> None:
        standing = _Standing(what, time.monotonic())
        for twin in range(TWINS):
            if self._kept.setdefault((place, twin), standing) is standing:
                break
        else:
            standing.drop()
        for key in self._outdated(standing.since):
            old = self._kept.pop(key, None)
            if old is not None:
                old.drop()

    def forget_steps(self) -> None:
        for key, each in self._kept.copy().items():
            if isinstance(each.what, Step) and not key[0].stream.version:
                self._kept.pop(key, None)

    def _outdated(self, now: float) -> list[tuple[_Place, int]]:
        """Those at the front of the table, which is in the order of time."""
        kept = self._kept.copy()
        surplus = len(kept) - STREAMS_KEPT
        old = []
        for i, (key, each) in enumerate(kept.items()):
            if i >= surplus and now - each.since < IDLE_SECONDS:
                break
            old.append(key)
        return old


_streams = PerProcess(_OpenStreams)


def forget_steps() -> None:
    """Leave steps that read any version to themselves. A new iterator must not find them, because
    the file may have been another when they began."""
    _streams.here.forget_steps()


def read_stream(
    url: str,
    codec: str,
    version: str,
    position: tuple[int, int],
    options: str,
    verify: bool,
    skip_corrupt: bool,
    max_record_bytes: int,
) -> tuple[RecordBatch, str, tuple[int, int]] | None:
    """Read about 1 MiB of a file's records from ``position`` on; none at the end.

    A position is (records, byte offset or -1). The answer is the records; their version, which is
    ``version`` unless that is ""; and the position behind them. None: they are on their way, and
    another call may find them."""
    stream = _Stream(url, codec, version, options, verify, skip_corrupt, max_record_bytes)
    records, offset = position
    place, streams = _Place(stream, records), _streams.here
    standing = streams.take(place)
    if not isinstance(standing, Step):
        read = partial(_read_on, standing, stream, records, offset)
        if not is_remote(url):
            return _answer(read(), place, position)
        standing = Step(read)
    if not standing.wait():
        streams.keep(place, standing)
        return None
    return _answer(standing.result(), place, position)


def _read_on(opened: _Open | None, stream: _Stream, records: int, offset: int) -> _Found:
    opened = opened or stream.open(records, offset)
    return _Found(opened, next((batch for batch in opened.batches if len(batch)), None))


def _answer(
    found: _Found, place: _Place, position: tuple[int, int]
) -> tuple[RecordBatch, str, tuple[int, int]]:
    opened, batch = found
    held = opened.version.etag or ""
    if batch is None:
        opened.reader.close()
        return RecordBatch.from_records([]), held, position
    records = place.records + len(batch)
    _streams.here.keep(_Place(place.stream._replace(version=held), records), opened)
    return batch, held, (records, opened.reader.state()["offset"])
