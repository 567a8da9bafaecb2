"""`measure`: how fast this machine reads a source, beside the plain ranges of the same files."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.model import Dataset, DatasetPart, Limits
from tfio_store.dataset.source import OneSource, Source, is_one, open_dataset
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, FRAME_OVERHEAD
from tfio_store.storage import Storage
from tfio_store.storage.resolve import EXTRAS, scheme_of
from tfio_store.storage.storage import given_storage

__all__ = ["ReadingSpeed", "backends_of", "measure"]


@dataclass(frozen=True, slots=True)
class ReadingSpeed:
    """How fast a source was read.

    Attributes:
        backend (str): What read it: "fsspec", "obstore" or "auto".
        records (int): Records that were read and checked. Those of a small source count each time.
        nbytes (int): Their bytes with framing, after decompression.
        seconds (float): The time that took.
        ranges_nbytes (int): Stored bytes that were read as plain ranges.
        ranges_seconds (float): The time that took.
        compressed (bool): Whether the first file is, so that bytes of records are not stored bytes.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> found = tfs.measure("train", seconds=0.01)
        >>> found.records >= 3, found.records_per_second > 0, found.share > 0
        (True, True, True)
    """

    backend: str
    records: int
    nbytes: int
    seconds: float
    ranges_nbytes: int
    ranges_seconds: float
    compressed: bool

    @property
    def records_per_second(self) -> float:
        """Records in a second (float)."""
        return self.records / self.seconds

    @property
    def nbytes_per_second(self) -> float:
        """Bytes of records in a second (float)."""
        return self.nbytes / self.seconds

    @property
    def ranges_nbytes_per_second(self) -> float:
        """Bytes of plain ranges in a second: the most that this way of reading allows (float)."""
        return self.ranges_nbytes / self.ranges_seconds

    @property
    def share(self) -> float | None:
        """Bytes of records beside those of plain ranges in the same time (float | None).

        None if files are compressed, or if there are no bytes.
        """
        if self.compressed or not self.ranges_nbytes:
            return None
        return self.nbytes_per_second / self.ranges_nbytes_per_second


def measure(
    source: Source,
    *,
    seconds: float = 2.0,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> ReadingSpeed:
    """Measure how fast records are read, and plain ranges of the same files.

    Both begin at the first file, and begin again at the end of a small source. Ranges are read once
    before, for a moment, so that neither waits for connections. Local files come from the system's
    cache if they fit.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        seconds (float): How long each of the two is measured. Default 2.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        ReadingSpeed: Bytes and records, and the time that they took.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.
        CorruptRecordError: A record is damaged.
        TruncatedRecordError: A file ends inside a record.
        ValueError: ``seconds`` is not above 0.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> tfs.measure("train", seconds=0.01).backend
        'fsspec'
    """
    if not seconds > 0:
        raise ValueError(f"seconds must be above 0, got {seconds}")
    storage = given_storage(storage_options, storage)
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, storage, compression=compression, limits=limits)
    _timed(lambda: _ranges(dataset), seconds / 4)
    _, ranges_nbytes, ranges_seconds = _timed(lambda: _ranges(dataset), seconds)
    records, nbytes, taken = _timed(lambda: _records(dataset, max_record_bytes), seconds)
    compressed = bool(dataset.shards) and codec_of(dataset, 0) is not None
    return ReadingSpeed(
        dataset.storage.backend, records, nbytes, taken, ranges_nbytes, ranges_seconds, compressed
    )


def backends_of(source: Source) -> tuple[str, ...]:
    """The backends that can read it and that are installed."""
    names = [source] if is_one(source) else list(source)
    in_cloud = any(scheme_of(_url(name)) in EXTRAS for name in names)
    return ("fsspec", "obstore") if in_cloud and find_spec("obstore") else ("fsspec",)


def _url(source: OneSource) -> str:
    return str(source) if isinstance(source, DatasetPart) else os.fsdecode(os.fspath(source))


Amounts = Generator[tuple[int, int], None, None]


def _timed(one_pass: Callable[[], Amounts], seconds: float) -> tuple[int, int, float]:
    """Records, bytes and the time of passes that are ended after so many seconds."""
    records = nbytes = 0
    begun = time.perf_counter()
    while True:
        before = nbytes
        passing = one_pass()
        for more, size in passing:
            records, nbytes = records + more, nbytes + size
            taken = time.perf_counter() - begun
            if taken >= seconds:
                passing.close()
                return records, nbytes, taken
        if nbytes == before:  # nothing is there to read
            return records, nbytes, time.perf_counter() - begun


def _records(dataset: Dataset, max_record_bytes: int) -> Amounts:
    with RecordReader.of(dataset, max_record_bytes=max_record_bytes) as reader:
        for batch in reader.batches():
            yield len(batch), batch.nbytes + FRAME_OVERHEAD * len(batch)


def _ranges(dataset: Dataset) -> Amounts:
    """As many at a time as the store is usually fastest with."""
    waiting: deque[Future[Any]] = deque()
    try:
        for index in range(len(dataset.shards)):
            shard = dataset.shard(index)
            store, path = dataset.open(index)
            first = 0 if shard.blocks is None else int(shard.blocks.offsets[0])
            end = first + shard.part_nbytes
            for start in range(first, end, store.range_bytes):
                stop = min(start + store.range_bytes, end)
                waiting.append(store.read(path, start, stop, etag=shard.version))
                if len(waiting) >= store.in_flight:
                    yield 0, len(waiting.popleft().result())
        while waiting:
            yield 0, len(waiting.popleft().result())
    finally:
        for each in waiting:
            each.cancel()
