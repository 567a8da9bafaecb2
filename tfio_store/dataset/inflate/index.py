"""The index of one file that others compressed: its blocks, and a checkpoint for each.

It lies in an object of its own: that of ``folder/a.gz`` is ``folder/_a.gz.checkpoints``, or in
``Storage.index_dir`` an object whose name has a digest of the file's URL in it. That is a container
(see `tfio_store.dataset.container`) of two sections::

    "blocks"  u64 nbytes  u64 records  u64 blocks  u64 place  u32 codec (1 GZIP, 2 ZLIB)
              u32 bytes of the etag
              i64 bits[blocks]  stops[blocks]  raw_offsets[blocks + 1]  records[blocks + 1]
              i64 seeds[blocks + 1]
              u32 skips[blocks]  crcs[blocks]
              the etag
    "seeds"   the seeds, one behind the other

``nbytes`` are the file's, ``place`` is a digest of its URL, and the etag is that of the version
that was indexed. A file of the same URL must still have this etag. Of a file that was copied
elsewhere, together with its index, it can't be asked: each block is checked by its CRC32C. Seeds
count from the first one. The other columns are those of `BlockTable` and `Checkpoints`.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.container import (
    HEADER_BYTES,
    SECTION_HEAD_BYTES,
    check_header,
    container,
    first_section_bytes,
    payload_of,
    section,
    section_bytes,
    streamed_section,
)
from tfio_store.dataset.inflate.checkpoints import (
    MOST_SEED_BYTES,
    MOST_SKIP,
    Checkpoint,
    CheckpointError,
    Checkpoints,
    UInt32Array,
    check_seed,
    inflate_from,
)
from tfio_store.dataset.model import Block, Dataset, Shard, Shards
from tfio_store.dataset.names import split_url
from tfio_store.errors import ManifestError
from tfio_store.records.arrays import Int64Array
from tfio_store.records.compression import CODECS, StreamError
from tfio_store.records.texts import warn
from tfio_store.storage import ObjectInfo, Store, Version
from tfio_store.storage.storage import for_writing
from tfio_store.storage.store import LOOKS_AT_ONCE
from tfio_store.storage.threads import mapped

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike


_BLOCKS, _SEEDS = b"blocks", b"seeds"
_CODECS = {name: each.container for name, each in CODECS.items() if each.container is not None}
_FACTS = struct.Struct("<QQQQII")
_PIECE = 1 << 20
REPAIR = "delete this index, or write it anew with tfio_store.build_index"
_MOST_BITS = 1 << 62

MOST_TABLE_BYTES = 1 << 30
"""A longer table is refused, so that no index makes a reader fetch what it likes."""


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """The result of a pass over a file. ``seeds`` is a file that has them one behind the other."""

    codec: str
    nbytes: int
    bits: Int64Array
    stops: Int64Array
    raw_offsets: Int64Array
    records: Int64Array
    seed_ends: Int64Array
    skips: UInt32Array
    crcs: UInt32Array
    seeds: IO[bytes]


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """The facts that an index has about its file."""

    codec: str
    nbytes: int
    place: int
    etag: str
    table: BlockTable

    def is_of(self, url: str, nbytes: int, etag: str | None) -> bool:
        """Whether it is of this version of a file, as far as that is known."""
        if self.nbytes != nbytes:
            return False
        return not (etag and self.etag and self.place == place_of(url)) or self.etag == etag


def place_of(url: str) -> int:
    """A digest of a file's URL, in 64 bits."""
    return int.from_bytes(hashlib.sha256(url.encode()).digest()[:8], "little")


def encoded_index(built: BuiltIndex, url: str, etag: str | None) -> Iterator[bytes]:
    """The index of the file at ``url``, in pieces."""
    named = (etag or "").encode()
    blocks, records = len(built.bits), int(built.records[-1])
    wide = (built.bits, built.stops, built.raw_offsets, built.records, built.seed_ends)
    facts = (built.nbytes, records, blocks, place_of(url), _CODECS[built.codec], len(named))
    table = section(
        _BLOCKS,
        _FACTS.pack(*facts),
        *(column.astype("<i8").tobytes() for column in wide),
        *(column.astype("<u4").tobytes() for column in (built.skips, built.crcs)),
        named,
    )
    yield container([table])
    built.seeds.seek(0)
    seeds = iter(lambda: built.seeds.read(_PIECE), b"")
    yield from streamed_section(_SEEDS, int(built.seed_ends[-1]), seeds)


