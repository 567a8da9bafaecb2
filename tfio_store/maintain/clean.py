"""`clean`: remove what writers left behind that died, lost, or could not tidy up."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tfio_store.dataset.folder import Folder, Root, check_no_datasets, locate
from tfio_store.dataset.manifest import DatasetManifest, Fingerprint, listing_of
from tfio_store.dataset.names import DatasetNames
from tfio_store.dataset.not_found import nothing_named
from tfio_store.errors import ManifestError
from tfio_store.records.texts import warn
from tfio_store.storage import PendingUpload, Storage
from tfio_store.storage.aside import facts_of, original
from tfio_store.storage.storage import given_storage
from tfio_store.storage.store import LOOKS_AT_ONCE, names_in
from tfio_store.storage.threads import mapped
from tfio_store.write.claim import Claim, HeldClaim, read_claim
from tfio_store.write.commit import decide
from tfio_store.write.publish import overtake, publish
from tfio_store.write.stored_objects import (
    WrongContentError,
    check_shards,
    held,
    manifest_and_names,
    named_by_neighbours,
    patterns,
    tag_in,
)

_DAY = 86400.0

_DELETED_BETWEEN = 1000
"""Objects that are deleted between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The objects and uploads that `clean` found, as URLs.

    Attributes:
        objects (tuple[str]): Shards, indexes and claims that no manifest names.
        uploads (tuple[str]): Objects whose upload was begun and never ended (a multipart upload, a
            temporary file).
        alive (tuple[str]): Claims of writers that may be at work. Their objects were left alone.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> tfs.clean("train", dry_run=True)
        Leftovers(objects=(), uploads=(), alive=())
    """

    objects: tuple[str, ...]
    uploads: tuple[str, ...]
    alive: tuple[str, ...]


def clean(
    url: str | os.PathLike[str],
    *,
    older_than: float = _DAY,
    dry_run: bool = False,
    keep_replaced: bool = True,
    on_progress: Callable[[int, int], object] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> Leftovers:
    """Remove leftovers of a dataset's dead writers.

    A writer keeps a claim, and renews it every few minutes while it writes. If you clean up behind
    a writer that is alive after all, its commit fails, or is finished if it was decided. The
    dataset that is there is never harmed. A writer that died while it put its manifest had written
    everything that the manifest names. `clean` finishes that commit, if no other writer has
    committed since. It also finishes what a writer has left undone until patterns such as
    ``train-*`` find the new shards, and no others.

    It removes only these:

    - objects whose names hold a writer's random tag;
    - shards with plain names, if a writer has noted their size and CRC32C, and they still have
      these;
    - replaced generations whose ``keep_replaced`` seconds are over;
    - claims of dead writers;
    - uploads and temporary files under the very name of ``url``, which a killed writer of one file
      left (a `TFRecordWriter`, an exported table: ``clean("out.csv")``);
    - with ``older_than=0``, uploads (not files) under any name that a shard of this dataset could
      have.

    It never removes objects that a manifest in the folder names, nor files of other programs, even
    if they have names like shards. If a manifest of another dataset in the folder, or its list of
    shards, is damaged or missing, its objects are unknown. Then `clean` warns, and removes only
    uploads.

    Without leftovers it removes nothing, even if no dataset of this name was written yet.

    Args:
        url (str | PathLike): Folder and name of the dataset, as for `ShardedWriter`; or a file that
            was being written.
        older_than (float): Seconds. A writer that gave a sign of life since then is taken to be
            alive, and keeps everything. Pass 0 when you know that no writer is at work. Default
            86400 (a day).
        dry_run (bool): Only list, and remove nothing. Default False.
        keep_replaced (bool): Keep replaced generations for as long as their writers asked. Default
            True. False removes all of them: then no reader may use them.
        on_progress (Callable | None): Called, after every thousand objects, with the number of
            those that are removed, and of all that will be. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        Leftovers: What was removed, and which writers may be alive.

    Raises:
        IsADirectoryError: Nothing is there of a dataset of this name, and there is a folder of this
            name with datasets in it. The error names them; clean each by its own name.
        ManifestError: The dataset's manifest or its list of shards is damaged or missing, so its
            objects are unknown.
        UncertainCommitError: `clean` tried to finish a commit, and the store does not say whether
            it is there.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> tfs.clean("train")
        Leftovers(objects=(), uploads=(), alive=())
    """
    folder, names = locate(url, None, "", given_storage(storage_options, storage))
    dead_before = time.time() - older_than if older_than > 0 else float("inf")
    # The order matters: uploads, names, manifest, claims. A writer puts its claim before anything
    # else. So the claim of every upload seen here is seen too, and if that writer commits
    # meanwhile, its manifest is seen.
    uploads = _uploads(folder)
    found = _Found(folder, names, folder.names(), dead_before)
    found.read_manifest()  # ManifestError, before anything is touched
    found.read_claims()
    if not dry_run:
        found.settle()
    found.look(keep_replaced=keep_replaced, settled=not dry_run)
    doomed, claims = found.doomed(), found.dead_claims()
    pending = found.doomed_uploads(uploads)
    if not dry_run:
        awaited = found.awaited(doomed)
        _delete(folder, _without(doomed, awaited), on_progress)
        folder.store.abort_uploads(pending)
        found.publish(keep_replaced=keep_replaced)
        if awaited:
            named = found.named_after(awaited, keep_replaced=keep_replaced)
            folder.delete(sorted(awaited - named))
            doomed = _without(doomed, named)
        found.release()  # last: without them the next `clean` would not know
    if not (found.is_there or doomed or claims or pending or found.alive):
        check_no_datasets(folder.store, folder.join(names.name))
    return Leftovers(
        objects=tuple(map(folder.url, [*doomed, *claims])),
        uploads=tuple(folder.store.url(upload.path) for upload in pending),
        alive=tuple(map(folder.url, sorted(set(found.alive.values())))),
    )


def check_there(url: str | os.PathLike[str], storage: Storage | None) -> None:
    """FileNotFoundError if nothing has this name: no dataset, no file and no folder.

    For people, who mistype names. Programs clean what they may not have written yet.
    """
    folder, names = locate(url, None, "", storage)
    store, path = folder.store, folder.join(names.name)
    there = (store.look(folder.join(names.manifest)) or store.look(path)) is not None
    if not there and not names_in(store, path):
        raise nothing_named(store, path)


def _without(doomed: Mapping[str, str | None], names: set[str]) -> dict[str, str | None]:
    return {name: etag for name, etag in doomed.items() if name not in names}


def _delete(
    folder: Folder,
    doomed: Mapping[str, str | None],
    on_progress: Callable[[int, int], object] | None,
) -> None:
    """Delete objects by name. With an etag, only that version. Many at once."""
    names, done = list(doomed), 0
    while done < len(names):
        some = names[done : done + _DELETED_BETWEEN]
        folder.delete(name for name in some if not doomed[name])
        versions = [name for name in some if doomed[name]]
        list(
            mapped(lambda name: folder.delete_version(name, doomed[name]), versions, LOOKS_AT_ONCE)
        )
        done += len(some)
        if on_progress is not None:
            on_progress(done, len(names))


def _uploads(folder: Folder) -> list[PendingUpload]:
    return [
        upload
        for upload in folder.store.pending_uploads(folder.path, deep=False)
        if upload.path.rpartition("/")[0] == folder.path.rstrip("/")
    ]


@dataclass(slots=True)
class _Dead:
    """A dead writer: its claim, and this process's hold on it."""

    name: str
    claim: Claim
    hold: HeldClaim
    landed: bool = False

    def planned(self, folder: Folder) -> DatasetManifest | None:
        """The manifest that it was about to put."""
        if self.claim.proposal is None:
            return None
        root = Root(folder, self.claim.names.manifest)
        with contextlib.suppress(ManifestError):
            planned = DatasetManifest.from_bytes(
                self.claim.proposal.manifest, path=self.name, folder=root
            )
            return planned if planned.generation == self.claim.generation else None
        return None


