"""A dataset's folder in its store: small objects by name, and its manifest."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.manifest import DatasetManifest, listing_of
from tfio_store.dataset.names import (
    MANIFEST_SUFFIX,
    DatasetNames,
    begun,
    committed,
    index_name,
    manifest_name,
    split_url,
)
from tfio_store.dataset.pages import WHOLE_BYTES
from tfio_store.dataset.shard_page import IndexObject, PageRef
from tfio_store.dataset.source_names import grouped, numbered, numbered_target
from tfio_store.errors import ManifestError
from tfio_store.storage import ObjectInfo, Storage, Store
from tfio_store.storage.storage import for_writing
from tfio_store.storage.store import early, names_in

Found: TypeAlias = "tuple[Folder, DatasetManifest] | None"
"""A dataset's folder and manifest; None where there is none."""

Stored: TypeAlias = "tuple[bytes, str | None] | None"
"""A small object and its etag; None where there is none."""

SMALL_BYTES = 256 << 20
"""The manifest of a million shards takes half of it. What has more is not what its name says, and
would fill the memory."""

_READS = 64
"""How often a manifest is read again if its index has gone."""


@dataclass(frozen=True, slots=True)
class FoundManifest:
    """A manifest as it was found."""

    manifest: DatasetManifest | None
    """None when it can't be read."""
    etag: str | None
    data: bytes

    @property
    def identity(self) -> str | None:
        """What tells it from the manifests of other commits, and stays when it is published. None
        if the store tells no version of one that can't be read."""
        return self.etag if self.manifest is None else self.manifest.generation

    def holds(self, generation: str) -> bool:
        """Whether the writer of this generation has committed this manifest or an earlier one."""
        found = self.manifest
        return found is not None and generation in (found.generation, *found.history)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a store. Picklable, as stores are."""

    store: Store
    path: str

    def join(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}" if self.path else name

    def url(self, name: str) -> str:
        return self.store.url(self.join(name))

    def names(self, pattern: str = "*") -> list[str]:
        """The names of the objects right in this folder."""
        return [info.path.rpartition("/")[2] for info in self.files(pattern)]

    def files(self, pattern: str = "*") -> list[ObjectInfo]:
        """The objects right in this folder, sorted by name."""
        inside = f"{glob.escape(self.path.rstrip('/'))}/{pattern}" if self.path else pattern
        return self.store.glob(inside)

    def put(self, name: str, data: bytes, *, if_absent: bool = False) -> None:
        self.store.put(self.join(name), data, if_absent=if_absent)

    def read(self, name: str, *, most: int = SMALL_BYTES) -> Stored:
        """The object, if there is one. ManifestError if it has more than ``most`` bytes, which are
        not read."""
        try:
            data, info = self.store.get(self.join(name), most=most)
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            raise ManifestError(
                f"{self.url(name)}: {error.strerror}: it is damaged, or not what its name says; "
                "delete it, or write it again"
            ) from error
        return data, info.etag

    def _guess(self, name: str) -> Stored:
        """The index of the usual name, before the manifest says whether it is this. None if it is
        too large to be one that is read whole."""
        try:
            return self.read(index_name(name), most=WHOLE_BYTES)
        except ManifestError:
            return None

    def delete(self, names: Iterable[str]) -> None:
        self.store.delete([self.join(name) for name in names])

    def delete_version(self, name: str, etag: str | None) -> None:
        """Delete the object if it still has this etag."""
        self.store.delete_version(self.join(name), etag)

    def manifest(
        self, name: str, *, index: bool = True, damaged: bool = False
    ) -> FoundManifest | None:
        """The manifest of that name. A small index is read too, unless ``index`` is False.

        A commit may replace the manifest, and delete its index, while this reads the one and then
        the other: then the manifest is read again.

        Raises:
            ManifestError: it can't be read, and ``damaged`` is False; or its index can't.
            FileNotFoundError: the index that it names is missing.
        """
        guess = early(self.store, self._guess, name) if index else None
        return self._manifest(name, damaged, partial(self.read, name), guess)

    def begin_manifest(
        self, name: str, *, index: bool = True
    ) -> Callable[[], FoundManifest | None]:
        """`manifest`, asked early."""
        stored = early(self.store, self.read, name)
        guess = early(self.store, self._guess, name) if index else None
        return partial(self._manifest, name, False, stored, guess)

    def _manifest(
        self,
        name: str,
        damaged: bool,
        stored: Callable[[], Stored],
        guess: Callable[[], Stored] | None,
    ) -> FoundManifest | None:
        """``stored``: the answer to the first question for the manifest. ``guess``: to that for the
        index of the usual name, which may be of another generation. None: no index is wanted."""
        earlier: FoundManifest | None = None
        missing: str | None = ""
        for _ in range(_READS):
            found = self._parsed(name, damaged, stored())
            if found is None or found.manifest is None or guess is None:
                return found
            missing = self._missing(found.manifest, {} if earlier else {index_name(name): guess})
            if missing is None:
                return found
            if earlier is not None and earlier.data == found.data:
                break
            earlier, stored = found, partial(self.read, name)
        words = "the manifest names this index, and it is missing"
        raise FileNotFoundError(errno.ENOENT, words, self.url(missing or ""))

    def _missing(
        self, manifest: DatasetManifest, guessed: dict[str, Callable[[], Stored]]
    ) -> str | None:
        """Read the index of a manifest, if it is small. Returns the name of an object of it that is
        missing. What was ``guessed`` may have been read before the commit: then it is read now."""
        pages = listing_of(manifest)
        wanted = list(pages.objects if pages.small else ())
        for index in list(wanted):
            guess = guessed[index.name]() if index.name in guessed else None
            if guess is not None and pages.hold(index, guess[0]) is None:
                wanted.remove(index)
        reads = [early(self.store, self._index, index) for index in wanted]
        for index, read in zip(wanted, reads, strict=True):
            stored = read()
            if stored is None:
                return index.name
            wrong = pages.hold(index, stored[0])
            if wrong is not None:
                raise wrong
        return None

    def _index(self, index: IndexObject) -> Stored:
        return self.read(index.name, most=index.nbytes)

    def _parsed(self, name: str, damaged: bool, stored: Stored) -> FoundManifest | None:
        if stored is None:
            return None
        data, etag = stored
        try:
            manifest = DatasetManifest.from_bytes(
                data, path=self.url(name), folder=Root(self, name)
            )
            return FoundManifest(manifest, etag, data)
        except ManifestError:
            if not damaged:
                raise
            return FoundManifest(None, etag, data)


@dataclass(frozen=True, slots=True)
class Root:
    """A dataset's folder and its manifest's name there: where an index is read. Picklable."""

    folder: Folder
    name: str

    def begin_range(self, name: str, start: int, stop: int) -> Future[BytesLike]:
        """Begin to read bytes ``start:stop`` of an object that is never written again."""
        return self.folder.store.read(self.folder.join(name), start, stop)

    def url(self, name: str) -> str:
        return self.folder.url(name)

    def pages_now(self) -> tuple[PageRef, ...]:
        """The pages that the manifest names by now. None if it is gone or damaged."""
        found = self.folder.manifest(self.name, index=False, damaged=True)
        manifest = None if found is None else found.manifest
        return () if manifest is None else listing_of(manifest).refs


def locate(
    url: str | os.PathLike[str],
    num_shards: int | None,
    template: str,
    storage: Storage | None,
) -> tuple[Folder, DatasetNames]:
    """A dataset's folder, and the names in it. ``url`` may say how many shards there are, as
    ``name@16`` does."""
    if not isinstance(url, (str, os.PathLike)):
        raise TypeError(f"url must be a path or URL, not {type(url).__name__}")
    url, num_shards, template = numbered_target(url, num_shards, template)
    names = DatasetNames(split_url(os.fspath(url))[1], num_shards, template)
    store, path = for_writing(storage).open(url)
    return Folder(store, split_url(path)[0]), names


def read_manifest(source: object, storage: Storage | None) -> DatasetManifest | None:
    """The manifest, without its index, of a dataset's prefix or folder; None for any other source.

    ManifestError where it cannot be trusted.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    store, path = (storage or Storage()).open(source)
    if any(c in path for c in "*?[") and store.glob(path):
        return None  # a pattern, and not a folder with such a name
    found = begin_to_find(store, path, index=False)()
    shards = None if found else numbered(os.fspath(source))
    if shards is not None:
        return read_manifest(shards.prefix, storage)
    return found[1] if found else None


