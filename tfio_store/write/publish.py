"""Publishing: from then on patterns such as ``train-*`` find a manifest's shards, and no others.

Shards of all generations but the first are written under hidden names, and the manifest that
commits them names these. What is left to do stands in that manifest (`Publish`), so anybody can do
it, and twice changes nothing: the writer behind its commit, the next writer, a second copy of a
job, `clean`.

1.  *Old shards leave.* Each gets a hidden name, under which whoever has opened it finds it
    (`aside`) until ``keep_replaced`` is over. First go the hidden names of shards that others may
    be publishing at this moment: a late copy then finds nothing to copy.
2.  *New shards come.* The store copies each to a name that patterns find, with the tag of its
    generation in it. No other object ever gets that name.
3.  *The manifest names the new names*, by one conditional put in the place of the very manifest
    that was read. If another one is there by now, it all begins again with that. Then the hidden
    names are deleted; who has opened them finds the new ones in the manifest.

Between 1 and 3 a pattern finds a part of the old shards, nothing, or a part of the new ones, and
never both. Files that others have put there, and shards that another manifest in the folder names,
stay. Then 2 waits until they are gone, because a pattern would find both.
"""

from __future__ import annotations

import contextlib
import errno
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tfio_store.dataset.manifest import (
    DatasetManifest,
    Fingerprint,
    Publish,
    Replaced,
    listing_of,
)
from tfio_store.dataset.names import DatasetNames, committed, hidden_tag, new_tag
from tfio_store.records.texts import warn
from tfio_store.storage.aside import ASIDE, aside, original
from tfio_store.storage.store import LOOKS_AT_ONCE
from tfio_store.storage.threads import mapped
from tfio_store.write.claim import swap
from tfio_store.write.parts import Place, renamed
from tfio_store.write.stored_objects import (
    check_stored,
    dispose,
    held,
    named_by_neighbours,
    patterns,
)

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder, FoundManifest
    from tfio_store.dataset.manifest import ShardInfo
    from tfio_store.storage import ObjectInfo


_TRIES = 64
_LISTED = 5
"""A warning lists so many names."""


def publish(
    folder: Folder,
    names: DatasetNames,
    found: FoundManifest | None = None,
    *,
    keep: bool = True,
) -> DatasetManifest | None:
    """Do what is left to do for the manifest that is there. Returns the manifest that it has put,
    or None if nothing was left to do, or it has to wait. ``found``: the manifest, if it was just
    read. ``keep``: whether what is replaced stays for as long as its writer asked.

    Raises:
        ManifestError: another manifest in the folder can't be read.
        OSError: the store failed. What is done stays, and anybody may go on.
    """
    before: bytes | None = None
    for _ in range(_TRIES):
        found = found or folder.manifest(names.manifest, index=False)
        if found is None or found.manifest is None or found.manifest.publish is None:
            return None
        try:
            how = found.manifest.publish, time.time() if keep else math.inf
            return _Publication(folder, names, found, found.manifest, *how).run()
        except _OvertakenError:
            before = None
        except FileNotFoundError:  # somebody else was faster, or a shard is missing
            if before == found.data:
                raise
            before = found.data
        found = None
    raise OSError(errno.EBUSY, "other writers replace the manifest all the time", folder.url(""))


class _OvertakenError(Exception):
    """Another manifest is there by now, or another file where a shard was to come."""


def overtake(folder: Folder, names: DatasetNames) -> bool:
    """Put a manifest that is to be published again, so that whoever is about to replace it with one
    that is published begins again, with a new index. Returns whether nobody was faster."""
    found = folder.manifest(names.manifest, index=False)
    if found is None or found.manifest is None or found.manifest.publish is None:
        return True
    todo = found.manifest.publish
    again = replace(found.manifest, publish=replace(todo, turn=todo.turn + 1))
    done, _ = swap(folder, names.manifest, again.to_bytes(), found.etag)
    return done


