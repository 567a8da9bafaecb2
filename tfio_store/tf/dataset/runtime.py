"""What the ops call for everything but raw local files. There is no TensorFlow here.

All functions are stateless in effect: the same arguments give the same records, in any process.
`read_stream` keeps its streams open, so that it costs nothing to go on where a call ended. Where it
finds no such stream (after a restore, or on another worker), it opens one and goes there.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tfio_store.dataset.model import Block, Dataset, Shard
from tfio_store.errors import DataLossError
from tfio_store.read.block import inflate_block, recover_block
from tfio_store.read.located import NO_OFFSET
from tfio_store.read.position import Position
from tfio_store.read.reader import RecordReader
from tfio_store.records.compression import codec_name, decompress
from tfio_store.records.framing import RecordBatch
from tfio_store.records.magic import detect
from tfio_store.storage import ReplacedError, Version, threads
from tfio_store.storage.process import PerProcess
from tfio_store.storage.redaction import redacted
from tfio_store.tf.dataset.block_skips import BlockSkips
from tfio_store.tf.dataset.carried_access import from_json
from tfio_store.tf.status import code_of, explained

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["begin_block", "classify", "inflate", "read_block", "read_stream"]

STREAMS_KEPT = 256
IDLE_SECONDS = 30.0
"""A stream that nobody goes on with gives up its memory after this: an iterator was dropped."""
STREAM_BUDGET = 32 << 20

_skips = BlockSkips()


def _then(first: Future[BytesLike], change: Callable[[BytesLike], BytesLike]) -> Future[BytesLike]:
    """What ``change`` makes of the result of ``first``. As many threads as cores do that work."""
    pool = threads.pool("decode", os.cpu_count() or 1)
    changed: Future[BytesLike] = Future()

    def run() -> None:
        if not changed.set_running_or_notify_cancel():
            return
        try:
            changed.set_result(change(first.result()))
        except BaseException as error:
            changed.set_exception(error)

    def schedule(_: object) -> None:
        try:
            pool.submit(run)
        except RuntimeError as error:  # the interpreter is on its way out
            if changed.set_running_or_notify_cancel():
                changed.set_exception(error)

    first.add_done_callback(schedule)
    return changed


class _Stored(NamedTuple):
    """The stored bytes of one block: their place, and their version ("" where nobody knows it)."""

    url: str
    version: str
    start: int
    stop: int
    options: str

    def load(self, codec: str, raw: tuple[int, int]) -> Future[BytesLike]:
        """The bytes, decompressed if there is a codec."""
        store, path = from_json(self.options).open(self.url)
        fetched = store.read(path, self.start, self.stop, etag=self.version or None)
        if not codec:
            return fetched  # the op takes what is there
        block = Block(0, self.start, self.stop, *raw, 0)
        return _then(fetched, partial(inflate_block, redacted(self.url), codec, block))


def begin_block(
    url: str,
    codec: str,
    version: str,
    stored: tuple[int, int],
    raw: tuple[int, int],
    options: str,
) -> Future[BytesLike]:
    """Begin to fetch and decompress a block that `read_block` will want."""
    return _Stored(url, version, *stored, options).load(codec, raw)


def read_block(
    fetch: Future[BytesLike] | None,
    url: str,
    codec: str,
    version: str,
    stored: tuple[int, int],
    raw: tuple[int, int],
    options: str,
    verify: bool,
    skip_corrupt: bool,
    max_record_bytes: int,
    file_blocks: int,
) -> BytesLike | RecordBatch:
    """The uncompressed bytes of one block. With ``skip_corrupt``, its good records.

    ``fetch`` is the answer of `begin_block`, if that was called. ``stored`` and ``raw`` are bytes
    from and to: of the object, and of the uncompressed stream. With ``skip_corrupt`` the file is
    read in ``file_blocks`` blocks, and one warning tells of the damage in all of them.
    ReplacedError where the object is no longer of this ``version`` ("" stands for any).
    """
    wanted = _Stored(url, version, *stored, options)
    try:
        data = (fetch or wanted.load(codec, raw)).result()
    except DataLossError:
        if not skip_corrupt:
            raise
        data, damaged = wanted.load("", raw).result(), codec
    else:
        damaged = ""
    if not skip_corrupt:
        return data
    block = Block(0, *(stored if damaged else raw), *raw, 0)  # where `data` is from
    shown = redacted(url)
    batch, regions = recover_block(
        shown, damaged or None, block, data, verify=verify, max_record_bytes=max_record_bytes
    )
    way = (options, version, verify, max_record_bytes)
    _skips.read(way, shown, (stored[0], file_blocks), len(batch), regions)
    return batch


# --- streams --------------------------------------------------------------------------------------


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
        access = from_json(self.options)
        codec = self.codec if self.codec == "auto" else codec_name(self.codec)
        store, path = access.open(self.url)
        info, version = store.info(path), Version(self.version or None)
        version.hold(info.etag, store.url(path))
        shard = Shard(redacted(self.url), info.size, codec, version=version)
        shard = shard.known(secret_url=self.url)
        dataset = Dataset((shard,), access)
        reader = RecordReader.of(
            dataset,
            verify=self.verify,
            on_corrupt="skip" if self.skip_corrupt else "raise",
            memory_budget=STREAM_BUDGET,
            max_record_bytes=self.max_record_bytes,
            start=Position(records=records, offset=offset if records else NO_OFFSET),
        )
        return _Open(reader, reader.batches(), version)


@dataclass(slots=True)
class _Open:
    reader: RecordReader
    batches: Iterator[RecordBatch]
    version: Version
    used: float = 0.0


class _OpenStreams:
    """Open streams that stand where a call ended, by stream and position."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[_Stream, int], _Open] = OrderedDict()

    def take(self, stream: _Stream, records: int) -> _Open | None:
        with self._lock:
            return self._kept.pop((stream, records), None)

    def keep(self, stream: _Stream, records: int, opened: _Open) -> None:
        opened.used = time.monotonic()
        with self._lock:
            self._kept[stream, records] = opened
            old = self._outdated(opened.used)
        for each in old:
            each.reader.close()

    def _outdated(self, now: float) -> list[_Open]:
        old = []
        while self._kept:
            first = next(iter(self._kept.values()))
            if len(self._kept) <= STREAMS_KEPT and now - first.used < IDLE_SECONDS:
                break
            old.append(self._kept.popitem(last=False)[1])
        return old


