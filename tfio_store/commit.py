"""The commit protocol: how a dataset comes to be there whole, or not at all.

1.  *Claim.* A writer begins by putting a small claim object. The first writer of a dataset puts
    ``_train.claim``, if no such object is there, and having it, it looks: if there is no
    manifest and no file with a plain shard name, then the plain names are its own. Every other
    writer (an overwrite, an append, one that comes second, one that finds what a dead writer
    left) draws a tag, puts ``_train.claim.TAG``, and has the tag in all its names. So no
    two writers ever write the same object, and none writes an object that a manifest names.
2.  *Shards and index.* They become visible one by one; nobody looks for them yet.
3.  *Manifest.* One conditional put: the first manifest if there is none, another only in the
    place of the very one that was found in step 1. It decides, at once, what the dataset is.
4.  *Cleaning up.* What the manifest replaced is deleted, and last the claim.

A writer that dies before 3 has changed nothing for readers of the manifest; one that dies
after it has finished but for the cleaning. Either leaves its claim, by which `clean` knows
what to remove.
"""

from __future__ import annotations

import contextlib
import errno
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from tfio_store.claim import Claim, claim_names
from tfio_store.errors import ManifestError
from tfio_store.manifest import DatasetManifest
from tfio_store.sharding import DatasetNames, new_tag

if TYPE_CHECKING:
    from tfio_store.folder import Folder

__all__ = ["Attempt", "IfExists", "UncertainCommitError", "begin", "is_conclusive"]

IfExists = Literal["error", "overwrite", "append"]

_CLAIM = "tfio_store.claim"


@dataclass(frozen=True, slots=True)
class Existing:
    """The manifest that was there when the attempt began."""

    manifest: DatasetManifest | None
    """None when it can't be read, which an overwrite does not mind."""
    etag: str

    @property
    def names(self) -> tuple[str, ...]:
        """All objects that it names."""
        if self.manifest is None:
            return ()
        index = () if self.manifest.index is None else (self.manifest.index,)
        return (*(shard.name for shard in self.manifest.shards), *index)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One writer's try at a dataset. Picklable. ``tag`` is None where plain names are its own."""

    folder: Folder
    names: DatasetNames
    tag: str | None
    existing: Existing | None
    append: bool
    generation: str

    def shard_name(self, shard: int) -> str:
        return self.names.shard(shard, self.tag)

    def prepare(self, manifest: DatasetManifest) -> DatasetManifest:
        """Complete the manifest, and write the index that it names (the end of step 2)."""
        manifest = self._complete(manifest)
        index = self.folder.join(self.names.index(self.tag))
        self.folder.store.put(index, manifest.index_bytes(), if_absent=True)
        if self.is_over():
            raise OSError(
                errno.ECANCELED,
                "this writer's claim is gone: somebody cleaned up behind it; nothing was committed",
                self.folder.url(self.names.name),
            )
        return manifest

    def is_over(self) -> bool:
        """Whether the claim is gone, because the attempt has ended or `clean` took it for dead."""
        return self.folder.read(self.names.claim(self.tag)) is None

    def decide(self, manifest: DatasetManifest) -> None:
        """Step 3. FileExistsError when another writer was first; see `is_conclusive` for others."""
        data = manifest.to_bytes()
        try:
            self._put_manifest(data)
        except Exception as error:
            # The answer may have been lost on its way when the manifest has landed.
            if not self._landed(data):
                raise self._explain(error) from error

    def clean_up(self, manifest: DatasetManifest) -> None:
        """Step 4. The commit stands whatever happens here, and `clean` gets what is left."""
        with contextlib.suppress(OSError):
            self._delete_replaced(manifest)
            self.release()

    def _complete(self, manifest: DatasetManifest) -> DatasetManifest:
        """With its names, and behind the shards that it is appended to."""
        old = self.existing.manifest if self.existing and self.append else None
        shards = (*old.shards, *manifest.shards) if old else manifest.shards
        return replace(
            manifest,
            shards=shards,
            index=self.names.index(self.tag),
            generation=self.generation,
            schema=manifest.schema or (old.schema if old else None),
            metadata=manifest.metadata or (old.metadata if old else None),
        )

    def _put_manifest(self, data: bytes) -> None:
        store, path = self.folder.store, self.folder.join(self.names.manifest)
        if self.existing is None:
            store.put(path, data, if_absent=True)
        else:
            store.put(path, data, if_match=self.existing.etag)

    def _landed(self, data: bytes) -> bool:
        try:
            found = self.folder.read(self.names.manifest)
        except Exception:
            return False
        return found is not None and found[0] == data

    def _explain(self, error: Exception) -> Exception:
        url = self.folder.url(self.names.name)
        if isinstance(error, FileExistsError):
            return FileExistsError(
                errno.EEXIST, "another writer has committed this dataset in the meantime", url
            )
        if is_conclusive(error):
            return error
        return UncertainCommitError(
            errno.EIO,
            f"the manifest's upload failed ({error}), and whether it may still arrive is not "
            "known; the shards are kept: look again later, then run tfio_store.clean",
            url,
        )

    def _delete_replaced(self, manifest: DatasetManifest) -> None:
        if self.existing is not None:
            kept = {shard.name for shard in manifest.shards}
            self.folder.delete(name for name in self.existing.names if name not in kept)

    def abandon(self, shards: Iterable[str] = ()) -> None:
        """Delete the index, the named shards of this attempt, and the claim."""
        self.folder.delete([*shards, self.names.index(self.tag)])
        self.release()

    def release(self) -> None:
        self.folder.delete([self.names.claim(self.tag)])


