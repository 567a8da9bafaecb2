"""The commit protocol: a dataset is there whole, or not at all.

1.  *Claim.* A writer begins by putting a small claim object. The first writer of a dataset puts
    ``_train.claim``, if no such object is there. Then it looks. If there is no manifest and no file
    with a plain shard name, the plain names are its own. Every other writer (an overwrite, an
    append, one that comes second, one that finds what a dead writer left) draws a tag, puts
    ``_train.claim.TAG``, and has the tag in all its names. So two writers never write the same
    object, and no writer writes an object that a manifest names.
2.  *Shards and index.* They become visible one by one; no reader looks for them yet. All but those
    with plain names have names that only a manifest contains.
3.  *Decision.* The claim changes from open to committing, and holds the manifest from then on.
    Nobody aborts the writer any more; anybody can finish what it began.
4.  *Manifest.* One conditional put. The first manifest goes in if there is none, and a later one
    only in the place of the very one that it replaces. The put decides, at once, what the dataset
    is. Then the manifest is read back. Nothing is deleted before it has been seen. An append that
    finds another manifest in the way takes that as its base, and goes back to 3.
5.  *Publishing.* The shards that the manifest replaced leave the names that patterns find, the new
    ones come there, and a second put of the manifest names the new names (`publish`). The manifest
    itself says what is left to do of that.
6.  *Tidying up.* What the manifest replaced stays for ``keep_replaced`` seconds, for readers that
    have opened it. Objects whose time is over are deleted now, and the claim last.

A writer that dies before 3 has changed nothing for readers. One that dies after 3 has left
everything that is needed to finish. Either leaves its claim, from which `clean` knows what to do.
The first writer of a dataset has nothing to do in 5: its shards have plain names from the
beginning.
"""

from __future__ import annotations

import contextlib
import errno
import random
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from tfio_store.dataset.folder import FoundManifest
from tfio_store.dataset.manifest import (
    KEPT_HISTORY,
    DatasetManifest,
    Fingerprint,
    Loss,
    Publish,
    Replaced,
    listing_of,
)
from tfio_store.dataset.names import DatasetNames
from tfio_store.errors import ManifestError, UncertainCommitError
from tfio_store.storage.faults import may_arrive
from tfio_store.write.appended import growth_of, schema_of_both, values_of_both
from tfio_store.write.claim import HeldClaim, Proposal
from tfio_store.write.parts import Parts, Place, put_parts
from tfio_store.write.publish import publish, set_aside
from tfio_store.write.stored_objects import (
    are_found,
    check_shards,
    delete_own,
    delete_plain,
    dispose,
    named_now,
    own_objects,
    patterns,
    replaced_by,
    replaced_parts,
)

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder


IfExists = Literal["error", "overwrite", "append"]
Names = Literal["tagged", "plain"]

KEEP_REPLACED = 3600.0
"""Seconds for which a replaced generation stays for its readers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a writer wants of its commit."""

    if_exists: IfExists
    codec: str | None
    keep_replaced: float = KEEP_REPLACED
    globbed: bool = True
    """Whether patterns are to find the shards also where they find none yet."""

    def __post_init__(self) -> None:
        if self.if_exists not in ("error", "overwrite", "append"):
            raise ValueError(
                f'if_exists must be "error", "overwrite" or "append", not {self.if_exists!r}'
            )
        keep = self.keep_replaced
        if not isinstance(keep, (int, float)) or isinstance(keep, bool) or not 0 <= keep < 1e11:
            raise ValueError(f"keep_replaced must be seconds, 0 or more, not {keep!r}")

    @property
    def append(self) -> bool:
        return self.if_exists == "append"

    def check_codec(self, manifest: DatasetManifest) -> None:
        """ValueError unless shards of this codec can be appended."""
        if manifest.compression != self.codec:
            raise ValueError(
                f"compression is {self.codec!r}, and that of the dataset to append to "
                f"{manifest.compression!r}: they must be the same"
            )


# The one request that commits a dataset, and its outcome.


