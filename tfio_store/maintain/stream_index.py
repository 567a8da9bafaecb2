"""Reads a stream that others compressed from beginning to end, and writes its index."""

from __future__ import annotations

from contextlib import closing

from tfio_store.dataset.inflate.build import IndexingInflater
from tfio_store.dataset.inflate.files import save_index
from tfio_store.dataset.model import Dataset, Shard
from tfio_store.errors import CorruptRecordError, TruncatedRecordError
from tfio_store.records.compression import StreamError
from tfio_store.records.framing import crc32c
from tfio_store.storage.read_ahead import Fetch, ReadAhead, split_range

__all__ = ["index_stream"]


def index_stream(
    dataset: Dataset, index: int, *, memory_budget: int, max_record_bytes: int
) -> tuple[Shard, int]:
    """A GZIP or ZLIB shard with its blocks, and its stored CRC32C. Its index is written.

    DataLossError if it does not inflate to records; its records' data is not checked."""
    shard = dataset.shards[index]
    assert shard.compression is not None
    store, path = dataset.open(index)
    inflater = IndexingInflater(shard.compression, url=shard.url, max_record_bytes=max_record_bytes)
    ranges = (
        Fetch(store, path, start, stop, None, stop - start, shard.version)
        for start, stop in split_range(0, shard.nbytes, store.range_bytes)
    )
    crc = 0
    try:
        with closing(ReadAhead(ranges, budget=memory_budget)) as ahead:
            for _, data in ahead:
                crc = crc32c(data, crc)
                for _ in inflater.feed(data):
                    if inflater.failure is not None:
                        raise inflater.failure
        for _ in inflater.finish():
            pass
    except StreamError as error:
        kind = TruncatedRecordError if error.truncated else CorruptRecordError
        raise kind(str(error), path=shard.url, offset=inflater.offset) from error
    built = inflater.built()
    if built is None:
        assert inflater.failure is not None
        raise inflater.failure
    return save_index(dataset, index, built), crc