class UncertainCommitError(OSError):
    """The store did not say whether the manifest was written."""


def is_conclusive(error: BaseException) -> bool:
    """Whether `Attempt.decide` failed in a way that rules out that the manifest lands later.

    After a timeout, a broken connection or Ctrl-C it may: its shards must not be deleted then.
    """
    return isinstance(error, (FileExistsError, FileNotFoundError, PermissionError))


def begin(
    folder: Folder,
    names: DatasetNames,
    *,
    if_exists: IfExists,
    codec: str | None,
    plain: bool = True,
) -> Attempt:
    """Step 1. FileExistsError when there is a dataset and ``if_exists`` is "error".

    ``plain``: whether plain names will do, if they are free.
    """
    if if_exists not in ("error", "overwrite", "append"):
        raise ValueError(f'if_exists must be "error", "overwrite" or "append", not {if_exists!r}')
    existing = _existing(folder, names, if_exists)
    append = if_exists == "append"
    if append and existing and existing.manifest and existing.manifest.compression != codec:
        raise ValueError(
            f"compression is {codec!r}, and that of the dataset to append to "
            f"{existing.manifest.compression!r}: they must be the same"
        )
    generation = new_tag()
    claim = Claim(generation, names, () if append or not existing else existing.names)
    tag = claim_names(folder, claim, plain=plain and existing is None)
    return Attempt(folder, names, tag, existing, append, generation)


def _existing(folder: Folder, names: DatasetNames, if_exists: IfExists) -> Existing | None:
    found = folder.read(names.manifest)
    if found is None:
        return None
    if if_exists == "error":
        raise FileExistsError(
            errno.EEXIST,
            'the dataset exists; pass if_exists="overwrite" or "append" to replace it or add to it',
            folder.url(names.name),
        )
    data, etag = found
    if etag is None:
        raise io.UnsupportedOperation(
            f"{folder.url(names.name)}: this store tells no version of an object, without which a "
            "dataset can't be replaced safely; write it under another name"
        )
    try:
        manifest = folder.load_manifest(names.manifest, data)
    except ManifestError:
        if if_exists == "append":
            raise
        manifest = None
    return Existing(manifest, etag)
