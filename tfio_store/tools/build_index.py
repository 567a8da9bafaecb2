"""`build_index` and `write_idx`: what makes files that came without an index reachable at
random."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

from tfio_store.dataset.block_tables import ShardInfo
from tfio_store.dataset.header_walk import frame_offsets, index_raw_shards
from tfio_store.dataset.manifest import DatasetManifest, check_name
from tfio_store.dataset.model import Dataset
from tfio_store.dataset.names import DatasetNames, new_tag, split_url
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.dataset.text_index import format_idx
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, crc32c
from tfio_store.storage import Access, Retry, Store
from tfio_store.storage.read_ahead import Fetch, ReadAhead, split_range
from tfio_store.storage.threads import Threads

__all__ = ["build_index", "object_crc32c", "write_idx"]

_BUDGET = 256 << 20
_SHARDS_AT_ONCE = 4


def build_index(
    source: Source,
    save_as: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    memory_budget: int = _BUDGET,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> DatasetManifest:
    """Make a dataset of raw files that were written elsewhere: find their blocks, records and
    checksums.

    ``save_as`` is the URL that the dataset shall have, in the files' own folder: for
    ``s3://b/old/part-*`` perhaps ``s3://b/old/train``. The index and manifest are written there,
    and from then on ``RecordSource("s3://b/old/train")`` and all others find the blocks without
    looking. The files themselves are not touched. Without ``save_as`` the manifest is only
    returned.

    All bytes are read once, for the CRC32C that the manifest keeps of each file; of the records
    only the headers are checked (`verify` checks them whole).

    Raises:
        ValueError: a file is compressed, does not lie in the folder of ``save_as``, is named twice,
            or has a name that no manifest can hold (with one of ``% : ? # \\`` in it).
        CorruptRecordError, TruncatedRecordError: a header is damaged.
        RecordTooLargeError: a header claims more than ``max_record_bytes``.
        FileExistsError: ``save_as`` has a manifest.
    """
    access = Access(storage_options, retry, backend)
    found = open_dataset(source, access)
    dataset = index_raw_shards(
        found, memory_budget=memory_budget, max_record_bytes=max_record_bytes
    )
    names = _names(dataset, _common_folder(dataset, save_as))
    describe = partial(_describe, dataset, memory_budget // _SHARDS_AT_ONCE)
    with Threads(_SHARDS_AT_ONCE, thread_name_prefix="tfio_store-index") as pool:
        shards = tuple(pool.map(describe, names, range(len(names))))
    if save_as is None:
        return DatasetManifest(shards, None)
    return _save(shards, access.open(save_as))


def _common_folder(dataset: Dataset, save_as: str | None) -> str:
    folders = {split_url(shard.url)[0] for shard in dataset.shards}
    if save_as is not None:
        folders.add(split_url(save_as)[0])
    if len(folders) != 1:
        raise ValueError(
            f"save_as= and the files must be in one folder, not in {', '.join(sorted(folders))}"
        )
    return folders.pop()


def _names(dataset: Dataset, folder: str) -> list[str]:
    """The files' names in their folder. ValueError for those that no manifest can hold."""
    names = [shard.url[len(folder) + 1 :] for shard in dataset.shards]
    for name in names:
        try:
            check_name(name)
        except ValueError as error:
            raise ValueError(
                f"{folder}/{name}: a manifest cannot name this file: {error}; rename it"
            ) from error
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"source= names {folder}/{twice} twice; a dataset has each file once")
    return names


def _describe(dataset: Dataset, memory_budget: int, name: str, index: int) -> ShardInfo:
    shard = dataset.shards[index]
    if shard.blocks is None or shard.compression is not None:
        raise ValueError(
            f"{shard.url}: is compressed; only raw files can be indexed where they are. "
            "Copy it with ShardedWriter, which compresses in blocks"
        )
    crc = object_crc32c(dataset, index, memory_budget=memory_budget)
    return ShardInfo(name, shard.nbytes, int(shard.blocks.records[-1]), crc, shard.blocks)


def _save(shards: tuple[ShardInfo, ...], place: tuple[Store, str]) -> DatasetManifest:
    store, path = place
    folder, name = split_url(path)
    names = DatasetNames(name)
    # tagged: until the manifest is there, the plain name may be that of somebody else's index
    manifest = DatasetManifest(shards, None, index=names.index(new_tag()))
    index_path = f"{folder}/{manifest.index}"
    store.put(index_path, manifest.index_bytes())
    try:
        store.put(f"{folder}/{names.manifest}", manifest.to_bytes(), if_absent=True)
    except FileExistsError:
        store.delete([index_path])
        raise
    return manifest


def object_crc32c(dataset: Dataset, index: int, *, memory_budget: int = _BUDGET) -> int:
    """CRC32C of all stored bytes of a shard."""
    shard = dataset.shards[index]
    store, path = dataset.open(index)
    ranges = (
        Fetch(store, path, start, stop, None, stop - start, shard.version)
        for start, stop in split_range(0, shard.nbytes, store.range_bytes)
    )
    crc = 0
    with closing(ReadAhead(ranges, budget=memory_budget)) as ahead:
        for _, data in ahead:
            crc = crc32c(data, crc)
    return crc


def write_idx(
    source: str,
    idx: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> None:
    """Write the text index of one raw file as DALI and vahidk's tfrecord read it: ``offset size``
    per record."""
    access = Access(storage_options, retry, backend)
    dataset = open_dataset(source, access, compression=None)
    (shard,) = dataset.shards
    store, path = dataset.open(0)
    frames = frame_offsets(store, path, shard, budget=_BUDGET, max_record_bytes=max_record_bytes)
    target, target_path = access.open(idx)
    target.put(target_path, format_idx(frames, shard.nbytes))