def begin_to_find(store: Store, path: str, *, index: bool = True) -> Callable[[], Found]:
    """What finds a dataset that is named by its prefix, or by a folder that holds just one. The
    manifest has its block tables, unless ``index`` is False.

    Questions are asked early. The folder is listed only where no manifest has that name: a listing
    costs as much as a dozen other requests. A "/" at the end says that a folder is meant.
    """
    whole = path.rstrip("/")
    parent, stem = split_url(whole)
    named, within = Folder(store, parent), Folder(store, whole)
    manifest = named.begin_manifest(manifest_name(stem), index=index) if stem else None
    listing: Callable[[], list[str]] = partial(within.names, f"_*{MANIFEST_SUFFIX}")
    if path != whole:
        listing = early(store, listing)

    def found() -> Found:
        prefix = None if manifest is None else manifest()
        if prefix is not None and prefix.manifest is not None:
            return named, prefix.manifest
        return _only_one(within, sorted(listing()), index)

    return found


def _only_one(folder: Folder, names: list[str], index: bool) -> Found:
    """The dataset of a folder, if one of these manifests is all there is."""
    if len(names) > 1:
        raise ValueError(
            f"{folder.url('').rstrip('/')}: holds several datasets; name one of "
            + ", ".join(map(folder.url, committed(names)))
        )
    found = folder.manifest(names[0], index=index) if names else None
    return (folder, found.manifest) if found and found.manifest else None


