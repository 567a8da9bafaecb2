"""The claim: a small object that a writer keeps from its beginning to its end, and its signs of
life.
"""

from __future__ import annotations

import contextlib
import errno
import json
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from tfio_store.dataset.manifest import Fingerprint
from tfio_store.dataset.names import DatasetNames, new_tag
from tfio_store.storage.aside import ASIDE, original
from tfio_store.storage.threads import PerProcess, quietly, start_daemon

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder


# Signs of life of the writers in this process, however slowly their records come.


BEAT_SECONDS = 300.0
"""How often a writer at work gives a sign of life; `clean` waits for a day without one."""


class Pulse:
    """Calls ``beat``, which renews a claim, now and then, until `stop`, or until nothing holds this
    any more. Forked children do not inherit it: what the parent does, the parent shows."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self.beat = beat
        _heart.here.add(self)

    def stop(self) -> None:
        _heart.here.discard(self)


class Heart:
    """The thread of all pulses in a process. It begins with the first one."""

    def __init__(self) -> None:
        self._pulses: weakref.WeakSet[Pulse] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._started = False

    def add(self, pulse: Pulse) -> None:
        with self._lock:
            self._pulses.add(pulse)
            if not self._started:
                start_daemon(self._run, "tfio_store-pulse")
                self._started = True

    def discard(self, pulse: Pulse) -> None:
        with self._lock:
            self._pulses.discard(pulse)

    def _run(self) -> None:
        while True:
            time.sleep(BEAT_SECONDS)
            with self._lock:
                pulses = list(self._pulses)
            while pulses:  # none is kept while the thread sleeps
                quietly(pulses.pop().beat)


_heart = PerProcess(Heart)


# A claim says which names are the writer's own, so that no two writers write the same object. A
# dead writer leaves its claim behind. From it `clean` learns what to remove. A claim has a state,
# which changes by compare-and-swap only, so that of all who act for one writer (copies of a job,
# `clean`) one decides what becomes of it::
#
#     open <─────> committing ──────> (deleted: the manifest landed)
#       └────────────┴──> aborted ──> (deleted: nothing of the writer is left)
#
# ``committing`` holds the manifest that is about to be put, and who is to put it. Whoever finds
# such a claim can finish the commit, but says so in the claim first: so the one who was at it
# before knows that it can't take the decision back. Nobody deletes what the manifest names before
# another manifest is in its place.


State = Literal["open", "committing", "aborted"]

_FORMAT = "tfio_store.claim"
_VERSION = 2


@dataclass(frozen=True, slots=True)
class Proposal:
    """The manifest that a writer has decided to put, and the objects to delete once it has
    landed."""

    base: str | None
    """The etag of the manifest that it replaces. None if there must be no manifest."""
    manifest: bytes
    doomed: tuple[Fingerprint, ...] = ()
    """Objects that no manifest will name any more."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The contents of a claim object."""

    generation: str
    names: DatasetNames
    plain: bool = False
    """Whether it claims the plain names. (Its own name says so.)"""
    copies: bool = False
    """Whether the writer will copy its shards to plain names."""
    state: State = "open"
    alive: float = 0.0
    """The writer's last sign of life, in Unix time."""
    landing: tuple[Fingerprint, ...] = ()
    """Shards that may appear under plain names. A stranger's file may have such a name too."""
    proposal: Proposal | None = None
    """The manifest that is being committed, in the state "committing"."""
    by: str = ""
    """The process that is to put the manifest."""
    turn: int = 0
    """How often it has changed: no two versions of a claim are the same bytes."""

    def at(self, now: float, **changes: Any) -> Claim:
        """The next version."""
        return replace(self, alive=max(now, self.alive), turn=self.turn + 1, **changes)

    def to_bytes(self) -> bytes:
        document: dict[str, Any] = {
            "format": _FORMAT,
            "version": _VERSION,
            "generation": self.generation,
            "state": self.state,
            "alive": self.alive,
            "turn": self.turn,
            "template": self.names.template,
            "num_shards": self.names.num_shards,
            "copies": self.copies,
            "landing": [shard.to_json() for shard in self.landing],
        }
        if self.proposal is not None:
            document["proposal"] = {
                "by": self.by,
                "base": self.proposal.base,
                "manifest": self.proposal.manifest.decode(),
                "doomed": [one.to_json() for one in self.proposal.doomed],
            }
        return json.dumps(document).encode()