def published_names(manifest: DatasetManifest, names: DatasetNames) -> dict[str, str]:
    """The hidden names of a manifest's shards, and those that they get."""
    if manifest.publish is None:
        return {}
    listing = listing_of(manifest)
    by_tag: dict[str, list[str]] = {}
    for number in range(manifest.publish.first, len(manifest.shards)):
        name = listing.listed(number).shard.name
        tag = hidden_tag(name)
        if tag is not None:
            by_tag.setdefault(tag, []).append(name)
    found: dict[str, str] = {}
    for tag, hidden in by_tag.items():
        own = names.like(manifest.shard_template, len(hidden))
        own = own if tag == manifest.publish.plain else own.tagged_plain(tag)
        found |= {name: own.shard(number, None) for number, name in enumerate(hidden)}
    return found


def set_aside(
    gone: Iterable[Fingerprint], old: DatasetManifest, names: DatasetNames
) -> tuple[Fingerprint, ...]:
    """The objects of ``old`` that go, with the names that they get where patterns find them, or
    where somebody may be publishing them at this moment."""
    coming = published_names(old, names)
    found: list[Fingerprint] = []
    for one in gone:
        stays = one.name.startswith("_") and one.name not in coming
        if stays or one.nbytes is None or one.crc32c is None:
            found.append(one)
            continue
        had = [one.name, *([coming[one.name]] if one.name in coming else [])]
        found += [replace(one, name=aside(name, one.nbytes, one.crc32c)) for name in had]
    return tuple(found)


