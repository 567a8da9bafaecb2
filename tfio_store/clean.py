"""`clean`: remove what writers left that died, or lost, or could not tidy up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfio_store.claim import Claim, read_claim
from tfio_store.errors import ManifestError
from tfio_store.folder import Folder, locate
from tfio_store.manifest import DatasetManifest
from tfio_store.sharding import MANIFEST_SUFFIX, DatasetNames
from tfio_store.storage import PendingUpload, Retry

__all__ = ["Leftovers", "clean"]

_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What `clean` found, as URLs."""

    objects: tuple[str, ...]
    """Shards, indexes and claims that no manifest names."""
    uploads: tuple[str, ...]
    """Objects whose upload was begun and never ended (a multipart upload, a temporary file)."""
    alive: tuple[str, ...]
    """Claims of writers that may be at work; what is theirs was left alone."""


def clean(
    url: str,
    *,
    older_than: float = _DAY,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    backend: str = "fsspec",
    retry: Retry | None = None,
) -> Leftovers:
    """Remove what dead writers of a dataset left; with ``dry_run`` only tell.

    A writer leaves a claim while it works. One that began less than ``older_than`` seconds ago is
    taken to be alive, and nothing of it is touched: raise this above your longest job, or lower
    it to 0 when you know that nobody is writing. Cleaning up behind a writer that does live makes
    its commit fail; the dataset that is there is never harmed.

    Only these are removed: names with a writer's random tag in them, names that a dead writer's
    claim lists, and these claims; never what any manifest in the folder names, nor files of
    others, even if they are named as shards are. With ``older_than=0`` that extends to uploads
    (not files) under any name that a shard of this dataset could have.

    Raises:
        ManifestError: the dataset's manifest can't be read, so nobody knows what it names.
    """
    folder, names = locate(url, None, "", storage_options, backend, retry)
    found = _look(folder, names, time.time() - older_than)
    doomed, claims, uploads = (
        found.doomed(),
        found.dead_claims(),
        found.doomed_uploads(alone=older_than <= 0),
    )
    if not dry_run:
        folder.delete(doomed)
        folder.store.abort_uploads(uploads)
        folder.delete(claims)  # last: without them the next `clean` would not know
    return Leftovers(
        objects=tuple(map(folder.url, [*doomed, *claims])),
        uploads=tuple(folder.store.url(upload.path) for upload in uploads),
        alive=tuple(map(folder.url, sorted(found.alive.values()))),
    )


@dataclass(slots=True)
class _Found:
    names: DatasetNames
    present: list[str]
    uploads: list[PendingUpload]
    named: set[str]
    dead: list[Claim] = field(default_factory=list)
    alive: dict[str, str] = field(default_factory=dict)
    """Tags ("" for the plain names) of writers that may be at work, and their claims."""

    def doomed(self) -> list[str]:
        owned = self._owned(self.present)
        return [name for name in owned if name not in self.named and not self._is_claim(name)]

    def dead_claims(self) -> list[str]:
        return [name for name in self._owned(self.present) if self._is_claim(name)]

    def doomed_uploads(self, *, alone: bool) -> list[PendingUpload]:
        by_name = {upload.path.rpartition("/")[2]: upload for upload in self.uploads}
        owned = set(self._owned(by_name)) | (self.named & by_name.keys())
        if not self.alive:  # else it may be that one's commit
            owned.add(self.names.manifest)
        if alone:
            # A request to begin an upload whose answer was lost: its writer never knew of it.
            owned |= {name for name in by_name if self._tag(name) == ""}
        return [up for up in self.uploads if up.path.rpartition("/")[2] in owned]

    def _is_claim(self, name: str) -> bool:
        return name.startswith(self.names.claim(None))

    def _owned(self, names: Iterable[str]) -> list[str]:
        """Those that dead writers of this dataset wrote, or were to delete."""
        return [name for name in names if self._owner_is_dead(name)]

    def _owner_is_dead(self, name: str) -> bool:
        tag = self._tag(name)
        if tag is None or tag in self.alive:
            return False
        return tag != "" or self._plain_name_is_left(name)

    def _tag(self, name: str) -> str | None:
        patterns = [self.names, DatasetNames(self.names.name, 1)]
        tags = {known.tag_of(name) for known in [*patterns, *(claim.names for claim in self.dead)]}
        return next((tag for tag in tags if tag is not None), None)

    def _plain_name_is_left(self, name: str) -> bool:
        """A plain name alone proves nothing: TensorFlow names its files so too."""
        if name in (self.names.claim(None), self.names.index(None)):
            return True
        return any(name in claim.replaces or claim.could_name(name) for claim in self.dead)


def _look(folder: Folder, names: DatasetNames, dead_before: float) -> _Found:
    """In this order, a writer that commits meanwhile is seen alive, or its manifest is seen."""
    found = _Found(names, folder.names(), [], set())
    found.uploads = [
        upload
        for upload in folder.store.pending_uploads(folder.path)
        if upload.path.rpartition("/")[0] == folder.path.rstrip("/")
    ]
    _read_claims(folder, found, dead_before)
    _read_manifests(folder, found)
    return found


def _read_claims(folder: Folder, found: _Found, dead_before: float) -> None:
    for name in found.present:
        tag = found.names.tag_of(name) if found._is_claim(name) else None
        if tag is None:
            continue
        data = folder.read(name)
        claim = None if data is None else read_claim(data[0], found.names.name, plain=tag == "")
        if data is None or (claim is not None and claim.started > dead_before):
            found.alive[tag] = name  # one that is gone since has ended its work just now
        elif claim is not None:
            found.dead.append(claim)


def _read_manifests(folder: Folder, found: _Found) -> None:
    """What the manifests in the folder name: the dataset's own, and its neighbours'."""
    for name in {found.names.manifest, *found.present}:
        if not (name.startswith("_") and name.endswith(MANIFEST_SUFFIX)):
            continue
        try:
            data = folder.read(name)
            manifest = DatasetManifest.from_bytes(data[0], path=folder.url(name)) if data else None
        except ManifestError:
            if name == found.names.manifest:
                raise
            continue
        if manifest is not None:
            found.named.update(shard.name for shard in manifest.shards)
            found.named.update([manifest.index] if manifest.index is not None else [])
