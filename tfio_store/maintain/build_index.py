"""`build_index` and `write_idx`: they make records of files without an index reachable at
random."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import ShardInfo
from tfio_store.dataset.checks import check_name
from tfio_store.dataset.folder import Folder, check_hides_nothing, look_inside
from tfio_store.dataset.header_walk import codec_of, format_idx, indexed_shard, walked
from tfio_store.dataset.inflate.build import IndexingInflater
from tfio_store.dataset.inflate.index import checkpointed, save_index
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.model import MEMORY_BUDGET, Dataset, Limits, Shard
from tfio_store.dataset.names import DatasetNames, new_tag, split_url
from tfio_store.dataset.source import Source, open_dataset, reached
from tfio_store.records.compression import StreamError, can_be_indexed
from tfio_store.records.damage import damaged
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, crc32c
from tfio_store.storage import Storage, Store
from tfio_store.storage.read_ahead import Fetch, ReadAhead, split_range
from tfio_store.storage.storage import for_writing, given_storage
from tfio_store.storage.threads import mapped
from tfio_store.write.parts import Place, put_parts
from tfio_store.write.progress import OnProgress, Progress, check_on_progress

_SHARDS_AT_ONCE = 4


def build_index(
    source: Source,
    save_as: str | None = None,
    *,
    record_positions: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    memory_budget: int = MEMORY_BUDGET,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> DatasetManifest:
    r"""Index files that other programs wrote: raw files, and GZIP and ZLIB streams.

    It finds their blocks, records and checksums. The files are not touched. It reads all bytes
    once, because the manifest keeps a CRC32C of each file. It checks only the headers of records;
    `verify` checks them whole.

    For each compressed file it writes an index beside the file: for ``folder/a.gz`` that is
    ``folder/_a.gz.checkpoints``. With it inflating can begin about every MiB. It takes up to
    3 % of the file. From then on the file has blocks, under its own name, for all that read it. If
    the file is replaced, its index is passed by with a warning. What has a sound index already is
    not inflated again.

    Args:
        source (str | PathLike | list): The files, as for `RecordReader`.
        save_as (str | None): The URL that the dataset shall have, in the files' own folder: for
            ``s3://b/old/part-*`` perhaps ``s3://b/old/train``. Index and manifest are written
            there. From then on ``RecordSource("s3://b/old/train")`` and all others know the blocks.
            Default None: the manifest is only returned. Compressed files are indexed all the same.
        record_positions (bool | None): See `ShardedWriter`. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        index_dir (str | PathLike | None): A folder, or its URL, in which the indexes of compressed
            files are written instead, for example if the bucket is read-only. Readers take the same
            ``index_dir=``, or ``Storage(index_dir=…)``. Default None: beside the files.
        memory_budget (int): Bytes that may be in flight. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        on_progress (Callable | None): Called with the `Progress` after each file. Default None.

    Returns:
        DatasetManifest: With the block table of each raw file.

    Raises:
        ValueError: A file is ZSTD, of another compression than the others, does not lie in the
            folder of ``save_as``, is named twice, or has a name that no manifest can hold (with one
            of ``% : ? # \`` in it).
        ImportError: A file is compressed, and the compiled core is missing.
        PermissionError: Nothing may be written beside a compressed file; pass ``index_dir``.
        CorruptRecordError: A header is damaged, or data does not decompress.
        TruncatedRecordError: A file ends inside a record.
        RecordTooLargeError: A header claims more than ``max_record_bytes``.
        FileExistsError: ``save_as`` has a manifest.
        IsADirectoryError: ``save_as`` is a folder that readers take for the dataset in it.

    Example:
        >>> for i in range(2):
        ...     with tfs.TFRecordWriter(f"part-{i}") as writer:
        ...         writer.write_batch([b"one", b"two"])
        >>> tfs.build_index("part-*", "train").records
        4
        >>> tfs.RecordSource("train")[3]
        b'two'

        >>> with tfs.TFRecordWriter("a.gz", options="GZIP") as writer:
        ...     writer.write_batch([b"one", b"two"])
        >>> tfs.build_index("a.gz").records
        2
        >>> tfs.RecordSource("a.gz")[1]
        b'two'
    """
    if record_positions is not None and not isinstance(record_positions, bool):
        raise TypeError(f"record_positions= takes None, True or False, not {record_positions!r}")
    check_on_progress(on_progress)
    dataset = open_dataset(source, reached(source, storage_options, storage, index_dir))
    _check_whole(dataset)
    place = None if save_as is None else for_writing(dataset.storage).open(save_as)
    names = _names(dataset, _common_folder(dataset, place))
    if place is not None:
        check_hides_nothing(*place, look_inside(*place))
    limits = Limits(memory_budget // _SHARDS_AT_ONCE, max_record_bytes)
    describe = partial(_describe, dataset, limits, record_positions, names)
    described = mapped(describe, range(len(names)), _SHARDS_AT_ONCE)
    found = list(_told(described, on_progress))
    manifest = DatasetManifest(tuple(info for info, _ in found), _common_codec(dataset, found))
    return manifest if place is None else _save(manifest, place)


def _check_whole(dataset: Dataset) -> None:
    for shard in dataset.shards:
        if shard.is_part:
            raise ValueError(
                f"{shard.url}: source= is a part of this file, and an index is of whole files"
            )


def _common_codec(dataset: Dataset, found: list[tuple[ShardInfo, str | None]]) -> str | None:
    """The compression of all files. ValueError if they differ."""
    codecs = [codec for _, codec in found]
    for shard, codec in zip(dataset.shards, codecs, strict=True):
        if codec != codecs[0]:
            first, this = codecs[0] or "raw", codec or "raw"
            raise ValueError(
                f"{shard.url}: is {this}, and {dataset.shards[0].url} is {first}; a dataset has "
                "one compression, so index the files of each by themselves"
            )
    return codecs[0] if codecs else None


_Described: TypeAlias = tuple[ShardInfo, "str | None"]
"""A file and its compression."""


def _told(shards: Iterable[_Described], on_progress: OnProgress | None) -> Iterator[_Described]:
    """The shards as they come, each with a word to the caller."""
    records = nbytes = 0
    for done, (shard, codec) in enumerate(shards, 1):
        records, nbytes = records + shard.records, nbytes + shard.nbytes
        if on_progress is not None:
            on_progress(Progress(records, nbytes, done))
        yield shard, codec


def _common_folder(dataset: Dataset, place: tuple[Store, str] | None) -> str:
    folders = {split_url(shard.url)[0] for shard in dataset.shards}
    if place is not None:
        store, path = place
        folders.add(split_url(store.url(path))[0])
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


def _describe(
    dataset: Dataset,
    limits: Limits,
    record_positions: bool | None,
    names: Sequence[str],
    index: int,
) -> _Described:
    shard, name = dataset.shards[index], names[index]
    codec = codec_of(dataset, index)
    if codec is not None:
        return _describe_stream(dataset, limits, name, index, codec), codec
    if shard.blocks is None or (record_positions and shard.blocks.starts is None):
        shard = indexed_shard(dataset, index, limits, record_positions=record_positions)
    assert shard.blocks is not None
    blocks = shard.blocks if record_positions is not False else replace(shard.blocks, starts=None)
    crc = object_crc32c(dataset, index, memory_budget=limits.memory_budget)
    return ShardInfo(name, shard.nbytes, int(blocks.records[-1]), crc, blocks), None


def _describe_stream(
    dataset: Dataset, limits: Limits, name: str, index: int, codec: str
) -> ShardInfo:
    """A compressed file, whose blocks are in an index of its own."""
    shard = dataset.shards[index]
    if not can_be_indexed(codec):
        raise ValueError(
            f"{shard.url}: is a {codec} stream, inside of which no decoder can begin: copy it with "
            "tfio_store.copy(), which compresses in blocks"
        )
    if shard.blocks is not None and shard.blocks.checkpoints is not None:
        shard = replace(shard, blocks=None, records=None)  # of an index that nobody has checked
    known = dataset.with_shards(
        {index: checkpointed(dataset, shard.known(compression=codec), sound=True)}
    )
    shard = known.shards[index]
    if shard.blocks is not None and shard.records is not None:
        crc = object_crc32c(dataset, index, memory_budget=limits.memory_budget)
        own = shard.blocks if shard.blocks.checkpoints is None else None
        return ShardInfo(name, shard.nbytes, shard.records, crc, own)
    try:
        indexed, crc = index_stream(known, index, limits)
    except PermissionError as error:
        raise PermissionError(
            error.errno,
            f"{error.strerror or error}; pass index_dir=, a folder for the index",
            error.filename or shard.url,
        ) from error
    assert indexed.records is not None
    return ShardInfo(name, shard.nbytes, indexed.records, crc)


def _save(manifest: DatasetManifest, place: tuple[Store, str]) -> DatasetManifest:
    store, path = place
    parent, name = split_url(path)
    folder, names = Folder(store, parent), DatasetNames(name)
    # tagged, because until the manifest is there the plain name may be another index's
    parts = put_parts(Place(folder, names, new_tag()), manifest, None, plain=False)
    try:
        folder.put(names.manifest, parts.manifest.to_bytes(), if_absent=True)
    except FileExistsError:
        folder.delete(parts.put)
        raise
    return parts.manifest


def index_stream(dataset: Dataset, index: int, limits: Limits) -> tuple[Shard, int]:
    """A GZIP or ZLIB shard with its blocks, and its stored CRC32C. Its index is written.

    DataLossError if it does not inflate to records; its records' data is not checked."""
    shard = dataset.shards[index]
    assert shard.compression is not None
    most = limits.max_record_bytes
    inflater = IndexingInflater(shard.compression, url=shard.url, max_record_bytes=most)
    crc = 0
    try:
        with closing(_stored(dataset, index, limits.memory_budget)) as pieces:
            for data in pieces:
                crc = crc32c(data, crc)
                for _ in inflater.feed(data):
                    if inflater.failure is not None:
                        raise inflater.failure
        for _ in inflater.finish():
            pass
    except StreamError as error:
        raise damaged(error.kind, str(error), path=shard.url, offset=inflater.offset) from error
    built = inflater.built()
    if built is None:
        assert inflater.failure is not None
        raise inflater.failure
    return save_index(dataset, index, built), crc


def object_crc32c(dataset: Dataset, index: int, *, memory_budget: int = MEMORY_BUDGET) -> int:
    """CRC32C of all stored bytes of a shard."""
    crc = 0
    for data in _stored(dataset, index, memory_budget):
        crc = crc32c(data, crc)
    return crc


def _stored(dataset: Dataset, index: int, memory_budget: int) -> Generator[BytesLike, None, None]:
    """All stored bytes of a shard, in pieces."""
    shard = dataset.shards[index]
    store, path = dataset.open(index)
    ranges = (
        Fetch(store, path, start, stop, None, stop - start, shard.version)
        for start, stop in split_range(0, shard.nbytes, store.range_bytes)
    )
    with closing(ReadAhead(ranges, budget=memory_budget)) as ahead:
        for _, data in ahead:
            yield data


def write_idx(
    source: str,
    idx: str,
    *,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> None:
    r"""Write the text index of one raw file, as DALI and vahidk's tfrecord read it.

    Each line is ``offset size`` of one record with its framing, in bytes.

    Args:
        source (str): The path or URL of the file.
        idx (str): The path or URL of the index.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Raises:
        OSError: The storage fails.
        CorruptRecordError: A header is damaged.
        TruncatedRecordError: The file ends inside a record.
        RecordTooLargeError: A header claims more than ``max_record_bytes``.

    Example:
        >>> with tfs.TFRecordWriter("a.tfrecord") as writer:
        ...     writer.write_batch([b"one", b"three"])
        >>> from tfio_store.dali import write_idx
        >>> write_idx("a.tfrecord", "a.idx")
        >>> open("a.idx").read()
        '0 19\n19 21\n'
    """
    storage = given_storage(storage_options, storage)
    dataset = open_dataset(source, storage, compression=None)
    _check_whole(dataset)
    (shard,) = dataset.shards
    store, path = dataset.open(0)
    walker = walked(store, path, shard, Limits(max_record_bytes=max_record_bytes))
    target, target_path = for_writing(dataset.storage).open(idx)
    target.put(target_path, format_idx(walker.offsets(), shard.nbytes))


def write_idx_files(source: Source, storage: Storage) -> list[str]:
    """Write the text index of each raw file of a source beside it, as `write_idx` does. Gives
    their names: those of the files, with ``.idx`` behind."""
    shards = open_dataset(source, storage, compression=None).shards
    for shard in shards:
        write_idx(shard.address, f"{shard.address}.idx", storage=storage)
    return [f"{shard.url}.idx" for shard in shards]