class _Publication:
    """The three steps, for one manifest."""

    def __init__(
        self,
        folder: Folder,
        names: DatasetNames,
        found: FoundManifest,
        manifest: DatasetManifest,
        todo: Publish,
        now: float,
    ) -> None:
        self.folder, self.names, self.found = folder, names, found
        self.manifest, self.todo = manifest, todo
        self.now = now  # what is kept no longer than that goes
        self.coming = published_names(manifest, names)

    def run(self) -> DatasetManifest | None:
        present: dict[str, ObjectInfo] = {}
        if not self.todo.first:
            present = self._left()
            if self._waits(present):
                return None
        self._come(present)
        whole, doomed = self._put()
        if present and not self._has_neighbours(present):
            self.folder.delete(self.coming)
        else:
            doomed = (*map(Fingerprint, self.coming), *doomed)
        dispose(self.folder, self.names, doomed, whole)
        return whole

    def _has_neighbours(self, present: Iterable[str]) -> bool:
        """Whether other manifests are in the folder, which may name any object in it."""
        return len(committed(present)) > 1

    def _left(self) -> dict[str, ObjectInfo]:
        """Let old shards leave. Returns what is in the folder then."""
        leaving = {
            original(one.name): (one, entry.until > self.now)
            for entry in self.manifest.replaced
            for one in entry.objects
            if one.name.endswith(ASIDE)
        }
        present = self._files()
        if leaving.keys().isdisjoint(present):
            return present
        if self._has_neighbours(present):
            stays = named_by_neighbours(self.folder, self.names)
            leaving = {name: leaving[name] for name in leaving if name not in stays}
        if self._leave(present, {n: leaving[n] for n in leaving if n.startswith("_")}):
            present = self._files()  # none comes any more
        self._leave(present, {n: leaving[n] for n in leaving if not n.startswith("_")})
        return present

    def _files(self) -> dict[str, ObjectInfo]:
        return {info.path.rpartition("/")[2]: info for info in self.folder.files()}

    def _leave(
        self, present: dict[str, ObjectInfo], leaving: dict[str, tuple[Fingerprint, bool]]
    ) -> bool:
        """Let these leave, and forget them. Returns whether one has left."""
        some = [name for name in leaving if name in present]
        left = mapped(lambda n: self._set_aside(present[n], n, *leaving[n]), some, LOOKS_AT_ONCE)
        gone = [name for name, has_left in zip(some, left, strict=True) if has_left]
        for name in gone:
            del present[name]
        return bool(gone)

    def _set_aside(self, info: ObjectInfo, name: str, one: Fingerprint, kept: bool) -> bool:
        """Whether the object has left its name. If not, it is another program's."""
        folder, store = self.folder, self.folder.store
        if info.size != one.nbytes or info.crc32c not in (None, one.crc32c):
            return False
        if not kept or getattr(store, "copies_through", False):
            if held(folder, replace(one, name=name)) is None:
                return False
        else:  # where it is kept its bytes are compared before they are deleted
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                store.copy(folder.join(name), folder.join(one.name))
        if name.startswith("_"):
            folder.delete([name])
        else:
            folder.delete_version(name, info.etag)
        return True

    def _waits(self, present: dict[str, ObjectInfo]) -> bool:
        """Whether patterns would find files beside the new shards."""
        known = patterns(self.names, [self.manifest.shard_template])
        named = {one.shard.name for one in listing_of(self.manifest).rows()}
        wanted = {self.coming[shard.name]: shard for shard in self._hidden()}

        def is_another(name: str) -> bool:
            if name in wanted:
                return not self._is_copy(name, wanted[name])
            return name not in named and any(each.is_plain_shard(name) for each in known)

        others = sorted(filter(is_another, present))
        if not others:
            return False
        listed = ", ".join(others[:_LISTED]) + (", …" if len(others) > _LISTED else "")
        warn(
            f"{self.folder.url(self.names.name)}: files that are no part of this dataset have "
            f"names as its shards have ({listed}), so the new shards keep hidden names, and only "
            "readers that pass the dataset's name find them; remove these files (tfio_store.clean, "
            "if a writer that died left them), and run tfio_store.clean"
        )
        return True

    def _is_copy(self, name: str, shard: ShardInfo) -> bool:
        """Whether the object of this name, which is there, is the shard's copy. Without a tag in
        it, the name may be another program's."""
        if hidden_tag(shard.name) != self.todo.plain:
            return True
        return held(self.folder, Fingerprint(name, shard.nbytes, shard.crc32c)) is not None

    def _come(self, present: dict[str, ObjectInfo]) -> None:
        missing = [one for one in self._hidden() if self.coming[one.name] not in present]
        list(mapped(self._copy, missing, LOOKS_AT_ONCE))

    def _hidden(self) -> list[ShardInfo]:
        numbers = range(self.todo.first, len(self.manifest.shards))
        shards = (listing_of(self.manifest).listed(number).shard for number in numbers)
        return [shard for shard in shards if shard.name in self.coming]

    def _copy(self, shard: ShardInfo) -> None:
        folder, target = self.folder, self.coming[shard.name]
        try:
            info = folder.store.copy(folder.join(shard.name), folder.join(target))
        except FileExistsError:  # an attempt whose answer was lost, or somebody else's
            if not self._is_copy(target, shard):
                raise _OvertakenError from None
            info = folder.store.info(folder.join(target))
        check_stored(info, folder.url(target), nbytes=shard.nbytes, crc=shard.crc32c)

    def _put(self) -> tuple[DatasetManifest, tuple[Fingerprint, ...]]:
        """Step 3. Returns the manifest, and what nobody keeps any more."""
        # the tag is no writer's: a copy of one may be about to delete all that has its tag
        place = Place(self.folder, self.names, new_tag())
        whole = renamed(place, self.manifest, self.coming, self.todo.first)
        parts = tuple(map(Fingerprint, sorted(self.manifest.parts() - whole.parts())))
        now = time.time()
        # who has opened it has read all of a small index
        until = now if listing_of(self.manifest).small else now + self.todo.keep
        replaced = (*whole.replaced, *([Replaced(until, parts)] if parts else ()))
        whole, doomed = replace(whole, publish=None, replaced=replaced).without_expired(
            max(now, self.now)
        )
        done, _ = swap(self.folder, self.names.manifest, whole.to_bytes(), self.found.etag)
        if not done:
            self.folder.delete(whole.parts() - self.manifest.parts())
            raise _OvertakenError
        return whole, doomed


def check_free(folder: Folder, names: DatasetNames) -> None:
    """FileExistsError if other files have the plain names of a dataset that is to be the first
    here, which tasks had better know before they begin."""
    present = set(folder.names())
    wanted = {names.shard(shard, None) for shard in range(names.num_shards or 0)}
    taken = sorted(wanted & present)
    if taken and names.manifest not in present:
        listed = ", ".join(taken[:_LISTED]) + (", …" if len(taken) > _LISTED else "")
        raise FileExistsError(
            errno.EEXIST,
            f"{len(taken)} of the plain names are taken by other objects ({listed}); remove or "
            "rename these (tfio_store.clean, if a writer that died left them), write with another "
            "shard_template, or leave names at its default",
            folder.url(taken[0]),
        )
