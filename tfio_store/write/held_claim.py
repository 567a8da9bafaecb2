"""Putting a claim, and changing it: every step is a compare-and-swap on the claim's object."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfio_store.dataset.fingerprint import Fingerprint
from tfio_store.dataset.names import DatasetNames, new_tag
from tfio_store.write.claim import Claim, Proposal, read_claim

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder

__all__ = ["ClaimLostError", "HeldClaim", "put_claim", "swap"]

BEAT_SECONDS = 300.0
"""How often a writer at work gives a sign of life; `clean` waits for a day without one."""

_TRIES = 16


class ClaimLostError(OSError):
    """The writer's claim is gone, or was given up by somebody else: it must not commit."""


def put_claim(folder: Folder, names: DatasetNames, generation: str, *, plain: bool) -> bool:
    """Put a claim. Whether the plain names are the writer's; else it is one to tagged names.

    They are, if it wants them, if nobody else claims them and, which nobody can change then, there
    is neither a manifest nor a file with a plain shard's name.
    """
    claim = Claim(generation, names, alive=time.time())
    if plain and _put(folder, names.claim(None), claim.to_bytes()):
        present = folder.names()
        if names.manifest not in present and not any(map(names.is_plain_shard, present)):
            return True
        folder.delete([names.claim(None)])
    _put(folder, names.claim(generation), claim.to_bytes())
    return False


def _put(folder: Folder, name: str, data: bytes) -> bool:
    """Never over another: an attempt that arrives late must not undo what the claim has become."""
    try:
        folder.put(name, data, if_absent=True)
    except FileExistsError:
        found = folder.read(name)
        return found is not None and found[0] == data  # ours after all: the answer was lost
    return True


def swap(folder: Folder, name: str, data: bytes, etag: str | None) -> tuple[bool, str | None]:
    """Replace a small object of this etag. Whether it holds ``data`` now, and its etag.

    False where it has changed or is gone. Other failures are raised if it is as it was: ``data``
    may arrive later then, unless the object has changed by that time.
    """
    try:
        return True, folder.store.put(folder.join(name), data, if_match=etag).etag
    except Exception as error:
        found = folder.read(name)
        if found is not None and found[0] == data:
            return True, found[1]  # the answer was lost
        # Of an etag that is a digest, an earlier version may have come back.
        if found is not None and found[1] == etag and not isinstance(error, FileExistsError):
            raise
        return False, None


class HeldClaim:
    """A writer's hold on its claim. Safe to use from several threads."""

    def __init__(
        self, folder: Folder, names: DatasetNames, generation: str, *, plain: bool
    ) -> None:
        self._folder = folder
        self._names = names
        self._generation = generation
        self._plain = plain
        self._name = names.claim(None if plain else generation)
        self._seen: tuple[Claim, str | None] | None = None
        self._id = new_tag()
        self._contested = False
        self._beaten = time.time()
        self._lock = threading.Lock()

    def read(self) -> Claim | None:
        """As it is in the store now; None when it is gone, or another writer's."""
        with self._lock:
            return self._read()

    def check(self) -> None:
        """ClaimLostError when the writer must not go on."""
        claim = self.read()
        if claim is None:
            raise self._gone()
        self._check_not_aborted(claim)

    def beat(self) -> None:
        """A sign of life, if the last one is long ago. It matters to `clean` alone: not to the
        writer, whom a failure here must not stop."""
        if time.time() - self._beaten < BEAT_SECONDS:
            return
        self._beaten = time.time()
        with contextlib.suppress(OSError):
            self._change(lambda claim: claim.at(time.time()))

    def announce(self, shards: Sequence[Fingerprint]) -> None:
        """Before shards appear under plain names. ClaimLostError when they must not."""
        if not self._plain:
            return

        def announced(claim: Claim) -> Claim:
            self._check_not_aborted(claim)
            return claim.at(time.time(), landing=(*claim.landing, *shards))

        self._change(announced)

    def propose(self, proposal: Proposal) -> None:
        """From open (or another proposal) to committing. ClaimLostError when it has ended."""

        def proposed(claim: Claim) -> Claim:
            self._check_not_aborted(claim)
            self._contested |= claim.state == "committing" and claim.by != self._id
            return claim.at(time.time(), state="committing", proposal=proposal, by=self._id)

        self._change(proposed)

    def take_over(self, proposal: Proposal) -> bool:
        """Become the one who is to put the manifest. False when the claim has changed."""
        self._contested = True
        return self._changed(
            lambda claim: claim.at(time.time(), by=self._id),
            lambda claim: claim.proposal == proposal,
        )

    def withdraw(self, *, lost: bool) -> bool:
        """From committing back to open. Whether that could be done.

        It can't once another is to put the manifest, or was before: that request may be under way.
        It can if it is ``lost``: another manifest is in the place where this one was to go.
        """
        return self._changed(
            lambda claim: claim.at(time.time(), state="open", proposal=None, by=""),
            lambda claim: (
                claim.state == "open" or (claim.by == self._id and (lost or not self._contested))
            ),
        )

    def give_up(self, *, of: Proposal | None = None) -> bool:
        """To aborted. Whether it is now, and so whether what the writer wrote may go.

        Not from committing, unless the proposal is ``of``, of which the caller knows that it can't
        land any more.
        """
        return self._changed(
            lambda claim: claim.at(time.time(), state="aborted", proposal=None, by=""),
            lambda claim: claim.state != "committing" or (of is not None and claim.proposal == of),
        )

    def release(self) -> None:
        """Delete it, the last thing of all."""
        with self._lock:
            if self._plain:
                seen = self._seen or (self._read() and self._seen)
                if seen:
                    self._folder.delete_version(self._name, seen[1])
            else:
                self._folder.delete([self._name])
            self._seen = None

    def _changed(self, change: Callable[[Claim], Claim], allowed: Callable[[Claim], bool]) -> bool:
        """False when the claim is gone, or may not be changed so."""

        def checked(claim: Claim) -> Claim:
            if not allowed(claim):
                raise self._lost("another process is committing it")
            return change(claim)

        try:
            self._change(checked)
        except ClaimLostError:
            return False
        return True

    def _change(self, change: Callable[[Claim], Claim]) -> None:
        with self._lock:
            for _ in range(_TRIES):
                if self._seen is None and self._read() is None:
                    break
                assert self._seen is not None
                claim, etag = self._seen
                wanted = change(claim)
                done, new = swap(self._folder, self._name, wanted.to_bytes(), etag)
                self._seen = (wanted, new) if done and new is not None else None
                if done:
                    self._beaten = time.time()
                    return
        raise self._gone()

    def _read(self) -> Claim | None:
        self._seen = None
        found = self._folder.read(self._name)
        if found is None:
            return None
        claim = read_claim(found[0], self._names.name, plain=self._plain)
        if claim is None or claim.generation != self._generation:
            return None
        self._seen = claim, found[1]
        return claim

    def _check_not_aborted(self, claim: Claim) -> None:
        if claim.state == "aborted":
            raise self._lost("it was aborted elsewhere, or somebody cleaned up behind it")

    def _gone(self) -> ClaimLostError:
        return self._lost("its claim is gone: it has ended, or somebody cleaned up behind it")

    def _lost(self, why: str) -> ClaimLostError:
        return ClaimLostError(
            errno.ECANCELED,
            f"this writer can't go on, and nothing was committed: {why}",
            self._folder.url(self._names.name),
        )
