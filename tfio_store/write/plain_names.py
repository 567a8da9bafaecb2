"""Plain names for a job's shards: copies, for readers that glob.

Tasks write under private names, because it is unknown which of them will count. At the commit the
store copies what counts to ``train-00000-of-00016.tfrecord`` and so on, and the manifest names the
copies. They appear before the manifest does, one after the other, after the claim has noted them.
So whoever ends a dead writer finds them.

A copy never replaces an object. An append goes on counting. A writer whose names another generation
still has, or another writer at work, puts its tag into them:
``train-3f9a1c8e0b52-00000-of-00016.tfrecord``. Names that anything else has are an error.

An object of the right bytes counts as a copy of this writer only if its claim, or the manifest
that is replaced, names it: what another writer has put there, that one may delete. Two writers of
the same bytes may want the same names at once. So each notes its names first, then looks at the
claims of others, and then copies: at least one of the two sees the other.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tfio_store.dataset.manifest import Fingerprint
from tfio_store.dataset.names import DatasetNames
from tfio_store.errors import ManifestError
from tfio_store.storage.store import LOOKS_AT_ONCE
from tfio_store.storage.threads import mapped
from tfio_store.write.claim import HeldClaim, claims_among
from tfio_store.write.stored_objects import check_stored, delete_plain, held, named_by_neighbours

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder
    from tfio_store.dataset.manifest import DatasetManifest, ShardInfo
    from tfio_store.write.claim import Claim
    from tfio_store.write.parts import Place

__all__ = ["Made", "NamesTakenError", "PlainCopies", "check_free", "plain_copies", "remove_copies"]

_LISTED = 5
"""An error lists so many names."""

Made = dict[str, Fingerprint]
"""The copies that this process has seen to be made, by name, with their etags."""


class NamesTakenError(FileExistsError):
    """Other objects have the names that a commit wants. The job stays open."""

    @classmethod
    def of(cls, folder: Folder, taken: Iterable[str]) -> NamesTakenError:
        names = sorted(taken)
        listed = ", ".join(names[:_LISTED]) + (", …" if len(names) > _LISTED else "")
        return cls(
            errno.EEXIST,
            f"{len(names)} of the plain names are taken by other objects ({listed}); remove or "
            "rename these (tfio_store.clean, if a writer that died left them) and commit again, "
            'commit(results, names="tagged"), or write with another shard_template',
            folder.url(names[0]),
        )


@dataclass(frozen=True, slots=True)
class PlainCopies:
    """The shards of one try to commit, and what they are called then."""

    folder: Folder
    sources: tuple[ShardInfo, ...]
    targets: tuple[ShardInfo, ...]
    made: Made
    there: frozenset[str]
    """Targets that are objects of the same bytes already."""
    taken: frozenset[str]
    """Targets that are other objects."""

    @classmethod
    def look(
        cls,
        folder: Folder,
        names: DatasetNames,
        shards: tuple[ShardInfo, ...],
        first: int,
        made: Made,
        present: set[str],
        own: set[str],
    ) -> PlainCopies:
        """``first``: the number of the first one. Looks which of the names are taken, of those that
        are ``present``. Only objects of ``own`` names may be copies from before."""
        targets = tuple(
            replace(shard, name=names.shard(first + i, None)) for i, shard in enumerate(shards)
        )
        found = [target for target in targets if target.name in present]
        same = list(mapped(partial(_is_held, folder, made), found, LOOKS_AT_ONCE))
        ours = own | made.keys()
        there = {target.name for target, holds in zip(found, same, strict=True) if holds} & ours
        taken = {target.name for target in found} - there
        return cls(folder, shards, targets, made, frozenset(there), frozenset(taken))

    def note(self, claim: HeldClaim, place: Place) -> bool:
        """Note in the claim what is to be copied. Returns whether no other one has noted the same
        names. If one has, the note is taken back, lest that one's copies be deleted as this one's.
        ClaimLostError: the writer must not go on."""
        missing = [_fingerprint(one) for one in self.targets if one.name not in self.there]
        if not missing:
            return True
        claim.note(missing)
        claims = claims_among(self.folder, place.names, self.folder.names())
        others = _noted(one for one in claims if one.generation != place.generation)
        if others.isdisjoint(one.name for one in missing):
            return True
        claim.note([], no_more=missing)
        return False

    def make(self, claim: HeldClaim) -> None:
        """Copy what is not there, which the claim has noted.

        NamesTakenError: another object has appeared in a place. ClaimLostError: the writer must not
        go on.
        """
        pairs = zip(self.sources, self.targets, strict=True)
        missing = [(source, target) for source, target in pairs if target.name not in self.there]
        for _ in mapped(self._make, missing, LOOKS_AT_ONCE):
            claim.beat()

    def _make(self, pair: tuple[ShardInfo, ShardInfo]) -> None:
        source, target = pair
        folder = self.folder
        try:
            info = folder.store.copy(folder.join(source.name), folder.join(target.name))
        except FileExistsError as fault:
            # An attempt whose answer was lost has made it, or another copy of the job.
            if not _is_held(folder, self.made, target):
                raise NamesTakenError.of(folder, [target.name]) from fault
        else:
            check_stored(info, folder.url(target.name), nbytes=target.nbytes, crc=target.crc32c)
            self.made[target.name] = replace(_fingerprint(target), etag=info.etag)


def plain_copies(
    place: Place,
    template: str,
    shards: tuple[ShardInfo, ...],
    base: DatasetManifest | None,
    claim: HeldClaim,
    *,
    append: bool,
    made: Made,
) -> tuple[ShardInfo, ...]:
    """Copy shards for a manifest that takes the place of ``base``. Returns the copies.

    NamesTakenError: see above. ClaimLostError: the writer must not go on.
    """
    kept = base if append else None
    template = (kept.shard_template if kept is not None else None) or template
    first = len(kept.shards) if kept is not None else 0
    total = max(first + len(shards), 1)
    numbered = total if "{num_shards" in template else None
    names = DatasetNames(place.names.name, numbered, template)
    for tagged in (False, True):
        copies = _free(place, names, shards, first, base, made, tagged=tagged)
        if copies.note(claim, place):
            break
    copies.make(claim)
    return copies.targets


def _free(
    place: Place,
    names: DatasetNames,
    shards: tuple[ShardInfo, ...],
    first: int,
    base: DatasetManifest | None,
    made: Made,
    *,
    tagged: bool,
) -> PlainCopies:
    """The copies, of which none has the place of another object. ``tagged``: their names shall have
    this writer's tag in any case."""
    folder = place.folder
    present = set(folder.names())
    claims = claims_among(folder, place.names, present)
    others = [claim for claim in claims if claim.generation != place.generation]
    own = _of(base) | _noted(claim for claim in claims if claim.generation == place.generation)
    copies = PlainCopies.look(folder, names, shards, first, made, present, own)
    theirs = _of(base) | _noted(others)
    if tagged or any(claim.plain for claim in others) or (copies.taken and copies.taken <= theirs):
        names = names.tagged_plain(place.generation)
        copies = PlainCopies.look(folder, names, shards, first, made, present, own)
    if copies.taken:
        raise NamesTakenError.of(folder, copies.taken)
    return copies


