"""`Resolver`: what each name of a source stands for, in the stores.

`tfio_store.dataset.source_names` has the grammar. A file, or else a dataset, that has a name as it
stands is what the name means; only if there is none, the name is taken apart.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, islice
from typing import NamedTuple, TypeAlias

from tfio_store.dataset.folder import Folder, begin_to_find
from tfio_store.dataset.listed_shards import committed_shards
from tfio_store.dataset.manifest import DatasetManifest, listing_of
from tfio_store.dataset.model import DatasetPart, Limits, Shard, Told, common_told
from tfio_store.dataset.names import DatasetNames, begun, manifest_name, split_url
from tfio_store.dataset.not_found import (
    NotFound,
    ambiguous,
    missing_shards,
    no_dataset_in,
    no_match,
    nothing_named,
    shown,
    unfinished,
    without_shards,
)
from tfio_store.dataset.shards import Shards
from tfio_store.dataset.source_names import (
    Names,
    Numbered,
    Pattern,
    Stage,
    grouped,
    is_about_data,
    renumbered,
    shard_number,
    step,
)
from tfio_store.dataset.tfds import tfds_shards
from tfio_store.errors import ManifestError
from tfio_store.records.texts import warn
from tfio_store.storage import ObjectInfo, Storage, Store, Version
from tfio_store.storage.store import LOOKS_AT_ONCE, early, listed
from tfio_store.storage.threads import mapped

OneSource: TypeAlias = "str | os.PathLike[str] | DatasetPart"
"""The types that a list of sources may hold."""


_LOOKED_FOR = 1000
"""So many shards at most are looked for one by one, in a store that does not list cheaply."""

_TRIED = 100_000
"""So many shards at most that are not there are compared with one pattern."""

_LONGEST = 4096
"""No store has an object with a longer name."""

_NO_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTDIR)
"""Where nothing can have such a name."""

_FAR = 8
"""A store that is fastest with so many requests at a time is far away."""

_FEW = 8
"""So many names at most are looked up as files and as datasets at once."""

NOTHING = Told()
"""The facts about files without a manifest."""


class Resolved(NamedTuple):
    """The meaning of one name."""

    shards: Shards
    told: Told = NOTHING


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A name that was not looked for yet, and how far it was taken apart."""

    name: OneSource
    stage: Stage = Stage.WHOLE

    @property
    def is_far(self) -> bool:
        return not isinstance(self.name, DatasetPart) and "://" in os.fspath(self.name)


_Taken: TypeAlias = "list[Resolved | _Wanted]"


