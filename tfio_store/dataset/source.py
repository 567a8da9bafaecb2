"""`open_dataset`: turns what a user names into a `Dataset`.

A source is a URL or path of one file, a dataset's prefix or folder, a split of a folder that TFDS
wrote, a name as `tfio_store.dataset.source_names` has them, a `DatasetPart`, or a list of any of
these. If a file has that name, the file is meant. Otherwise the name is looked up as a dataset, and
then taken apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import Any, TypeAlias

from typing_extensions import TypeIs

from tfio_store.dataset.folder import Folder
from tfio_store.dataset.inflate.index import with_checkpoints
from tfio_store.dataset.listed_shards import ListedShards
from tfio_store.dataset.manifest import listing_of
from tfio_store.dataset.model import (
    Dataset,
    DatasetPart,
    Limits,
    Shard,
    Shards,
    Told,
    hold_versions,
)
from tfio_store.dataset.names import manifest_name, split_url
from tfio_store.dataset.pages import Pages
from tfio_store.dataset.resolver import NOTHING, OneSource, Resolved, Resolver
from tfio_store.errors import CorruptRecordError, ManifestError, SchemaError, TFIOStoreError
from tfio_store.records.compression import codec_name
from tfio_store.records.damage import placed
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.texts import warn
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage, with_index_dir

__all__ = [
    "OneSource",
    "Source",
    "common_storage",
    "files_of",
    "is_one",
    "is_whole",
    "names_of",
    "not_there",
    "of_source",
    "open",
    "open_dataset",
    "reached",
    "repeatable",
]


# The shards in a committed manifest, also of those that were named as files beside it.


_SHARD_NAME = re.compile(r"(?P<dataset>.+?)(?P<tag>-[0-9a-f]{12})?-\d{5,}(?:-of-\d{5,})?\.tfrecord")


def with_known_blocks(dataset: Dataset, *, by_pattern: bool = False) -> Dataset:
    """The dataset with the blocks of shards that were named as files, where a manifest beside them
    knows.

    ``train-00000-of-00016.tfrecord`` belongs to a dataset ``train``, if there is one: that is one
    question for each dataset, and its answer makes compressed shards seekable and countable. A
    manifest that is not to be trusted is passed by with a warning, since the user did not name it.
    So is one that names other shards than those that were found ``by_pattern``.
    """
    named: dict[tuple[str, str], list[int]] = {}
    tags: dict[str, set[str]] = {}
    for i in dataset.shards.without_blocks():
        shard = dataset.shards[i]
        name = split_url(shard.url)[1]
        match = _SHARD_NAME.fullmatch(name)
        if match is not None:  # by the folder and the name of the dataset that it may belong to
            place = shard.address.rpartition(name)[0], match["dataset"]
            named.setdefault(place, []).append(i)
            tags.setdefault(match["dataset"], set()).add(match["tag"] or "")
    found: dict[int, Shard] = {}
    for (_, stem), numbers in named.items():
        known = _shards_beside(dataset, numbers, stem, others=by_pattern)
        for tag in sorted(tags[stem] - {""} if not known else ())[:1]:
            stem += tag  # what looks like a tag is a part of the name
            known = _shards_beside(dataset, numbers, stem, others=by_pattern)
        if by_pattern and known:
            _warn_of_others(dataset, numbers, known, stem)
        for i in numbers:
            shard = dataset.shards[i]
            committed = known.get(shard.url)
            if committed is None or shard.nbytes != committed.nbytes:
                continue  # it is not the file that the manifest means
            if shard.compression in ("auto", committed.compression):
                found[i] = committed.known(version=shard.version)
    return dataset.with_shards(found)


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


def _shards_beside(
    dataset: Dataset, files: Sequence[int], stem: str, *, others: bool
) -> dict[str, Shard]:
    """The shards of the dataset of that name in the folder of these files, by URL: those that are
    these files. The ``others`` too, unless the list is long."""
    store, path = dataset.open(files[0])
    folder = Folder(store, split_url(path)[0])
    try:
        found = folder.manifest(manifest_name(stem))
        if found is None or found.manifest is None:
            return {}
        shards = ListedShards.of(folder, found.manifest)
        names = (split_url(dataset.shards[i].url)[1] for i in files)
        everything = others and not shards.long
        some = range(len(shards)) if everything else shards.pages.numbers_of(names)
        known = list(shards.some(some))
    except (ManifestError, FileNotFoundError) as error:
        warn(f"read without its manifest: {error}")
        return {}
    return {shard.url: shard for shard in known}


def is_whole(path: str) -> bool:
    """Whether a local shard is as long as the manifest beside it says, if one says anything."""
    folder, name = os.path.split(path)
    match = _SHARD_NAME.fullmatch(name)
    if match is None:
        return True
    try:
        now = os.stat(os.path.join(folder, manifest_name(match["dataset"])))
    except OSError:
        return True
    known = _committed(folder or ".", match["dataset"], now.st_mtime_ns, now.st_size)
    if known is None:
        return True
    sizes = [known.listed(number).shard.nbytes for number in known.numbers_of([name])]
    return not sizes or os.stat(path).st_size == sizes[0]


@lru_cache(maxsize=8)
def _committed(folder: str, name: str, *version: int) -> Pages | None:
    """The list of a local dataset's shards. ``version``: which manifest it is that was found."""
    del version
    try:
        found = Folder(*Storage().open(folder)).manifest(manifest_name(name))
    except (ManifestError, OSError):
        return None
    return None if found is None or found.manifest is None else listing_of(found.manifest)


Source: TypeAlias = "OneSource | Iterable[OneSource]"

