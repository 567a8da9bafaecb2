"""What the ops call for everything but raw local files. Knows no TensorFlow.

All are stateless in effect: the same arguments give the same records, in any process.
`read_stream` keeps the streams that it has open, so that going on where a call ended costs nothing;
where no such stream is found (after a restore, on another worker) it opens one and goes there.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tfio_store.compression import StreamError, codec_name, decompress_block
from tfio_store.dataset import Dataset, Shard
from tfio_store.errors import CorruptRecordError, DataLossError, RecordTooLargeError, TFIOStoreError
from tfio_store.framing import RecordBatch
from tfio_store.position import Position
from tfio_store.reader import RecordReader
from tfio_store.recovery import RecoveringDecoder, SkippedRegion
from tfio_store.storage import open_store
from tfio_store.tf.begun_blocks import BegunBlocks, then

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["Access", "begin_block", "classify", "drop_begun", "read_block", "read_stream"]

STREAMS_KEPT = 256
IDLE_SECONDS = 30.0
"""A stream that nobody goes on with (an iterator was dropped) gives up its memory after this."""
STREAM_BUDGET = 32 << 20
BLOCKS_BUDGET = 256 << 20


class Access(NamedTuple):
    """How the files of a dataset are reached; travels in graphs as JSON."""

    storage_options: dict[str, Any] | None = None
    backend: str = "fsspec"

    def to_json(self) -> str:
        try:
            return json.dumps(self._asdict(), sort_keys=True)
        except TypeError as error:
            raise TypeError(
                "storage_options= of a dataset must be JSON-able, since they travel with its "
                f"graph: {error}"
            ) from None

    @classmethod
    @lru_cache(maxsize=64)
    def from_json(cls, text: str) -> Access:
        return cls(**json.loads(text))


_blocks = BegunBlocks(BLOCKS_BUDGET)


def _load(
    url: str, codec: str, stored: tuple[int, int], nbytes: int, options: str
) -> Future[BytesLike]:
    access = Access.from_json(options)
    store, path = open_store(url, access.storage_options, backend=access.backend)
    fetched = store.read(path, *stored)
    if not codec:
        return fetched
    return then(fetched, lambda data: decompress_block(data, codec, nbytes=nbytes))


def begin_block(url: str, codec: str, stored: tuple[int, int], nbytes: int, options: str) -> None:
    """Have a block fetched and decompressed (to ``nbytes``) that `read_block` will want."""
    load = partial(_load, url, codec, stored, nbytes, options)
    _blocks.begin((url, *stored, options), nbytes, load)


def drop_begun() -> None:
    """Forget what was begun: a new dataset must not be given bytes of files overwritten since."""
    _blocks.drop()


def read_block(
    url: str,
    codec: str,
    stored: tuple[int, int],
    raw: tuple[int, int],
    options: str,
    verify: bool,
    skip_corrupt: bool,
    max_record_bytes: int,
) -> BytesLike | RecordBatch:
    """The uncompressed bytes of one block, or, with ``skip_corrupt``, its good records.

    ``stored`` and ``raw`` are bytes from and to, of the object and of the uncompressed stream.
    """
    load = partial(_load, url, codec, stored, raw[1] - raw[0], options)
    try:
        data = _blocks.take((url, *stored, options), load)
    except StreamError as error:
        if skip_corrupt:
            return RecordBatch.from_records([])
        raise CorruptRecordError(str(error), path=url, offset=raw[0]) from error
    if not skip_corrupt:
        return data
    decoder = RecoveringDecoder(
        _ignore, verify=verify, max_record_bytes=max_record_bytes, path=url, offset=raw[0]
    )
    return _joined([decoder.feed(data), decoder.finish()])


def _ignore(region: SkippedRegion) -> None:
    pass


def _joined(batches: list[RecordBatch]) -> RecordBatch:
    full = [batch for batch in batches if len(batch)]
    if len(full) == 1:
        return full[0]
    return RecordBatch.from_records(record for batch in full for record in batch)


# --- streams --------------------------------------------------------------------------------------


class _Stream(NamedTuple):
    """What tells one stream from another, and how to open it."""

    url: str
    codec: str
    options: str
    verify: bool
    skip_corrupt: bool
    max_record_bytes: int

    def open(self, records: int, offset: int) -> RecordReader:
        """A reader that stands behind ``records`` records."""
        access = Access.from_json(self.options)
        codec = self.codec if self.codec == "auto" else codec_name(self.codec)
        store, path = open_store(self.url, access.storage_options, backend=access.backend)
        shard = Shard(self.url, store.info(path).size, codec)
        dataset = Dataset((shard,), access.storage_options, access.backend)
        reader = RecordReader.of(
            dataset,
            verify=self.verify,
            on_corrupt="skip" if self.skip_corrupt else "raise",
            memory_budget=STREAM_BUDGET,
            max_record_bytes=self.max_record_bytes,
        )
        if records:
            at = Position(records=records, offset=None if offset < 0 else offset)
            reader.restore(at.to_json(dataset))
        return reader


@dataclass(slots=True)
class _Open:
    reader: RecordReader
    batches: Iterator[RecordBatch]
    used: float


class _OpenStreams:
    """Streams that stand where a call ended, by stream and position."""

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


_streams = _OpenStreams()


def _forget_streams() -> None:
    """A forked child can use neither its parent's connections nor a lock that may be held."""
    global _streams
    _streams = _OpenStreams()


os.register_at_fork(after_in_child=_forget_streams)


def read_stream(
    url: str,
    codec: str,
    position: tuple[int, int],
    options: str,
    verify: bool,
    skip_corrupt: bool,
    max_record_bytes: int,
) -> tuple[RecordBatch, tuple[int, int]]:
    """The next records of a file from ``position`` on, about 1 MiB, and the position behind them;
    no records at the end. A position is (records, byte offset or -1)."""
    stream = _Stream(url, codec, options, verify, skip_corrupt, max_record_bytes)
    records, offset = position
    opened = _streams.take(stream, records)
    if opened is None:
        reader = stream.open(records, offset)
        opened = _Open(reader, reader.batches(), 0.0)
    batch = next((batch for batch in opened.batches if len(batch)), None)
    if batch is None:
        opened.reader.close()
        return RecordBatch.from_records([]), position
    _streams.keep(stream, records + len(batch), opened)
    state = opened.reader.state()["offset"]
    return batch, (records + len(batch), -1 if state is None else state)


# --- errors ---------------------------------------------------------------------------------------

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (DataLossError, 15),  # DATA_LOSS
    (RecordTooLargeError, 8),  # RESOURCE_EXHAUSTED
    (TFIOStoreError, 15),
    (FileNotFoundError, 5),  # NOT_FOUND
    (PermissionError, 7),  # PERMISSION_DENIED
    (IsADirectoryError, 9),  # FAILED_PRECONDITION
    (TimeoutError, 4),  # DEADLINE_EXCEEDED
    (ConnectionError, 14),  # UNAVAILABLE
    (MemoryError, 8),
    (ImportError, 9),
    (ValueError, 3),  # INVALID_ARGUMENT
    (TypeError, 3),
)
_UNKNOWN = 2


def classify(error: BaseException) -> tuple[int, str]:
    """The TensorFlow error code (tensorflow/c/tf_status.h) of the same meaning, and the text."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), _UNKNOWN)
    text = str(error) or type(error).__name__
    return code, text if code != _UNKNOWN else f"{type(error).__name__}: {text}"
