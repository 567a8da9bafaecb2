"""`open_dataset`: turns what a user names into a `Dataset`.

A source is a URL or path of one file, a glob, a dataset's prefix or folder with a manifest, a split
of a folder that TFDS wrote, a `DatasetPart`, or a list of any of these. If a file has that name,
the file is meant. Otherwise the name is looked up as a dataset.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from typing_extensions import TypeIs

from tfio_store.dataset.folder import Folder, Found, begin_to_find, find_manifest
from tfio_store.dataset.listed_shards import ListedShards
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.model import (
    Dataset,
    DatasetPart,
    LazyShards,
    Limits,
    Shard,
    Told,
    common_told,
    hold_versions,
)
from tfio_store.dataset.names import manifest_name, split_url
from tfio_store.dataset.paged_shards import PagedShards
from tfio_store.dataset.tfds import tfds_shards
from tfio_store.errors import ManifestError
from tfio_store.records.compression import codec_name
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.warning import warn
from tfio_store.storage import ObjectInfo, Storage, Store, Version
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage
from tfio_store.storage.store import early
from tfio_store.storage.threads import Threads

__all__ = [
    "OneSource",
    "Source",
    "common_storage",
    "is_one",
    "names_of",
    "open",
    "open_dataset",
    "repeatable",
]


# What a committed manifest tells of shards, also of those that were named as files beside it.


_SHARD_NAME = re.compile(r"(?P<dataset>.+?)-\d{5,}(?:-of-\d{5,})?\.tfrecord")


def committed_shards(folder: Folder, manifest: DatasetManifest) -> Sequence[Shard]:
    """What a manifest and its block tables tell of each shard. Of a long list, it is read when
    somebody asks."""
    if isinstance(manifest.shards, PagedShards):
        return ListedShards(folder, manifest.compression, manifest.shards)
    return [
        Shard.at(
            folder.store,
            folder.join(info.name),
            info.nbytes,
            compression=manifest.compression,
            records=info.records,
            blocks=info.blocks,
            crc32c=info.crc32c,
        )
        for info in manifest.shards
    ]


def with_known_blocks(dataset: Dataset, *, by_pattern: bool = False) -> Dataset:
    """The dataset with the blocks of shards that were named as files, where a manifest beside them
    knows.

    ``train-00000-of-00016.tfrecord`` belongs to a dataset ``train``, if there is one: that is one
    question for each dataset, and its answer makes compressed shards seekable and countable. A
    manifest that is not to be trusted is passed by with a warning, since nobody named it. So is one
    that names other shards than those that were found ``by_pattern``.
    """
    if isinstance(dataset.shards, ListedShards):
        return dataset  # a manifest tells of all of them
    named: dict[tuple[str, str], list[int]] = {}
    for i, shard in enumerate(dataset.shards):
        of = _dataset_of(shard)
        if of is not None and shard.blocks is None:
            named.setdefault(of, []).append(i)
    found: dict[int, Shard] = {}
    for (_, stem), numbers in named.items():
        known = _shards_beside(dataset, numbers, stem)
        if by_pattern and known:
            _warn_of_others(dataset, numbers, known, stem)
        for i in numbers:
            shard = dataset.shards[i]
            committed = known.get(shard.url)
            if committed is not None and _is_that(shard, committed):
                found[i] = committed.known(version=shard.version)
    return dataset.with_shards(found) if found else dataset


def _warn_of_others(
    dataset: Dataset, files: Sequence[int], known: dict[str, Shard], stem: str
) -> None:
    """Warn if a pattern has found files that an overwrite replaced, or not those that an append
    added, whose names a pattern passes by."""
    found = {dataset.shards[i].url for i in files}
    old = found - known.keys()
    hidden = [url for url in known.keys() - found if split_url(url)[1].startswith("_")]
    if not old and not hidden:
        return
    first = dataset.shards[files[0]].url
    name = f"{first.removesuffix(split_url(first)[1])}{stem}"
    warn(
        f"the pattern finds {len(old)} files that are no part of the dataset {name} any more, and "
        f"passes {len(hidden)} of its files by; pass {name!r} to read what is committed"
    )


def _dataset_of(shard: Shard) -> tuple[str, str] | None:
    """The folder and the name of the dataset that a file may belong to."""
    name = split_url(shard.url)[1]
    match = _SHARD_NAME.fullmatch(name)
    return (shard.address.rpartition(name)[0], match["dataset"]) if match else None


def _shards_beside(dataset: Dataset, files: Sequence[int], stem: str) -> dict[str, Shard]:
    """The shards of the dataset of that name in the folder of these files, by URL. Of a long list,
    only those that are these files."""
    store, path = dataset.open(files[0])
    folder = Folder(store, split_url(path)[0])
    try:
        found = folder.manifest(manifest_name(stem))
        shards = committed_shards(folder, found.manifest) if found and found.manifest else []
        if isinstance(shards, ListedShards):
            shards = shards.named(split_url(dataset.shards[i].url)[1] for i in files)
    except (ManifestError, FileNotFoundError) as error:
        warn(f"read without its manifest: {error}")
        return {}
    return {shard.url: shard for shard in shards}


def _is_that(shard: Shard, committed: Shard) -> bool:
    """Whether a file is what the manifest means, as far as size and compression tell."""
    return shard.nbytes == committed.nbytes and shard.compression in ("auto", committed.compression)


OneSource: TypeAlias = "str | os.PathLike[str] | DatasetPart"
"""What a list of sources may hold."""

Source: TypeAlias = "OneSource | Iterable[OneSource]"

_LOOKUPS_AT_ONCE = 32

_LOOKED_AT_FIRST = 1000
"""Of so many shards at most the versions, which a cache must know, are asked for at once. Those of
more are asked for as they are read."""

_LIMITS = Limits()

_NOTHING = Told()

_FEW = 8
"""So many names at most are looked up as files and as datasets at once."""


def open_dataset(
    source: Source,
    storage: Storage | None,
    *,
    compression: str | None = "auto",
    limits: Limits = _LIMITS,
) -> Dataset:
    """Find a source's shards, their sizes, and their blocks where a manifest tells them.

    Args:
        source: see the module's text.
        storage: how storage is reached. None: what was opened before as it was opened then, and
            names as ``Storage()`` says.
        compression: "auto" (by each file's first bytes, never by its name), None or "" for raw,
            "GZIP", "ZLIB" or "ZSTD".
        limits: for parts of files without an index, which are walked to be cut.

    Raises:
        FileNotFoundError: no such file, or nothing matches a glob.
        IsADirectoryError: a folder without a manifest.
        ManifestError: a manifest or index that cannot be trusted.
        ValueError, TypeError: an argument is not of the kind described.
    """
    codec = compression if compression == "auto" else codec_name(compression)
    if isinstance(source, DatasetPart):
        return source._open(storage, compression, limits)
    names = [source] if is_one(source) else names_of(source)
    storage = storage or common_storage(names) or Storage()
    empty = Dataset((), storage, named=source if is_one(source) else None)
    resolver = _Resolver(codec, empty, limits, few=len(names) <= _FEW)
    found = _resolve_all(resolver, names)
    if len(found) == 1:  # which may be a long list that nobody reads whole
        shards = found[0].shards
    else:
        shards = [shard for one in found for shard in one.shards]
    if not isinstance(shards, LazyShards):
        shards = tuple(shards)
    patterns = any(isinstance(name, str) and set("*?[") & {*name} for name in names)
    dataset = replace(empty, shards=shards, told=_told(found))
    dataset = with_known_blocks(dataset, by_pattern=patterns)
    if storage.cache is not None and len(shards) <= _LOOKED_AT_FIRST:
        hold_versions(dataset)
    return dataset


def open(  # noqa: A001 - read as tfs.open
    source: Source,
    *,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Dataset:
    """Open a source once, for all that takes a source.

    Names are looked up, and manifests are read, here and not again. What is opened pickles, with
    the storage options. Functions that take it read the files that were found here: one that was
    replaced since is an error, as far as its store tells versions. They take no
    ``storage_options=``, unless it is to be reached in another way than it was opened.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`; for raw files without an index that are walked
            to cut a `slice` of them. Default 1 GiB.

    Returns:
        Dataset: It has ``num_records`` and ``nbytes``, ``schema`` and ``metadata`` as its manifest
        tells them (or None), ``storage``, and ``shards``.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ManifestError: A manifest or index cannot be read, or contradicts its dataset.
        ValueError: An argument is not as described.
        TypeError: An argument is of another type.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> train = tfs.open("train")
        >>> train.num_records, tfs.count(train), len(tfs.RecordSource(train))
        (3, 3, 3)
        >>> tfs.read_table(tfs.slice(train, "1:"))["x"]
        array([2, 3])
    """
    found = open_dataset(
        source,
        given_storage(storage_options, storage),
        compression=compression,
        limits=Limits(max_record_bytes=max_record_bytes),
    )
    return replace(found, named=source) if isinstance(source, DatasetPart) else found


def is_one(source: object) -> TypeIs[OneSource]:
    """Whether a source is one name or one part, not a list."""
    return isinstance(source, str | os.PathLike | DatasetPart)


def common_storage(source: Source) -> Storage | None:
    """How a source is reached, if all of it was opened before, and in the same way."""
    names = [source] if is_one(source) else source
    ways = [name._reached() if isinstance(name, DatasetPart) else None for name in names]
    return ways[0] if ways and all(way == ways[0] for way in ways) else None


class _Resolved(NamedTuple):
    """What one name means."""

    shards: Sequence[Shard]
    told: Told = _NOTHING


def _told(found: list[_Resolved]) -> tuple[Told, ...]:
    told = tuple(one.told for one in found)
    return () if all(one is _NOTHING for one in told) else told


def _resolve_all(resolver: _Resolver, names: list[OneSource]) -> list[_Resolved]:
    """In their order. Each is one question to its store: of a remote one many are asked at once,
    while for local files a thread costs more than the answer."""
    remote = [name for name in names if _is_far(name)]
    if len(remote) < 2:
        return [resolver.resolve(name) for name in names]
    with Threads(min(_LOOKUPS_AT_ONCE, len(remote))) as pool:
        found = pool.map(resolver.resolve, remote)
        return [next(found) if _is_far(name) else resolver.resolve(name) for name in names]


def _is_far(name: OneSource) -> bool:
    return not isinstance(name, DatasetPart) and "://" in os.fspath(name)


def names_of(source: object) -> list[OneSource]:
    """A list of sources. TypeError for what holds anything else."""
    if (
        isinstance(source, bytes | bytearray)
        or not isinstance(source, Iterable)
        or hasattr(source, "read")  # an open file gives lines
    ):
        raise TypeError(
            f"source= takes a path or URL, or a list of those, not {type(source).__name__}"
        )
    names = list(source)
    for name in names:
        if not is_one(name):
            raise TypeError(f"source= holds a {type(name).__name__}; it takes paths and URLs")
    return names


def repeatable(source: Source) -> Source:
    """The source, for who goes through it more than once."""
    return source if is_one(source) else names_of(source)


class _Resolver:
    def __init__(
        self, compression: str | None, dataset: Dataset, limits: Limits, *, few: bool
    ) -> None:
        self._compression = compression
        self._limits = limits
        self._storage = dataset.storage
        self._open = dataset.open_url
        self._few = few

    def resolve(self, name: OneSource) -> _Resolved:
        if isinstance(name, DatasetPart):
            return self._of_part(name)
        url = os.fspath(name)
        if not isinstance(url, str):
            raise TypeError(f"source= takes text paths, not {type(url).__name__}")
        store, path = self._open(url)
        if any(c in path for c in "*?["):
            matches = _visible(store.glob(path), path)
            if matches and [info.path for info in matches] != [path]:  # else a URL's query
                return _Resolved([self._shard(store, info) for info in matches])
        look = early(store, store.look, path)
        find = self._begin_to_find(store, path.rstrip("/"))
        info = look()
        if info is None:
            found = self._dataset(store, path, find())
            if found is not None:
                return found
            try:
                info = store.info(path)  # which tells a folder from nothing
            except (FileNotFoundError, IsADirectoryError) as error:
                raise self._explain(error, url) from error
        return _Resolved([self._shard(store, info)])

    def _of_part(self, part: DatasetPart) -> _Resolved:
        dataset = part._open(self._storage, self._compression, self._limits)
        if dataset.storage != self._storage:
            raise ValueError(
                f"{part}: is reached by other storage options than the rest of the list; pass it "
                "alone, or make it with the same ones, or pass storage= for all"
            )
        return _Resolved(dataset.shards, common_told(dataset.told) if dataset.told else _NOTHING)

    def _begin_to_find(self, store: Store, path: str) -> Callable[[], Found]:
        """The search for a manifest: begun early if the name looks like a dataset's. Files of
        records mostly have a suffix, and need no such questions."""
        if self._few and "." not in _name(path):
            return begin_to_find(store, path)
        return partial(find_manifest, store, path)

    def _explain(self, error: OSError, url: str) -> OSError:
        url = redacted(url)
        if any(c in url for c in "*?["):
            return FileNotFoundError(f"{url}: no file matches this pattern")
        if isinstance(error, IsADirectoryError):
            return IsADirectoryError(
                f"{url}: is a folder without a manifest; name its files, for example "
                f"{url.rstrip('/')}/*.tfrecord"
            )
        if error.strerror == os.strerror(errno.ENOENT):
            return FileNotFoundError(
                errno.ENOENT, f"{error.strerror}, and no dataset of this name", error.filename
            )
        return error

    def _shard(self, store: Store, info: ObjectInfo) -> Shard:
        version = Version(info.etag)
        return Shard.at(store, info.path, info.size, compression=self._compression, version=version)

    def _dataset(self, store: Store, path: str, found: Found) -> _Resolved | None:
        """The shards of a prefix, or of a folder, that a manifest describes; None without one."""
        if found is None:
            return self._tfds(store, path.rstrip("/"))
        written = found[1].compression
        if self._compression not in ("auto", written):
            raise ValueError(
                f"compression={self._compression!r}: the manifest of {store.url(path)} says "
                f'{written!r}; leave it at "auto"'
            )
        return _Resolved(committed_shards(*found), Told.by(found[1]))

    def _tfds(self, store: Store, path: str) -> _Resolved | None:
        named = tfds_shards(store, path)
        if named is None:
            return None
        infos = [(store.info(name), records) for name, records in named]
        return _Resolved(
            [replace(self._shard(store, info), records=records) for info, records in infos]
        )


def _visible(found: list[ObjectInfo], pattern: str) -> list[ObjectInfo]:
    """Drop names that begin with "_" or ".", unless the pattern's name does. Indexes, manifests and
    the like hold no records."""
    if not _name(pattern).startswith(("*", "?", "[")):
        return found
    return [info for info in found if not _name(info.path).startswith(("_", "."))]


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