def decode_index(table: BytesLike, *, nbytes: int, address: str, version: Version) -> FoundIndex:
    """The index of ``nbytes`` bytes at ``address``, from its first section. ValueError says why it
    is none."""
    body = payload_of(table, _BLOCKS)
    if len(body) < _FACTS.size:
        raise ValueError(f"its table has {len(body)} bytes")
    of_file, records, blocks, place, codec, etag_bytes = _FACTS.unpack_from(body)
    if codec not in _CODECS.values():
        raise ValueError(f"it has an unknown codec, {codec}")
    columns_bytes = 8 * (5 * blocks + 3) + 8 * blocks
    if len(body) != _FACTS.size + columns_bytes + etag_bytes:
        raise ValueError(f"its {len(body)} bytes are not those of {blocks} blocks")
    at, columns = _FACTS.size, []
    for count in (blocks, blocks, blocks + 1, blocks + 1, blocks + 1):
        columns.append(np.frombuffer(body, "<i8", count, at).astype(np.int64))
        at += 8 * count
    skips, crcs = (
        np.frombuffer(body, "<u4", blocks, at + 4 * blocks * i).astype(np.uint32) for i in (0, 1)
    )
    bits, stops, raw_offsets, counts, seeds = columns
    _check(columns, skips, of_file, records)
    begin = HEADER_BYTES + len(memoryview(table))
    if begin + section_bytes(int(seeds[-1])) != nbytes:
        raise ValueError(f"its {nbytes} bytes are not those of its seeds")
    seeds += begin + SECTION_HEAD_BYTES
    points = Checkpoints(bits, stops, skips, crcs, seeds, address, of_file, version)
    offsets = np.append(bits >> 3, of_file)
    name = next(name for name, known in _CODECS.items() if known == codec)
    etag = bytes(body[at + 8 * blocks :]).decode(errors="replace")
    found = BlockTable(offsets, raw_offsets, counts, checkpoints=points)
    return FoundIndex(name, of_file, place, etag, found)


def _check(columns: list[Int64Array], skips: UInt32Array, nbytes: int, records: int) -> None:
    for column in columns:
        if (column[1:] < column[:-1]).any():  # a difference could wrap
            raise ValueError("its totals go down")
        if len(column) and not 0 <= column[0] <= column[-1] < _MOST_BITS:
            raise ValueError("its totals are no counts")
    bits, stops, raw_offsets, counts, seeds = columns
    if nbytes >> 59 or raw_offsets[0] or counts[0] or seeds[0] or counts[-1] != records:
        raise ValueError("its totals are not those of the file")
    if len(bits):
        starts = bits >> 3
        if bits[0] or (stops < np.append(starts[1:], nbytes)).any() or (stops > nbytes).any():
            raise ValueError("its blocks do not lie in the file")
        if (np.diff(counts) < 1).any():
            raise ValueError("one of its blocks has no record")
    elif records:
        raise ValueError("it has records and no block")
    if (skips > MOST_SKIP).any() or (np.diff(seeds) > MOST_SEED_BYTES).any():
        raise ValueError("one of its checkpoints is longer than any")


# Where indexes lie, and how they are found and written.


_SUFFIX = ".checkpoints"
_COMPRESSED = (".gz", ".gzip", ".bgz", ".zlib", ".zz", ".deflate")
_FEW = 8
"""So many files of a folder at most are asked for one by one. Of more, the folder is listed."""
_DIGEST = 16
_GUESS_BYTES = 64 << 10
"""Bytes of an index that are read at once: its table takes 48 for each block."""


def with_checkpoints(dataset: Dataset, *, whatever_name: bool = False) -> Dataset:
    """The dataset, with the blocks of those streams that have an index. One is looked for where a
    file's compression or its name says that it may have one, or where there is a folder for
    indexes; or ``whatever_name`` it has."""
    asked = [
        (i, shard)
        for i in dataset.shards.without_blocks()
        if _may_have(dataset, shard := dataset.shards[i], whatever_name)
    ]
    if not asked:
        return dataset
    known = _Listed.of(dataset, [shard for _, shard in asked])

    def find(shard: Shard) -> Shard | None:
        return _found(dataset, shard, known)

    at_once = LOOKS_AT_ONCE if any("://" in shard.url for _, shard in asked) else 1
    found = mapped(find, [shard for _, shard in asked], at_once)
    indexed = {i: shard for (i, _), shard in zip(asked, found, strict=True) if shard is not None}
    return dataset.with_shards(indexed)