def read_claim(data: bytes, name: str, *, plain: bool) -> Claim | None:
    """Parse the claim of a writer of the dataset ``name``. None if it is no readable claim."""
    try:
        return _parse(json.loads(data), name, plain)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def _parse(document: Any, name: str, plain: bool) -> Claim:
    if document["format"] != _FORMAT or document["version"] != _VERSION:
        raise ValueError("not a claim of this version")
    if document["state"] not in get_args(State):
        raise ValueError(f"no such state: {document['state']!r}")
    count, proposal = document["num_shards"], document.get("proposal")
    if (document["state"] == "committing") != (proposal is not None):
        raise ValueError("committing what?")
    return Claim(
        generation=str(document["generation"]),
        names=DatasetNames(name, None if count is None else int(count), str(document["template"])),
        plain=plain,
        copies=bool(document.get("copies")),
        state=document["state"],
        alive=float(document["alive"]),
        landing=tuple(map(Fingerprint.from_json, document["landing"])),
        proposal=None if proposal is None else _parse_proposal(proposal),
        by="" if proposal is None else str(proposal["by"]),
        turn=int(document["turn"]),
    )


def _parse_proposal(document: Any) -> Proposal:
    base = document["base"]
    if base is not None and not isinstance(base, str):
        raise ValueError("the base is no etag")
    return Proposal(
        base,
        str(document["manifest"]).encode(),
        tuple(map(Fingerprint.from_json, document["doomed"])),
    )


# Putting a claim, and changing it: every step is a compare-and-swap on the claim's object.


_TRIES = 16


class ClaimLostError(OSError):
    """The writer's claim is gone, or another process has given it up. The writer must not
    commit."""


def put_claim(
    folder: Folder, names: DatasetNames, generation: str, *, plain: bool, copies: bool = False
) -> bool:
    """Put a claim. Returns whether it claims the plain names; if not, it claims tagged names. The
    plain names are the writer's if it wants them, if no one else claims them or will copy to them,
    and if there is neither a manifest nor a file with a plain shard's name. (With the claim put,
    no one can change that.) ``copies``: whether this writer will copy to them.
    """
    claim = Claim(generation, names, copies=copies, alive=time.time())
    if plain and _put(folder, names.claim(None), claim.to_bytes()):
        present = folder.names()
        had = (original(name) for name in present if name.endswith(ASIDE))
        taken = names.manifest in present or any(map(names.is_plain_shard, (*present, *had)))
        own = names.claim(None)
        others = (name for name in present if name.startswith(own) and name != own)
        if not taken and all(_spares_plain_names(folder, names, claim) for claim in others):
            return True
        folder.delete([names.claim(None)])
    _put(folder, names.claim(generation), claim.to_bytes())
    return False


def _spares_plain_names(folder: Folder, names: DatasetNames, name: str) -> bool:
    """Whether the writer of a claim that was listed will copy nothing to the plain names. If the
    claim is gone by now, its writer has perhaps copied to them since."""
    stored = folder.read(name)
    claim = None if stored is None else read_claim(stored[0], names.name, plain=False)
    return claim is not None and not claim.copies


def _put(folder: Folder, name: str, data: bytes) -> bool:
    """Never replace a claim: a late request must not undo a later state."""
    try:
        folder.put(name, data, if_absent=True)
    except FileExistsError:
        found = folder.read(name)
        return found is not None and found[0] == data  # ours after all: the answer was lost
    return True