def _noted(claims: Iterable[Claim]) -> set[str]:
    """The names of the copies that are in these claims."""
    return {one.name for claim in claims for one in claim.landing}


def check_free(folder: Folder, names: DatasetNames) -> None:
    """NamesTakenError if names of a dataset that is to be the first here are taken already, which
    tasks had better know before they begin."""
    present = set(folder.names())
    wanted = {names.shard(shard, None) for shard in range(names.num_shards or 0)}
    if names.manifest not in present and wanted & present:
        raise NamesTakenError.of(folder, wanted & present)


def remove_copies(
    folder: Folder,
    names: DatasetNames,
    current: DatasetManifest | None,
    noted: Iterable[Fingerprint],
    made: Made,
) -> bool:
    """Delete those copies, noted or made here, that no manifest names. Returns whether none may
    appear any more. If not, the claim must stay, because it names them."""
    known = {**{one.name: one for one in noted}, **made}
    if not known:
        return True
    named = _of(current)
    left = [one for one in known.values() if one.name not in named]
    if not left:
        return True
    try:
        named = named_by_neighbours(folder, names)
    except ManifestError:
        return False
    delete_plain(folder, (one for one in left if one.name not in named))
    return all(one.name in made for one in left)


def _of(manifest: DatasetManifest | None) -> set[str]:
    """The objects that a manifest names, or keeps for readers of what was before."""
    if manifest is None:
        return set()
    return manifest.names() | manifest.replaced_names()


def _fingerprint(shard: ShardInfo) -> Fingerprint:
    return Fingerprint(shard.name, shard.nbytes, shard.crc32c)


def _is_held(folder: Folder, made: Made, target: ShardInfo) -> bool:
    """Whether the object there has the bytes of this shard."""
    return held(folder, made.get(target.name) or _fingerprint(target)) is not None