_LOOKED_AT_FIRST = 1000
"""The versions of so many shards at most, which a cache must know, are asked for at once. Those of
more are asked for as they are read."""

_LIMITS = Limits()


def open_dataset(
    source: Source,
    storage: Storage | None,
    *,
    compression: str | None = "auto",
    limits: Limits = _LIMITS,
) -> Dataset:
    """Find a source's shards, their sizes, and their blocks where a manifest has them.

    Args:
        source: see the module's text.
        storage: how storage is reached. None: what was opened before as it was opened then, and
            names as ``Storage()`` says.
        compression: "auto" (by each file's first bytes, never by its name), None or "" for raw,
            "GZIP", "ZLIB" or "ZSTD".
        limits: for parts of files without an index, which are walked to be cut.

    Raises:
        FileNotFoundError: no such file, nothing matches a pattern, or a shard is missing.
        IsADirectoryError: a folder without a manifest, whose files are not one dataset by name.
        ManifestError: a manifest or index that cannot be trusted.
        ValueError, TypeError: an argument is not of the kind described.
    """
    codec = compression if compression == "auto" else codec_name(compression)
    if isinstance(source, DatasetPart):
        return source._open(storage, compression, limits)
    names = [source] if is_one(source) else names_of(source)
    storage = storage or common_storage(names) or Storage()
    resolver = Resolver(codec, storage, limits)
    found = resolver.resolve(names)
    if len(found) == 1:  # which may be a long list that is never read whole
        shards = found[0].shards
    else:
        shards = Shards(shard for one in found for shard in one.shards)
    dataset = Dataset(shards, storage, _told(found), source if is_one(source) else None)
    if not dataset.has_blocks:
        dataset = with_checkpoints(with_known_blocks(dataset, by_pattern=resolver.by_pattern))
    if storage.cache is not None and len(shards) <= _LOOKED_AT_FIRST:
        hold_versions(dataset)
    return dataset


def files_of(source: Source, storage: Storage | None) -> list[str]:
    """The URLs that open the files of a source, in order. They may hold secrets. Nobody looks into
    the files. Raises as `open_dataset`."""
    names = [source] if is_one(source) else names_of(source)
    storage = storage or common_storage(names) or Storage()
    found = Resolver("auto", storage, _LIMITS).resolve(names)
    return [shard.address for one in found for shard in one.shards]


def not_there(name: str, storage: Storage, error: OSError) -> OSError:
    """The error where a name was taken for that of a file, and ``error`` came of it."""
    try:
        open_dataset(name, storage)
    except OSError as found:
        return found
    except (TFIOStoreError, ValueError):
        return error
    words = "is no file; the name of a dataset, or of several files, must be known before the graph"
    return type(error)(error.errno, f"{words} runs", error.filename)


def open(  # noqa: A001 - read as tfs.open
    source: Source,
    *,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    index_dir: str | os.PathLike[str] | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Dataset:
    """Open a source once, for all that takes a source.

    Names are looked up, and manifests are read, here and not again. The result pickles, with the
    storage options. Functions that take it read the files that were found here: a file that was
    replaced since is an error, if its store has versions. Pass ``storage_options=`` to them only
    to reach the files in another way.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        index_dir (str | PathLike | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`; for raw files without an index that are walked
            to cut a `slice` of them. Default 1 GiB.

    Returns:
        Dataset: It has ``num_records`` and ``nbytes``, ``schema`` and ``metadata`` as its manifest
        has them (or None), ``storage``, and ``shards``.

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
        reached(source, storage_options, storage, index_dir),
        compression=compression,
        limits=Limits(max_record_bytes=max_record_bytes),
    )
    return replace(found, named=source) if isinstance(source, DatasetPart) else found


def reached(
    source: Source,
    storage_options: Mapping[str, Any] | None,
    storage: Storage | None,
    index_dir: str | os.PathLike[str] | None,
) -> Storage | None:
    """How a source is reached by who passed these. As it was opened, if it was and nothing else is
    said."""
    given = given_storage(storage_options, storage)
    if index_dir is None:
        return given
    if given is None and (is_one(source) or isinstance(source, Sequence)):
        given = common_storage(source)
    return with_index_dir(given, index_dir)


def is_one(source: object) -> TypeIs[OneSource]:
    """Whether a source is one name or one part, not a list."""
    return isinstance(source, str | os.PathLike | DatasetPart)


def common_storage(source: Source) -> Storage | None:
    """How a source is reached, if all of it was opened before, and in the same way."""
    names = [source] if is_one(source) else source
    ways = [name._reached() if isinstance(name, DatasetPart) else None for name in names]
    return ways[0] if ways and all(way == ways[0] for way in ways) else None


def _told(found: list[Resolved]) -> tuple[Told, ...]:
    told = tuple(one.told for one in found)
    return () if all(one is NOTHING for one in told) else told


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


# The name of a source in errors that are raised where records alone are known.


class _OfSource:
    """No generator: who closes one when Python ends may find the names that it catches gone."""

    def __init__(self, source: object, first: int) -> None:
        self._source = source
        self._first = first

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception):
            return
        named = is_one(self._source)
        path = redacted(str(self._source)) if named else ""
        if isinstance(error, CorruptRecordError) and error.path == "<buffer>" and named:
            record = None if error.record is None else self._first + error.record
            raise placed(error, path, record) from error.__cause__
        if isinstance(error, SchemaError):
            raise placed(error, path, self._first + error.record) from error.__cause__


def of_source(source: object, first: int = 0) -> AbstractContextManager[None]:
    """Errors name the source, if it is one name, and count its records; ``first`` is the number of
    the first record of the batch at hand."""
    return _OfSource(source, first)