def decide(
    folder: Folder, names: DatasetNames, proposal: Proposal, generation: str
) -> FoundManifest | None:
    """Put the manifest, and look. Returns what is there if it has landed; None if it never will.

    Raises:
        UncertainCommitError: it may have landed, or may land yet.
        OSError: the store refuses it, and nothing has landed or will.
    """
    failure: Exception | None = None
    store, path = folder.store, folder.join(names.manifest)
    try:
        if proposal.base is None:
            store.put(path, proposal.manifest, if_absent=True)
        else:
            store.put(path, proposal.manifest, if_match=proposal.base)
    except Exception as error:
        failure = error
    try:
        found = folder.manifest(names.manifest, index=False, damaged=True)
    except Exception as error:
        raise uncertain(folder, names, failure or error) from (failure or error)
    if found is not None and found.holds(generation):
        return found
    as_before = (found.etag if found is not None else None) == proposal.base
    if failure is None or may_arrive(failure, store):
        # The condition no longer holds. If the store decides conditions, a late request fails too.
        if failure is None or as_before or not store.conditional:
            raise uncertain(folder, names, failure) from failure
    elif as_before:
        raise failure
    return None


def uncertain(
    folder: Folder, names: DatasetNames, failure: Exception | None
) -> UncertainCommitError:
    why = f"failed ({failure})" if failure is not None else "was answered, and is not to be seen"
    return UncertainCommitError(
        errno.EIO,
        f"the manifest's upload {why}, and whether it has arrived or may still arrive is not "
        "known; all that was written is kept: look again later, then run tfio_store.clean, "
        "which finishes the commit if it can",
        folder.url(names.name),
    )


APPEND_TRIES = 200
LONGEST_WAIT = 2.0
"""Seconds between two of them."""


