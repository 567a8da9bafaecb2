"""Indexes streams that others compressed while they are read for their records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfio_store.dataset.inflate.build import IndexingInflater
from tfio_store.dataset.inflate.index import save_index
from tfio_store.dataset.model import Dataset, Shard
from tfio_store.records.texts import warn

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["IndexedStream", "OnRead"]


class OnRead:
    """Writes the index of each shard that was read to its end. ``shards`` are those that have
    blocks now, by number."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._told = False
        self.shards: dict[int, Shard] = {}

    def stream(self, shard: int, codec: str, max_record_bytes: int) -> IndexedStream:
        """Begin to index a shard."""
        return IndexedStream(self, shard, codec, max_record_bytes)

    def url(self, shard: int) -> str:
        return self._dataset.shards[shard].url

    def save(self, index: int, codec: str, inflater: IndexingInflater) -> None:
        """Write an index. If that fails, a warning says so, once: the records were read all the
        same."""
        built = inflater.built()
        if built is None:
            return
        shard = self._dataset.shards[index].known(compression=codec)
        try:
            self.shards[index] = save_index(self._dataset.with_shards({index: shard}), index, built)
        except (OSError, ValueError) as error:
            if not self._told:
                warn(
                    f"the index of {shard.url} cannot be written ({error}); pass index_dir=, a "
                    "folder for indexes"
                )
            self._told = True


class IndexedStream:
    """A stream that is indexed as it is inflated. It gives what comes out of each piece."""

    def __init__(self, on_read: OnRead, shard: int, codec: str, max_record_bytes: int) -> None:
        self._on_read, self._shard, self._codec = on_read, shard, codec
        self._inflater = IndexingInflater(
            codec, url=on_read.url(shard), max_record_bytes=max_record_bytes
        )

    def feed(self, data: BytesLike) -> Iterator[bytes]:
        return self._inflater.feed(data)

    def finish(self) -> Iterator[bytes]:
        return self._inflater.finish()

    def save(self) -> None:
        """Write the index: all records are sound."""
        self._on_read.save(self._shard, self._codec, self._inflater)