# The datasets in a folder, when a dataset is named as the folder is.
#
# Readers take the name of a folder for the one dataset in it. A dataset of that name beside the
# folder would hide the one inside from them.


_MANY = 1000
"""Of a folder with so many names, `names_in` may leave some out."""

_SHOWN = 10


def look_inside(store: Store, path: str) -> list[str]:
    """The names in the folder of this path, which may not be there. Mostly one request. All
    manifests are among them. Where nothing may be listed, there is nothing."""
    names = names_in(store, path, "_")
    if len(names) >= _MANY and not committed(names):
        names += Folder(store, path).names(f"_*{MANIFEST_SUFFIX}")
    return names


def check_hides_nothing(store: Store, path: str, inside: list[str]) -> None:
    """IsADirectoryError if whoever reads ``path`` gets what is ``inside`` the folder of this name,
    and would get the new dataset of this name in its place.

    A folder with several datasets stands for none of them.
    """
    datasets = committed(inside)
    if len(datasets) == 1:
        raise _holding(store, path, datasets)
    if datasets or begun(inside):
        return
    groups, others = grouped(name for name in inside if not name.endswith("/"))
    if len(groups) == 1 and not others and not groups[0].missing:
        raise IsADirectoryError(
            errno.EISDIR,
            f"is a folder with the files {groups[0].said}, and whoever reads the name gets these; "
            "write the dataset under another name",
            store.url(path),
        )


def check_no_datasets(store: Store, path: str) -> None:
    """IsADirectoryError if there are datasets in the folder of this path, unfinished ones too."""
    inside = look_inside(store, path)
    datasets = sorted({*committed(inside), *begun(inside)})
    if datasets:
        raise _holding(store, path, datasets)


def _holding(store: Store, path: str, datasets: list[str]) -> OSError:
    url = store.url(path).rstrip("/")
    words = f"is a folder with the dataset {datasets[0]!r}; name {url}/{datasets[0]}"
    if len(datasets) > 1:
        listed = ", ".join(f"{url}/{name}" for name in datasets[:_SHOWN])
        words = f"is a folder with several datasets; name one of {listed}"
        words += ", …" if len(datasets) > _SHOWN else ""
    return IsADirectoryError(errno.EISDIR, words, url)