@dataclass(eq=False, repr=False)
class Attempt:
    """One writer's try at a dataset. It pickles, and its copies may do any step, once or twice."""

    folder: Folder
    names: DatasetNames
    plan: Plan
    generation: str
    plain: bool
    """Whether the plain names are its own. If not, all its names carry ``generation``."""
    base: str | None
    """The manifest that was there when it began (see `FoundManifest.identity`), or None."""
    appends_to: dict[str, Any] | None
    """The schema of the records to which others are appended, as JSON, if there are any."""

    def __post_init__(self) -> None:
        self.claim = HeldClaim(self.folder, self.names, self.generation, plain=self.plain)
        self.undecided = False
        """Whether the manifest may have landed, or may land yet. Then nothing must be deleted."""
        self._proposed: Proposal | None = None
        self._tried = False
        self._lost = False
        """Whether another manifest has taken the place of the proposed one."""
        self._landed: FoundManifest | None = None
        """The manifest that this process has put."""

    def __reduce__(self) -> tuple[object, ...]:
        return Attempt, tuple(getattr(self, field.name) for field in fields(self))

    def shard_name(self, shard: int) -> str:
        return self.names.shard(shard, None if self.plain else self.generation)

    def commit(
        self, manifest: DatasetManifest, *, template: str = "", globbed: bool | None = None
    ) -> DatasetManifest:
        """Do steps 3 and 4 for shards that have landed. Returns the manifest that is there then.

        A second call, on this or on a copy, returns what the first one landed. ``template``: for
        the names under which patterns will find the shards, if not as they were written.
        ``globbed``: as in the plan, if it is not None.

        Raises:
            FileExistsError: another writer was first.
            ClaimLostError: the attempt was aborted, or cleaned up behind.
            UncertainCommitError: it is unknown whether the manifest has landed or may yet.
            OSError: a shard is not in the store as it was written, or the store failed.
        """
        try:
            named = replace(manifest, shard_template=template or self.names.template)
            return self._commit(named, self.plan.globbed if globbed is None else globbed)
        except Exception as error:
            return self._unless_landed(error)

    def _unless_landed(self, error: Exception) -> DatasetManifest:
        """After a failure, return the manifest that another process (a copy, `clean`) has landed
        for this one. If there is none, withdraw the decision and raise ``error``."""
        if isinstance(error, UncertainCommitError):
            raise error
        try:
            withdrawn = self._proposed is None or self.claim.withdraw(lost=self._lost)
            landed = self.landed()
        except Exception as another:
            if self._proposed is None:
                raise error from another
            self.undecided = True
            raise uncertain(self.folder, self.names, error) from another
        if landed is not None:
            return landed
        claim = None if withdrawn else self.claim.read()
        # A proposal to replace a manifest that is gone can't land, whoever puts it.
        is_lost = self._lost and claim is not None and claim.proposal == self._proposed
        if claim is not None and claim.state == "committing" and not is_lost:
            self.undecided = True  # another process is about to put the manifest
            raise uncertain(self.folder, self.names, error) from error
        self._proposed = None
        raise error

    def _commit(self, manifest: DatasetManifest, globbed: bool) -> DatasetManifest:
        put: list[str] = []
        for tries in range(APPEND_TRIES):
            if tries:  # so that writers that came too late do not try in step
                time.sleep(random.uniform(0, min(LONGEST_WAIT, 0.02 * 2 ** min(tries, 16))))
            base = self._current()
            if base is not None and self._is_part_of(base):
                return self._as_landed(base)
            try:
                parts = self._put_parts(manifest, base)
                put += parts.put
                whole, gone = self._complete(parts.manifest, base, globbed)
            except FileNotFoundError:
                if base is None or not self._was_overtaken(base):
                    raise
                continue  # it is part of what the other writer has replaced
            proposal = Proposal(base.etag if base else None, whole.to_bytes(), gone)
            self._lost = False
            self._proposed = proposal  # first, because the claim's change may stay unknown
            self.claim.propose(proposal)
            self.folder.delete(name for name in put if name not in parts.put)
            put = parts.put
            # Only now: of an abort that came before, this sees what it deleted; and none comes
            # any more.
            old = base.manifest if base is not None else None
            among = len(whole.shards) + (0 if old is None else len(old.shards))
            check_shards(self.folder, manifest.shards, among=among)
            landed = self._decide(proposal)
            if landed is not None:
                ours = landed.data == proposal.manifest
                self._landed = replace(landed, manifest=whole) if ours else landed
                return whole if ours else self._as_landed(landed)
            self._lost = True  # if not an append, `_current` says whether it was only published
        raise self._too_late(f" {APPEND_TRIES} times in a row; append again later")

    def _was_overtaken(self, base: FoundManifest | None) -> bool:
        """Whether another manifest has come since ``base`` was read."""
        now = self.folder.read(self.names.manifest)
        return now is not None and (base is None or now[1] != base.etag)

    def _decide(self, proposal: Proposal) -> FoundManifest | None:
        self.undecided = True  # whatever ends this, also Ctrl-C, unless the store refuses
        try:
            landed = decide(self.folder, self.names, proposal, self.generation)
        except UncertainCommitError:
            raise
        except Exception:
            self.undecided = False
            raise
        self.undecided = landed is not None
        return landed

    def kept(self) -> DatasetManifest | None:
        """The manifest to append to, as it is now. Until the commit others may append too."""
        if not self.plan.append:
            return None
        found = self.folder.manifest(self.names.manifest, index=False)
        return None if found is None else found.manifest

    def landed(self) -> DatasetManifest | None:
        """The dataset's manifest, if this attempt is part of its history."""
        found = self.folder.manifest(self.names.manifest)
        return found.manifest if found is not None and self._is_part_of(found) else None

    def _is_part_of(self, found: FoundManifest) -> bool:
        """Whether this attempt has landed: the history shows it, or, as it forgets the oldest, the
        names of the shards. An attempt whose claim is open has not come that far."""
        manifest = found.manifest
        if manifest is None or found.holds(self.generation):
            return manifest is not None
        if len(manifest.history) < KEPT_HISTORY:
            return False
        claim = self.claim.read()
        if claim is not None and claim.state == "open":
            return False
        return any(self.generation in name for name in manifest.names())

    def tidy(self, manifest: DatasetManifest, *, sweep: bool = False) -> DatasetManifest:
        """Do steps 5 and 6. Returns the manifest, as it is then. The commit stands whatever happens
        here, and `clean` does what is left. ``sweep``: also delete what tasks wrote and the
        manifest does not name.
        """
        try:
            if manifest.publish is not None:
                manifest = self._published(manifest)
            claim = self.claim.read()
            if claim is not None and claim.proposal is not None:
                dispose(self.folder, self.names, claim.proposal.doomed, manifest)
            if sweep:
                kept = {*manifest.names(), *manifest.replaced_names()}
                delete_own(self.folder, self.names, self.generation, kept=kept)
            self.claim.release()
        except Exception as error:
            unseen = "" if manifest.publish is None else "patterns do not find all of it yet, and "
            warnings.warn(
                f"the commit stands, but {unseen}what it replaced could not be removed ({error}); "
                "tfio_store.clean will do the rest",
                RuntimeWarning,
                stacklevel=3,
            )
        return manifest

    def _published(self, manifest: DatasetManifest) -> DatasetManifest:
        """Let patterns find the shards. Returns the manifest with their names."""
        found = publish(self.folder, self.names, self._landed)
        if found is None or found.generation != manifest.generation:
            return self.landed() or manifest
        return found

    def abandon(self, shards: Sequence[Fingerprint] = (), *, shared: bool = False) -> None:
        """Give up: delete what was written, and last the claim, but not what has landed or may land
        yet. ``shared``: copies of this attempt may be at work, and wrote other shards.
        """
        if self.undecided:
            return
        if shared:
            given_up = self.claim.give_up()
        else:  # only this writer could commit it; and a full disk takes no new claim
            claim = self.claim.read()
            given_up = claim is not None and claim.state != "committing"
        if not given_up and self.claim.read() is not None:
            return  # a copy commits it
        # A late request can bring a claim back. What has landed is in the manifest.
        found = self.folder.manifest(self.names.manifest, index=False, damaged=True)
        if found is not None and self._is_part_of(found):
            return
        if self.plain:
            self._abandon_plain(shards, found, given_up)
        else:
            self.folder.delete(shard.name for shard in shards)
        if shared:
            delete_own(self.folder, self.names, self.generation)
        elif self._tried:
            self.folder.delete(own_objects(self.folder, self.names, self.generation))
        if not (self.plain and any(shard.etag is None for shard in shards)):
            self.claim.release()  # if not, it names what may appear yet
        if found is not None and found.manifest is not None and found.manifest.publish is not None:
            with contextlib.suppress(OSError, ManifestError):  # it may have waited for this
                publish(self.folder, self.names)

    def _abandon_plain(
        self, shards: Sequence[Fingerprint], found: FoundManifest | None, given_up: bool
    ) -> None:
        """Once this claim is gone, another writer may have the plain names."""
        if not given_up and self.folder.read(self.names.claim(None)) is not None:
            if shards:
                warnings.warn(
                    f"{self.folder.url(self.names.name)}: somebody cleaned up behind this writer, "
                    "and another has begun: what appeared in between under plain names is left",
                    RuntimeWarning,
                    stacklevel=4,
                )
            return
        named = set() if found is None else named_now(self.folder, self.names, found.manifest)
        delete_plain(self.folder, (shard for shard in shards if shard.name not in named))
        if given_up and self.names.index(None) not in named:
            self.folder.delete([self.names.index(None)])

    def _current(self) -> FoundManifest | None:
        """Return the manifest to build upon. FileExistsError if it must not be replaced."""
        append = self.plan.append
        found = self.folder.manifest(self.names.manifest, index=append, damaged=not append)
        if append or (found is not None and self._is_part_of(found)):
            return found
        if (found and found.identity) != self.base:
            raise self._too_late()
        return found

    def _as_landed(self, found: FoundManifest) -> DatasetManifest:
        """The manifest with its index, if that can be read. The commit has succeeded in any
        case."""
        assert found.manifest is not None
        try:
            return self.landed() or found.manifest
        except (OSError, ManifestError):
            return found.manifest

    def _put_parts(self, manifest: DatasetManifest, base: FoundManifest | None) -> Parts:
        """The end of step 2: put the index, also of the shards that this is appended to."""
        kept = base.manifest if base is not None and self.plan.append else None
        if kept is not None:
            self.plan.check_codec(kept)
        self.claim.check()
        plain = self.plain and base is None and self._proposed is None
        self._tried = True
        return put_parts(
            Place(self.folder, self.names, self.generation),
            manifest,
            None if kept is None else listing_of(kept),
            plain=plain,
        )

    def _complete(
        self, manifest: DatasetManifest, base: FoundManifest | None, globbed: bool
    ) -> tuple[DatasetManifest, tuple[Fingerprint, ...]]:
        """Add what it takes over from the manifest before it, the objects that it replaces, and
        what step 5 is to do. Returns also what no manifest needs any more."""
        old = base.manifest if base else None
        kept = old if self.plan.append else None
        # An append that found no records must not make every feature optional.
        nothing_new = kept is not None and 0 < kept.records == manifest.records
        schema = schema_of_both(kept, None if nothing_new else manifest.schema)
        whole = replace(
            manifest,
            generation=self.generation,
            history=old.history_after() if old else (),
            shard_template=kept.shard_template if kept else manifest.shard_template,
            schema=schema,
            growth=growth_of(kept, schema, self.generation),
            values=kept.values if kept and nothing_new else values_of_both(kept, manifest, schema),
            metadata=manifest.metadata or (kept.metadata if kept else None),
            lost=Loss.all_of([kept.lost if kept else None, manifest.lost]),
        )
        gone: tuple[Fingerprint, ...] = ()
        if old is not None:
            find = replaced_parts if self.plan.append else replaced_by
            gone = find(whole, old, self.names)
        todo = self._to_publish(whole, old, base, globbed)
        if todo is not None and old is not None and not self.plan.append:
            gone = set_aside(gone, old, self.names)
        entry = Replaced(time.time() + self.plan.keep_replaced, gone)
        replaced = (*(old.replaced if old else ()), *([entry] if gone else ()))
        whole = replace(whole, replaced=replaced, publish=todo)
        if todo is not None:  # nothing goes before all has left that is to leave
            return whole, ()
        return whole.without_expired(time.time())

    def _to_publish(
        self,
        whole: DatasetManifest,
        old: DatasetManifest | None,
        base: FoundManifest | None,
        globbed: bool,
    ) -> Publish | None:
        keep = self.plan.keep_replaced
        if old is None:
            plain = self._plain_generation(base) if globbed and not self.plain else None
            return Publish(plain=plain, keep=keep) if globbed and not self.plain else None
        found = are_found(old)
        if not self.plan.append:
            return Publish(keep=keep) if globbed or found else None
        if old.publish is not None:
            return old.publish
        if len(whole.shards) == len(old.shards) or (self.plain and found):
            return None
        if found:
            return Publish(len(old.shards), keep=keep)
        # of a long list, all shards would be copied for the sake of a few new ones
        return Publish(keep=keep) if globbed and listing_of(old).small else None

    def _plain_generation(self, base: FoundManifest | None) -> str | None:
        """This generation, if its shards can get names without a tag: if it is the first, and
        nobody else has such names, or may get them."""
        present = self.folder.names() if base is None else [self.names.manifest]
        known = patterns(self.names, [])
        taken = (any(each.is_plain_shard(name) for each in known) for name in present)
        others = {self.names.manifest, self.names.claim(None)}
        return None if any(taken) or not others.isdisjoint(present) else self.generation

    def _too_late(
        self,
        how: str = "; nothing of this one is left: read that one, or write again with "
        'if_exists="append" to have both, or "overwrite" to have this one',
    ) -> FileExistsError:
        return FileExistsError(
            errno.EEXIST,
            f"another writer has committed this dataset in the meantime{how}",
            self.folder.url(self.names.name),
        )