class Resolver:
    """Finds what names mean."""

    def __init__(self, compression: str | None, storage: Storage, limits: Limits) -> None:
        self._compression = compression
        self._limits = limits
        self._storage = storage
        self._open = storage.open
        self._few = True
        self.by_pattern = False
        """Whether some files were found by a pattern, which no manifest bounds."""

    def resolve(self, names: Sequence[OneSource]) -> list[Resolved]:
        """In their order.

        Each name is one question to its store: of a remote one many are asked at once, while for
        local files a thread costs more than the answer.
        """
        work: _Taken = [_Wanted(name) for name in names]
        try:
            while any(isinstance(each, _Wanted) for each in work):
                self._few = len(work) <= _FEW
                far = [isinstance(each, _Wanted) and each.is_far for each in work]
                taken = mapped(self._take, compress(work, far), LOOKS_AT_ONCE)
                work = [
                    found
                    for each, is_far in zip(work, far, strict=True)
                    for found in (next(taken) if is_far else self._take(each))
                ]
        except NotFound as missing:
            error = missing.error
        else:
            return [each for each in work if isinstance(each, Resolved)]
        raise error()

    def _take(self, wanted: Resolved | _Wanted) -> _Taken:
        if isinstance(wanted, Resolved):
            return [wanted]
        if isinstance(wanted.name, DatasetPart):
            return [self._of_part(wanted.name)]
        url = os.fspath(wanted.name)
        if not isinstance(url, str):
            raise TypeError(f"source= takes text paths, not {type(url).__name__}")
        try:
            meaning = step(url, wanted.stage)
        except ValueError as error:
            found = self._literal(url)
            if found is not None:
                return [found]
            raise ValueError(f"{shown(url)}: {error}") from None
        if meaning is None:
            return [self._plain(url)]
        if isinstance(meaning, Pattern):
            return [self._matched(url, meaning)]
        found = self._literal(url)
        if found is not None:
            return [found]
        if isinstance(meaning, Names):
            return [_Wanted(name, meaning.stage) for name in meaning.names]
        return [self._numbered(url, meaning)]

    def _of_part(self, part: DatasetPart) -> Resolved:
        dataset = part._open(self._storage, self._compression, self._limits)
        if dataset.storage != self._storage:
            raise ValueError(
                f"{part}: is reached by other storage options than the rest of the list; pass it "
                "alone, or make it with the same ones, or pass storage= for all"
            )
        return Resolved(dataset.shards, common_told(dataset.told) if dataset.told else NOTHING)

    # --- a name as it stands ----------------------------------------------------------------------

    def _plain(self, url: str) -> Resolved:
        """The files of this name. NotFound if there is none."""
        store, path = self._open(url)
        found = self._exactly(store, path)
        if found is not None:
            return found
        try:
            info = store.info(path)  # which distinguishes a folder from nothing
        except IsADirectoryError:
            return self._in_folder(store, path)
        except FileNotFoundError as error:
            if error.strerror != os.strerror(errno.ENOENT):
                raise  # the store says more
            raise NotFound(partial(self._nothing, store, path)) from None
        return Resolved(Shards([self._shard(store, info)]))

    def _nothing(self, store: Store, path: str) -> OSError:
        parent, name = split_url(path)
        claimed = self._is_claimed(Folder(store, parent), name)
        return (unfinished if claimed else nothing_named)(store, path)

    def _literal(self, url: str) -> Resolved | None:
        """The files of this very name, though it could mean something else; None if there is
        none."""
        if len(url) > _LONGEST:
            return None
        try:
            store, path = self._open(url)
            return self._exactly(store, path)
        except (PermissionError, ImportError):
            return None  # also what a store says of a missing object that may not be listed
        except ManifestError:
            raise
        except ValueError:
            return None  # no URL, and no name that anything has
        except OSError as error:
            if error.errno in _NO_NAME:
                return None
            raise

    def _exactly(self, store: Store, path: str) -> Resolved | None:
        """The file of this path, or else the dataset."""
        look = early(store, store.look, path)
        name = path.rstrip("/")
        # files of records mostly have a suffix, and need no questions for a manifest
        begun = begin_to_find(store, path) if self._few and "." not in _name(name) else None
        info = look()
        if info is not None:
            return Resolved(Shards([self._shard(store, info)]))
        found = (begun or begin_to_find(store, path))()
        if found is None:
            return self._tfds(store, name)
        return self._known(store, path, found)

    def _known(self, store: Store, path: str, found: tuple[Folder, DatasetManifest]) -> Resolved:
        """The shards of a dataset, or of a folder, that a manifest describes."""
        folder, manifest = found
        if self._compression not in ("auto", manifest.compression):
            raise ValueError(
                f"compression={self._compression!r}: the manifest of {store.url(path)} says "
                f'{manifest.compression!r}; leave it at "auto"'
            )
        told = Told(
            manifest.schema,
            manifest.metadata,
            manifest.generation,
            manifest.lost,
            manifest.growth,
            (manifest.records, manifest.values),
        )
        return Resolved(committed_shards(folder, manifest), told)

    def _tfds(self, store: Store, path: str) -> Resolved | None:
        named = tfds_shards(store, path)
        if named is None:
            return None
        paths = [name for name, _ in named]
        known = listed(store, paths, among=len(paths)) if len(paths) > 1 else {}
        missing = [name for name in paths if name not in known]
        known |= zip(missing, mapped(store.info, missing, _lookups(store)), strict=True)
        return Resolved(
            Shards(
                replace(self._shard(store, known[name]), records=records) for name, records in named
            )
        )

    def _in_folder(self, store: Store, path: str) -> Resolved:
        """The files of a folder without a manifest, if they are one dataset by their names."""
        folder = Folder(store, path.rstrip("/"))
        infos = {_name(info.path): info for info in folder.files()}
        unended = begun(infos)
        if unended:
            raise NotFound(partial(unfinished, store, folder.join(unended[0])))
        groups, others = grouped(infos)
        if len(groups) != 1 or others:
            raise NotFound(partial(no_dataset_in, store, folder.path, groups, others))
        shards = groups[0].shards
        if shards is not None and groups[0].missing:
            stem = folder.join(shards.prefix)
            there = [found[1] for name in groups[0].files if (found := shard_number(name))]
            raise NotFound(partial(missing_shards, store, stem, shards, there))
        self.by_pattern = True
        return Resolved(Shards(self._shard(store, infos[name]) for name in groups[0].files))

    def _shard(self, store: Store, info: ObjectInfo) -> Shard:
        version = Version(info.etag)
        return Shard.at(store, info.path, info.size, compression=self._compression, version=version)

    # --- patterns ---------------------------------------------------------------------------------

    def _matched(self, url: str, pattern: Pattern) -> Resolved:
        store, path = self._open(pattern.text)
        matches = _visible(store.glob(path), path)
        if not matches or "[" in path:  # which never matches itself
            found = self._literal(url)
            if found is not None:
                return found
        if not matches:
            raise NotFound(partial(no_match, store, path, url))
        itself = [info for info in matches if info.path == path]
        self._check_count(url, pattern, store, matches)
        self.by_pattern = self.by_pattern or not itself
        return Resolved(Shards(self._shard(store, info) for info in itself or matches))

    def _check_count(
        self, url: str, pattern: Pattern, store: Store, matches: list[ObjectInfo]
    ) -> None:
        """Whether each dataset is whole that the pattern finds, but for shards that the pattern
        would not find either."""
        groups: dict[tuple[str, int, str], tuple[str, set[int]]] = {}
        for info in matches:
            shard = shard_number(info.path)
            if shard is not None:
                stem, number, count, suffix = shard
                groups.setdefault((stem, count, suffix), (info.path, set()))[1].add(number)
        tries = _TRIED
        for (_, count, _), (path, there) in groups.items():
            if len(there) == count or tries <= 0:
                continue
            missing, tried = _missing(pattern.text, path, count, there, tries)
            tries -= tried
            if not missing:
                continue
            # if it finds all that were tried, it finds the others too
            absent = count - len(there) if len(missing) == tried else len(missing)
            first = renumbered(path, missing[0])
            error = partial(without_shards, store, first, count, absent, missing)
            if pattern.text != url:  # name@16
                raise NotFound(error)
            told = error()
            warn(f"{shown(url)}: {told.strerror} ({told.filename})")

    # --- shards by their numbers ------------------------------------------------------------------

    def _numbered(self, url: str, shards: Numbered) -> Resolved:
        """The shards of ``name@16``: those of the manifest if it has so many, or the files."""
        store, path = self._open(f"{shards.prefix}-")
        stem = path.removesuffix("-")
        parent, name = split_url(stem)
        folder = Folder(store, parent)
        stored = early(store, self._manifest_of, folder, name)
        claimed = early(store, self._is_claimed, folder, name)
        files = early(store, self._files, store, stem, shards)
        found = stored()
        if found is not None and self._has(found, name, shards):
            return self._known(store, stem, (folder, found))
        there, whole = self._chosen(url, store, stem, shards, files())
        if len(there) < (whole.count or 0):
            raise NotFound(partial(missing_shards, store, stem, whole, there))
        if found is None and claimed():
            raise NotFound(partial(unfinished, store, stem))
        self.by_pattern = True
        return Resolved(Shards(self._shard(store, there[number]) for number in sorted(there)))

    @staticmethod
    def _chosen(
        url: str, store: Store, stem: str, shards: Numbered, files: list[ObjectInfo]
    ) -> tuple[dict[int, ObjectInfo], Numbered]:
        """Those of the files that are meant, by their numbers, and which ones there should be."""
        groups: dict[tuple[int, str], dict[int, ObjectInfo]] = {}
        for info in files:
            shard = shard_number(info.path)
            if shard is not None and shard[0] == stem and not is_about_data(info.path):
                groups.setdefault((shard[2], shard[3]), {})[shard[1]] = info
        if shards.count is not None:
            groups = {key: found for key, found in groups.items() if key[0] == shards.count}
        exact = [key for key in groups if key[1] == shards.suffix]
        wanted = exact or ([] if shards.suffix else list(groups))
        if len(wanted) > 1:
            raise ambiguous(url, (shards.said(*key) for key in sorted(wanted)))
        if not wanted:
            raise NotFound(partial(nothing_named, store, replace(shards, prefix=stem).said()))
        count, suffix = wanted[0]
        return groups[count, suffix], Numbered(shards.prefix, count, suffix)

    @staticmethod
    def _manifest_of(folder: Folder, name: str) -> DatasetManifest | None:
        try:
            found = folder.manifest(manifest_name(name))
        except PermissionError:  # what a store says of a missing object that may not be listed
            return None
        return None if found is None else found.manifest

    @staticmethod
    def _is_claimed(folder: Folder, name: str) -> bool:
        try:
            return folder.read(DatasetNames(name).claim(None)) is not None
        except (PermissionError, ValueError):
            return False

    @staticmethod
    def _has(manifest: DatasetManifest, name: str, shards: Numbered) -> bool:
        """Whether a dataset has so many shards, and such ones."""
        listed = listing_of(manifest)
        if shards.count not in (None, len(listed)):
            return False
        if not (shards.suffix and len(listed)):
            return True
        first = listed.listed(0).shard.name
        plain = DatasetNames(name).shard_of(first) if first.startswith("_") else first
        return plain.endswith(shards.suffix)

    def _files(self, store: Store, stem: str, shards: Numbered) -> list[ObjectInfo]:
        """The files that may be these shards. Most stores list them by one request."""
        few = shards.count is not None and shards.count <= _LOOKED_FOR
        if few and not store.lists_cheaply:
            there = self._looked_at(store, stem, shards)
            if there:
                return there
        try:
            return store.glob(f"{glob.escape(stem)}-*-of-*{glob.escape(shards.suffix)}")
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError:  # of a store that gives objects, and no listings
            if not few:
                raise
            return self._looked_at(store, stem, shards)

    @staticmethod
    def _looked_at(store: Store, stem: str, shards: Numbered) -> list[ObjectInfo]:
        at, count = replace(shards, prefix=stem), shards.count or 0
        paths = [at.file(number) for number in range(count)]
        looked = mapped(store.look, paths, _lookups(store))
        return [info for info in looked if info is not None]


def _lookups(store: Store) -> int:
    """How many objects of a store are looked up at once."""
    return LOOKS_AT_ONCE if store.in_flight >= _FAR else 1


def _missing(
    pattern: str, path: str, count: int, there: set[int], most: int
) -> tuple[list[int], int]:
    """The shards that are not there beside this one, though the pattern would find them; and how
    many were tried."""
    from tfio_store.storage.cloud.bucket_store import matcher

    name = _name(path)
    finds = matcher(_name(pattern)).match  # the folder is the same
    if finds(name) is None:
        return [], 0
    tried = list(islice((n for n in range(count) if n not in there), most))
    return [n for n in tried if finds(renumbered(name, n))], len(tried)


def _visible(found: list[ObjectInfo], pattern: str) -> list[ObjectInfo]:
    """Drop names that begin with "_" or ".", unless the pattern's name does. Indexes, manifests and
    the like hold no records."""
    if not _name(pattern).startswith(("*", "?", "[")):
        return found
    return [info for info in found if not _name(info.path).startswith(("_", "."))]


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