def checkpointed(dataset: Dataset, shard: Shard, *, sound: bool = False) -> Shard:
    """A shard of a dataset whose codec is known, with its blocks if it has an index. ``sound``:
    only if all of the index is, and without a word about one that is not used."""
    if not _may_have(dataset, shard):
        return shard
    return _found(dataset, shard, _Listed(), sound=sound) or shard


def _may_have(dataset: Dataset, shard: Shard, whatever_name: bool = False) -> bool:
    if shard.blocks is not None or shard.compression not in ("auto", *_CODECS):
        return False
    if shard.compression != "auto" or dataset.storage.index_dir is not None:
        return True
    return whatever_name or shard.url.lower().endswith(_COMPRESSED)


class _Listed:
    """The indexes that lie in folders which were listed, by path."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, ObjectInfo]] = {}

    @classmethod
    def of(cls, dataset: Dataset, shards: list[Shard]) -> _Listed:
        listed, folders = cls(), dict[str, tuple[Store, int]]()
        for shard in shards if len(shards) > _FEW else ():
            for store, path in _places(dataset, shard):
                folder = store.url(split_url(path)[0])
                folders[folder] = store, folders.get(folder, (store, 0))[1] + 1
        for url, (store, count) in folders.items():
            if count > _FEW and "://" in url and not set("*?[") & {*url}:
                with suppress(OSError):
                    _, path = dataset.storage.open(url)
                    found = store.glob(f"{path.rstrip('/')}/*{_SUFFIX}")
                    listed._folders[url] = {info.path: info for info in found}
        return listed

    def look(self, store: Store, path: str) -> ObjectInfo | None:
        folder = self._folders.get(store.url(split_url(path)[0]))
        return store.look(path) if folder is None else folder.get(path)


def _places(dataset: Dataset, shard: Shard) -> Iterator[tuple[Store, str]]:
    """Where the index of a file may lie: where one is written first."""
    folder, name = split_url(shard.url)
    if dataset.storage.index_dir is not None:
        digest = hashlib.sha256(shard.url.encode()).hexdigest()[:_DIGEST]
        chosen = dataset.storage.index_dir.rstrip("/")
        yield dataset.storage.open(f"{chosen}/{name}.{digest}{_SUFFIX}")
    if shard.secret_url is None and "?" not in shard.url:  # a signature is of one object
        beside = f"_{name}{_SUFFIX}"
        yield dataset.storage.open(f"{folder}/{beside}" if folder else beside)


def _found(dataset: Dataset, shard: Shard, known: _Listed, *, sound: bool = False) -> Shard | None:
    """The shard, with the blocks of its index. None without one that can be trusted. ``sound``:
    all of it is checked, and there is no word about the others."""
    for store, path in _places(dataset, shard):
        try:
            info = known.look(store, path)
            found = None if info is None else load_index(store, path, info)
            if found is not None and not len(found.table):
                _check_empty(dataset, shard, found)
        except (PermissionError, FileNotFoundError):
            continue
        except ManifestError as error:
            if not sound:
                warn(f"{shard.url} is read without its index: {error}")
            continue
        if found is None:
            continue
        indexed = _indexed(dataset, shard, found)
        if indexed is not None and not (sound and index_damage(dataset, indexed)):
            return indexed
        if sound:
            continue
        warn(
            f"{shard.url}: its index {store.url(path)} is of another version of the file, and is "
            "not used; write it anew with tfio_store.build_index"
        )
    return None


def _check_empty(dataset: Dataset, shard: Shard, found: FoundIndex) -> None:
    """ManifestError if the file of an index without blocks has records: no block tells."""
    store, path = dataset.storage.open(shard.address)
    data = store.read(path, 0, min(shard.nbytes, _GUESS_BYTES), etag=shard.version).result()
    start = Checkpoint(0, 0, 0, is_last=False)
    with suppress(StreamError):
        raw, _ = inflate_from(start, b"", data, found.codec, start=0, nbytes=1)
        if not raw and shard.nbytes <= _GUESS_BYTES:
            return
    raise ManifestError("it has no block, and the file is not empty")


def _indexed(dataset: Dataset, shard: Shard, found: FoundIndex) -> Shard | None:
    """The shard with the facts of its index, or None if that is not of this file."""
    etag = shard.version.etag
    if etag is None:
        store, path = dataset.storage.open(shard.address)
        with suppress(OSError):
            info = store.info(path)
            shard.version.hold(info.etag, shard.url)
            etag = info.etag
    records = int(found.table.records[-1])
    if not found.is_of(shard.url, shard.nbytes, etag) or shard.records not in (None, records):
        return None
    if shard.compression not in ("auto", found.codec):
        return None
    return shard.known(compression=found.codec, records=records, blocks=found.table)


def load_index(store: Store, path: str, info: ObjectInfo) -> FoundIndex:
    """Read an index but for its seeds. ManifestError if it is none."""
    version, size = Version(info.etag), info.size

    def read(start: int, stop: int) -> bytes:
        return bytes(store.read(path, start, stop, etag=version).result())

    try:
        data = read(0, min(size, _GUESS_BYTES))
        check_header(data)
        stop = HEADER_BYTES + first_section_bytes(data[HEADER_BYTES:])
        if stop > min(size, MOST_TABLE_BYTES):
            raise ValueError(f"its table of {stop} bytes is longer than it")
        data += read(len(data), stop) if stop > len(data) else b""
        return decode_index(
            data[HEADER_BYTES:stop], nbytes=size, address=store.address(path), version=version
        )
    except ValueError as error:
        raise ManifestError(f"{store.url(path)}: not an index of checkpoints: {error}") from error


def read_seed(dataset: Dataset, block: Block) -> BytesLike:
    """The state that the inflater of a block needs. Empty for a block that needs none."""
    if block.restart is None or block.restart.start == block.restart.stop:
        return b""
    store, path = dataset.storage.open(block.restart.address)
    at, end, version = block.restart.start, block.restart.stop, block.restart.version
    return store.read(path, at, end, etag=version).result()


def index_damage(dataset: Dataset, shard: Shard) -> str | None:
    """What is wrong with the index of a shard, or None. It reads all seeds and the last block."""
    points = None if shard.blocks is None else shard.blocks.checkpoints
    if points is None or not len(points):
        return None
    store, path = dataset.storage.open(points.address)
    try:
        seeds, first = points.seeds.tolist(), 0
        while first < len(points):
            after = max(first + 1, bisect_right(seeds, seeds[first] + _PIECE) - 1)
            begin, end = seeds[first], seeds[after]
            data = memoryview(store.read(path, begin, end, etag=points.version).result())
            for block in range(first, after):
                check_seed(data[seeds[block] - begin : seeds[block + 1] - begin])
            first = after
        _check_last(dataset, shard)
    except CheckpointError as error:
        return f"{store.url(path)}: {error}; {REPAIR}"
    return None


def _check_last(dataset: Dataset, shard: Shard) -> None:
    """CheckpointError if the file goes on behind its last block."""
    assert shard.blocks is not None
    block = Dataset(Shards([shard]), dataset.storage).block(0, len(shard.blocks) - 1)
    store, path = dataset.storage.open(shard.address)
    data = store.read(path, block.start, block.stop, etag=shard.version).result()
    assert block.restart is not None
    assert shard.compression is not None
    nbytes, seed = block.raw_stop - block.raw_start, read_seed(dataset, block)
    with suppress(StreamError):  # the file may be damaged
        inflate_from(
            block.restart.point, seed, data, shard.compression, start=block.start, nbytes=nbytes
        )


def save_index(dataset: Dataset, index: int, built: BuiltIndex) -> Shard:
    """Write the index of a shard, all of whose bytes were read. The shard with its blocks.

    An index of this version that somebody else has written meanwhile stays: others may be reading
    it.
    """
    shard = dataset.shards[index]
    outside = Dataset(Shards(), for_writing(dataset.storage))
    found = _found(dataset, shard, _Listed(), sound=True)
    if found is not None:
        return found
    places = _places(outside, shard)
    target = next(places, None)
    if target is None:
        raise ValueError(
            f"{shard.url}: nothing can be written beside a file that is reached by a signed URL; "
            "pass index_dir="
        )
    store, path = target
    output = store.open_output(path)
    try:
        for piece in encoded_index(built, shard.url, shard.version.etag):
            output.write(piece)
        info = output.commit()
    except BaseException:
        output.abort()
        raise
    loaded = load_index(store, path, info)
    return shard.known(compression=built.codec, records=int(built.records[-1]), blocks=loaded.table)
