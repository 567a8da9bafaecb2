"""Where the indexes of streams that others compressed lie, and how they are found and written.

The index of ``folder/a.gz`` is ``folder/_a.gz.checkpoints``, or in ``Storage.index_dir`` an object
whose name has a digest of the file's URL in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from tfio_store.dataset.inflate.index import (
    END_BYTES,
    HEAD_BYTES,
    BuiltIndex,
    FoundIndex,
    decode_index,
    encoded_index,
    table_bytes,
)
from tfio_store.dataset.model import Block, Dataset, Shard
from tfio_store.dataset.names import split_url
from tfio_store.errors import ManifestError
from tfio_store.records.texts import warn
from tfio_store.storage import ObjectInfo, Store, Version
from tfio_store.storage.storage import for_writing
from tfio_store.storage.store import LOOKS_AT_ONCE
from tfio_store.storage.threads import mapped

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["checkpointed", "load_index", "read_seed", "save_index", "with_checkpoints"]

_SUFFIX = ".checkpoints"
_COMPRESSED = (".gz", ".gzip", ".bgz", ".zlib", ".zz", ".deflate")
_FEW = 8
"""So many files of a folder at most are asked for one by one. Of more, the folder is listed."""
_DIGEST = 16
_GUESS_BYTES = 64 << 10
"""Bytes at the end of an index that are read at once: its table takes 48 for each block."""


def with_checkpoints(dataset: Dataset, *, whatever_name: bool = False) -> Dataset:
    """The dataset, with the blocks of those streams that have an index. One is looked for where a
    file's compression or its name says that it may have one, or where there is a folder for
    indexes; or ``whatever_name`` it has."""
    if dataset.paged is not None:
        return dataset
    asked = [
        (i, shard)
        for i, shard in enumerate(dataset.shards)
        if _may_have(dataset, shard, whatever_name)
    ]
    if not asked:
        return dataset
    known = _Listed.of(dataset, [shard for _, shard in asked])

    def find(shard: Shard) -> Shard | None:
        return _found(dataset, shard, known)

    at_once = LOOKS_AT_ONCE if any("://" in shard.url for _, shard in asked) else 1
    found = mapped(find, [shard for _, shard in asked], at_once)
    indexed = {i: shard for (i, _), shard in zip(asked, found, strict=True) if shard is not None}
    return dataset.with_shards(indexed) if indexed else dataset


def checkpointed(dataset: Dataset, shard: Shard, *, silent: bool = False) -> Shard:
    """A shard of a dataset whose codec is known, with its blocks if it has an index. ``silent``:
    without a word about one that is not used."""
    if not _may_have(dataset, shard):
        return shard
    return _found(dataset, shard, _Listed(), silent=silent) or shard


def _may_have(dataset: Dataset, shard: Shard, whatever_name: bool = False) -> bool:
    if shard.blocks is not None or shard.compression not in ("auto", "GZIP", "ZLIB"):
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


def _found(dataset: Dataset, shard: Shard, known: _Listed, *, silent: bool = False) -> Shard | None:
    """The shard, with the blocks of its index. None without one that can be trusted.
    ``silent``: without a word about the others."""
    for store, path in _places(dataset, shard):
        try:
            info = known.look(store, path)
            found = None if info is None else load_index(store, path, info)
        except (PermissionError, FileNotFoundError):
            continue
        except ManifestError as error:
            if not silent:
                warn(f"{shard.url} is read without its index: {error}")
            continue
        if found is None:
            continue
        indexed = _indexed(dataset, shard, found)
        if indexed is not None:
            return indexed
        if silent:
            continue
        warn(
            f"{shard.url}: its index {store.url(path)} is of another version of the file, and is "
            "not used; write it anew with tfio_store.build_index"
        )
    return None


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
        if size < HEAD_BYTES + END_BYTES:
            raise ValueError(f"it has {size} bytes")
        tail_at = max(0, size - _GUESS_BYTES)
        tail = read(tail_at, size)
        if len(tail) != size - tail_at:
            raise ValueError("it ends too early")
        end = tail[-END_BYTES:]
        begin = size - END_BYTES - table_bytes(end)
        if begin < HEAD_BYTES:
            raise ValueError("its table is longer than it")
        if begin < tail_at:
            tail, tail_at = read(begin, tail_at) + tail, begin
        head = tail[:HEAD_BYTES] if tail_at == 0 else read(0, HEAD_BYTES)
        table = tail[begin - tail_at : -END_BYTES]
        return decode_index(
            head, table, end, nbytes=size, address=store.address(path), version=version
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


def save_index(dataset: Dataset, index: int, built: BuiltIndex) -> Shard:
    """Write the index of a shard, all of whose bytes were read. The shard with its blocks.

    An index of this version that somebody else has written meanwhile stays: others may be reading
    it.
    """
    shard = dataset.shards[index]
    outside = Dataset((), for_writing(dataset.storage))
    found = _found(dataset, shard, _Listed(), silent=True)
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