def swap(folder: Folder, name: str, data: bytes, etag: str | None) -> tuple[bool, str | None]:
    """Replace a small object of this etag. Returns whether it holds ``data`` now, and its etag.
    False if it has changed or is gone. If the object is as it was, other failures are raised. Then
    ``data`` may still arrive later, unless the object has changed by that time.
    """
    try:
        return True, folder.store.put(folder.join(name), data, if_match=etag).etag
    except Exception as error:
        found = folder.read(name)
        if found is not None and found[0] == data:
            return True, found[1]  # the answer was lost
        # If an etag is a digest, an earlier version may have come back.
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
        self._beaten = time.monotonic()
        self._watched: tuple[Claim, float] | None = None
        """The version of the claim that was seen last, and since when, on the monotonic clock."""
        self._lock = PerProcess(threading.Lock)  # a fork may come while a thread has it

    def read(self) -> Claim | None:
        """Read the claim from the store. None if it is gone, or another writer's."""
        with self._lock.here:
            return self._read()

    def last_seen(self) -> Claim | None:
        """The claim as this process read or changed it last."""
        with self._lock.here:
            return None if self._seen is None else self._seen[0]

    def check(self) -> None:
        """Raise ClaimLostError if the writer must not go on."""
        claim = self.read()
        if claim is None:
            raise self._gone()
        self._check_not_aborted(claim)

    def beat(self) -> None:
        """Give a sign of life, if the last one is long ago. Only `clean` needs it, so a failure
        here must not stop the writer. Of a job's many tasks one gives it for all: stores take few
        changes of one object a second."""
        if time.monotonic() - self._beaten < BEAT_SECONDS:
            return
        self._beaten = time.monotonic()
        with contextlib.suppress(OSError):
            self.look()

    def look(self) -> Claim | None:
        """Read the claim, and renew it if it is open and the last sign of life is long ago. So a
        job of many short tasks is alive, even if its driver is not there."""
        with self._lock.here:
            claim = self._read()
            if claim is not None and claim.state == "open" and self._seen is not None:
                now = self._now(claim)
                if claim.alive < now - BEAT_SECONDS / 2:
                    # once: if another change came first, that was a sign of life as well
                    data, etag, self._seen = claim.at(now).to_bytes(), self._seen[1], None
                    with contextlib.suppress(OSError):
                        swap(self._folder, self._name, data, etag)
            return claim

    def _now(self, claim: Claim) -> float:
        """Unix time, that goes on if the wall clock jumps back: at least as long after the claim's
        last change as this process has seen it unchanged."""
        seen = time.monotonic()
        if self._watched is None or self._watched[0].turn != claim.turn:
            self._watched = claim, seen
        return max(time.time(), claim.alive + seen - self._watched[1])

    def announce(self, shards: Sequence[Fingerprint]) -> None:
        """Note shards before they appear under plain names. ClaimLostError if they must not
        appear."""
        if not self._plain:
            return

        def noted(claim: Claim) -> Claim:
            self._check_not_aborted(claim)
            landing = tuple(dict.fromkeys((*claim.landing, *shards)))
            return claim.at(time.time(), landing=landing)

        self._change(noted)

    def propose(self, proposal: Proposal) -> None:
        """Go from open (or another proposal) to committing. ClaimLostError if the claim has
        ended."""

        def proposed(claim: Claim) -> Claim:
            self._check_not_aborted(claim)
            self._contested |= claim.state == "committing" and claim.by != self._id
            return claim.at(time.time(), state="committing", proposal=proposal, by=self._id)

        self._change(proposed)

    def take_over(self, proposal: Proposal) -> bool:
        """Become the process that puts the manifest. False if the claim has changed."""
        self._contested = True
        return self._changed(
            lambda claim: claim.at(time.time(), by=self._id),
            lambda claim: claim.proposal == proposal,
        )

    def withdraw(self, *, lost: bool) -> bool:
        """Go from committing back to open. Returns whether that was possible. It is not if another
        process puts the manifest, or did before: its request may be under way. It is if the
        proposal is ``lost``: another manifest has taken its place.
        """
        return self._changed(
            lambda claim: claim.at(time.time(), state="open", proposal=None, by=""),
            lambda claim: (
                claim.state == "open" or (claim.by == self._id and (lost or not self._contested))
            ),
        )

    def give_up(self, *, of: Proposal | None = None) -> bool:
        """Go to aborted. Returns whether it is aborted now, so that the writer's objects may be
        deleted. Not from committing, unless the proposal is ``of``: the caller knows that it can't
        land any more.
        """
        return self._changed(
            lambda claim: claim.at(time.time(), state="aborted", proposal=None, by=""),
            lambda claim: claim.state != "committing" or (of is not None and claim.proposal == of),
        )

    def release(self) -> None:
        """Delete the claim, as the very last step."""
        with self._lock.here:
            if self._plain:
                seen = self._seen or (self._read() and self._seen)
                if seen:
                    self._folder.delete_version(self._name, seen[1])
            else:
                self._folder.delete([self._name])
            self._seen = None

    def _changed(self, change: Callable[[Claim], Claim], allowed: Callable[[Claim], bool]) -> bool:
        """False if the claim is gone, or must not change so."""

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
        with self._lock.here:
            for _ in range(_TRIES):
                if self._seen is None and self._read() is None:
                    break
                assert self._seen is not None
                claim, etag = self._seen
                wanted = change(claim)
                done, new = swap(self._folder, self._name, wanted.to_bytes(), etag)
                self._seen = (wanted, new) if done and new is not None else None
                if done:
                    self._beaten = time.monotonic()
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