_streams = PerProcess(_OpenStreams)


def read_stream(
    url: str,
    codec: str,
    version: str,
    position: tuple[int, int],
    options: str,
    verify: bool,
    skip_corrupt: bool,
    max_record_bytes: int,
) -> tuple[RecordBatch, str, tuple[int, int]]:
    """Read about 1 MiB of a file's records from ``position`` on; none at the end.

    A position is (records, byte offset or -1). The answer is the records; their version, which is
    ``version`` unless that is ""; and the position behind them."""
    stream = _Stream(url, codec, version, options, verify, skip_corrupt, max_record_bytes)
    records, offset = position
    opened = _streams.here.take(stream, records) or stream.open(records, offset)
    batch = next((batch for batch in opened.batches if len(batch)), None)
    held = opened.version.etag or ""
    if batch is None:
        opened.reader.close()
        return RecordBatch.from_records([]), held, position
    _streams.here.keep(stream._replace(version=held), records + len(batch), opened)
    return batch, held, (records + len(batch), opened.reader.state()["offset"])


def inflate(stored: bytes, codec: str, limit: int) -> bytes | None:
    """What a whole file holds, uncompressed. None where its codec can't be told. StreamError where
    it is damaged, or more than ``limit`` bytes."""
    found = detect(stored) if codec == "auto" else codec_name(codec)
    return None if found is None else decompress(stored, found, limit=limit)


# --- errors ---------------------------------------------------------------------------------------

_REPLACED = "was replaced while it was being read; make the dataset again to read what is there now"


def classify(error: BaseException) -> tuple[int, str]:
    """The TensorFlow error code that means the same, and the text."""
    if isinstance(error, ReplacedError):
        return code_of(error), f"{error.filename}: {_REPLACED}"
    return code_of(error), explained(error, str(error))