def _names_of(planned: DatasetManifest) -> set[str]:
    """Objects that a manifest names and that were not put, as far as its list of shards is
    there."""
    try:
        return planned.names()
    except (FileNotFoundError, ManifestError):
        return planned.parts()


@dataclass(slots=True)
class _Found:
    folder: Folder
    names: DatasetNames
    present: list[str]
    dead_before: float
    dead: list[_Dead] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    alive: dict[str, str] = field(default_factory=dict)
    """Tags ("" for the plain names) of writers that may be at work, and their claims."""
    is_there: bool = False
    """Whether the dataset has a manifest."""
    named: set[str] = field(default_factory=set)
    """Objects that the dataset's manifest names."""
    stays: set[str] = field(default_factory=set)
    """Objects that manifests name."""
    is_known: bool = True
    """Whether that is all. If not, no object is removed, and no claim that names objects."""
    unpublished: str | None = None
    """The generation of a manifest whose shards patterns do not find yet."""
    template: str | None = None
    noted: list[Fingerprint] = field(default_factory=list)
    """Objects that writers noted as theirs and no manifest needs."""
    known: list[DatasetNames] = field(default_factory=list)

    def read_manifest(self) -> DatasetManifest | None:
        found = manifest_and_names(self.folder, self.names.manifest)
        self.is_there = found is not None
        current, self.named = (None, set()) if found is None else found
        self.stays = self.named | (set() if current is None else current.replaced_names())
        self.template = current.shard_template if current is not None else None
        return current

    def read_claims(self) -> None:
        """Which writers are dead, and which may be alive."""
        listed = {self.names.claim(tag or None): tag for tag in self._tags(self._is_claim)}
        # The listing of a folder may have passed a claim's place just before the claim came.
        unlisted = {self.names.claim(tag): tag for tag in self._tags(self._is_unnamed) if tag}
        for name, tag in sorted({**unlisted, **listed}.items()):
            self._read_claim(name, tag, was_there=name in listed)

    def _tags(self, wanted: Callable[[str], bool]) -> set[str]:
        known = patterns(self.names, [self.template])
        tags = (tag_in(name, known) for name in self.present if wanted(name))
        return {tag for tag in tags if tag is not None}

    def _is_unnamed(self, name: str) -> bool:
        return name not in self.stays

    def _read_claim(self, name: str, tag: str, *, was_there: bool) -> None:
        data = self.folder.read(name)
        if data is None:
            if was_there:
                self.alive[tag] = name  # its writer has just ended, and tidies up itself
            return
        claim = read_claim(data[0], self.names.name, plain=tag == "")
        if claim is None or (tag and claim.generation != tag):
            self.unreadable.append(name)
        elif claim.alive > self.dead_before:
            self.alive |= {tag: name, claim.generation: name}
        else:
            hold = HeldClaim(self.folder, claim.names, claim.generation, plain=tag == "")
            self.dead.append(_Dead(name, claim, hold))

    def settle(self) -> None:
        """End what dead writers have begun: commit what was decided, and give up the rest."""
        for one in self.dead:
            if not self._is_settled(one):
                tag = "" if one.claim.plain else one.claim.generation
                self.alive |= {tag: one.name, one.claim.generation: one.name}
        self.dead = [one for one in self.dead if one.claim.generation not in self.alive]

    def _is_settled(self, one: _Dead) -> bool:
        """False if another process is doing it."""
        one.landed = self._has_landed(one.claim)
        if one.landed:
            return True
        if not self._can_land(one):
            given_up = one.hold.give_up(of=one.claim.proposal)
            # Before that, and after its claim was read, the writer may have noted more.
            one.claim = one.hold.last_seen() or one.claim
            return given_up
        assert one.claim.proposal is not None
        if not one.hold.take_over(one.claim.proposal):
            return False
        decide(self.folder, self.names, one.claim.proposal, one.claim.generation)
        one.landed = self._has_landed(one.claim)
        return one.landed  # if not, another was first; the next `clean` sees that

    def _has_landed(self, claim: Claim) -> bool:
        found = self.folder.manifest(self.names.manifest, index=False)
        return found is not None and found.holds(claim.generation)

    def _can_land(self, one: _Dead) -> bool:
        """Whether its proposed manifest can still be put, and everything that it names is there."""
        planned, proposal = one.planned(self.folder), one.claim.proposal
        if planned is None or proposal is None:
            return False
        found = self.folder.manifest(self.names.manifest, index=False)
        if (found and found.etag) != proposal.base:
            return False
        try:
            shards = tuple(one.shard for one in listing_of(planned).rows())
            check_shards(self.folder, shards, among=len(self.present))
        except (FileNotFoundError, WrongContentError, ManifestError):
            return False
        return all(self.folder.store.look(self.folder.join(name)) for name in planned.parts())

    def look(self, *, keep_replaced: bool, settled: bool) -> None:
        """Find what is still needed, and what is not."""
        self.noted += self.read_needed(keep_replaced=keep_replaced)
        set_aside = ((name, facts_of(name)) for name in self.present)
        self.noted += (Fingerprint(name, *facts) for name, facts in set_aside if facts is not None)
        try:
            self.stays |= named_by_neighbours(self.folder, self.names)
        except ManifestError as error:
            warn(str(error))
            self.is_known = False
        templates = [one.claim.names.template for one in self.dead]
        self.known = patterns(self.names, [*templates, self.template])
        for one in self.dead:
            if one.landed:
                doomed = () if one.claim.proposal is None else one.claim.proposal.doomed
                self.noted += (*doomed, *one.claim.landing)
            elif not settled and (planned := one.planned(self.folder)) is not None:
                self.stays |= _names_of(planned)
            else:
                self.noted += one.claim.landing

    def read_needed(self, *, keep_replaced: bool) -> tuple[Fingerprint, ...]:
        """What the manifest that is there names and keeps. Returns what it keeps no longer."""
        current = self.read_manifest()
        if current is None:
            return ()
        lasting, gone = current.without_expired(time.time() if keep_replaced else float("inf"))
        self.stays = self.named | lasting.replaced_names()
        self.unpublished = None if current.publish is None else current.generation
        return gone

    def doomed(self) -> dict[str, str | None]:
        """The objects to delete. With an etag, only that version is deleted."""
        if not self.is_known:
            return {}
        found: dict[str, str | None] = {
            name: None
            for name in self.present
            if name not in self.stays and not self._is_claim(name) and self._is_left(name)
        }
        # not only listed names: a shard may have appeared before its writer was given up
        noted = [
            one
            for one in self.noted
            if one.name not in self.stays and one.name not in found and self.names.may_own(one.name)
        ]
        plain = self.names.index(None)
        if plain in found:
            del found[plain]
            found |= self._doomed_plain(plain)
        looks = mapped(partial(held, self.folder), noted, LOOKS_AT_ONCE)
        for one, info in zip(noted, looks, strict=True):
            if info is not None:
                found[one.name] = info.etag
        return found

    def _doomed_plain(self, name: str) -> dict[str, str | None]:
        """The version of an object with a plain name that a dead writer left. As soon as its claim
        is gone, the name may be the next one's. So it is looked at before the claim."""
        info = self.folder.store.look(self.folder.join(name))
        stored = self.folder.read(self.names.claim(None))
        claim = None if stored is None else read_claim(stored[0], self.names.name, plain=True)
        dead = {one.claim.generation for one in self.dead if one.claim.plain}
        is_dead = claim.generation in dead if claim is not None else stored is None and not dead
        return {name: info.etag} if info is not None and is_dead else {}

    def _is_left(self, name: str) -> bool:
        """Whether the name alone proves that a writer of this dataset left it, which is not at
        work."""
        tag = tag_in(name, self.known)
        if tag is None or tag in self.alive:
            return False
        return tag != "" or name == self.names.index(None)

    def awaited(self, doomed: Iterable[str]) -> set[str]:
        """Objects that somebody who publishes at this moment may be about to name: new indexes."""
        return set() if self.unpublished is None else set(filter(self.names.is_index, doomed))

    def named_after(self, awaited: set[str], *, keep_replaced: bool) -> set[str]:
        """Those that are named by now, or may be yet. Nobody can name one as soon as the manifest
        is another than the one that was there when they were listed."""
        if not overtake(self.folder, self.names):
            return awaited
        self.read_needed(keep_replaced=keep_replaced)
        return awaited & self.stays

    def publish(self, *, keep_replaced: bool) -> None:
        """Finish what a dead writer has begun, or what waited until files of others were gone."""
        known = self.is_known and self.unpublished is not None
        if known and self.unpublished not in self.alive:
            publish(self.folder, self.names, keep=keep_replaced)

    def dead_claims(self) -> list[str]:
        return [*(one.name for one in self.dead), *self.unreadable] if self.is_known else []

    def release(self) -> None:
        if not self.is_known:
            return
        for one in self.dead:
            one.hold.release()
        self.folder.delete(self.unreadable)

    def doomed_uploads(self, uploads: Iterable[PendingUpload]) -> list[PendingUpload]:
        return [one for one in uploads if self._is_left_upload(one)]

    def _is_left_upload(self, upload: PendingUpload) -> bool:
        name = upload.path.rpartition("/")[2]
        tag = tag_in(name, self.known)
        alone = self.dead_before == float("inf")
        old = upload.begun is None or upload.begun <= self.dead_before
        if name == self.names.name:  # of a file, such as a table that was exported
            return old
        if name == self.names.manifest:  # it may be a writer's commit
            return old and not self.alive
        if name in self.stays:
            return old
        if facts_of(name) is not None:  # a shard was being set aside, by whoever published
            return old and not self.alive and tag_in(original(name), self.known) is not None
        if tag is None or tag in self.alive:
            return False
        if tag == "" and not self._is_claim(name):
            # A plain name may be somebody else's. And if the answer to the request that began an
            # upload was lost, its writer never knew of the upload.
            return alone or any(one.claim.plain for one in self.dead)
        return old or any(one.claim.generation == tag for one in self.dead)

    def _is_claim(self, name: str) -> bool:
        return name.startswith(self.names.claim(None))
