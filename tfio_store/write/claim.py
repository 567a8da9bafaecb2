"""The claim: a small object that a writer keeps from its beginning to its end.

It says which names are the writer's own, so that no two writers write the same object. A dead
writer leaves its claim behind. From it `clean` learns what to remove. A claim has a state, which
changes by compare-and-swap only, so that of all who act for one writer (copies of a job, `clean`)
one decides what becomes of it::

    open <─────> committing ──────> (deleted: the manifest landed)
      └────────────┴──> aborted ──> (deleted: nothing of the writer is left)

``committing`` holds the manifest that is about to be put, and who is to put it. Whoever finds such
a claim can finish the commit, but says so in the claim first: so the one who was at it before knows
that it can't take the decision back. Nobody deletes what the manifest names before another
manifest is in its place.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from tfio_store.dataset.fingerprint import Fingerprint
from tfio_store.dataset.names import DatasetNames

__all__ = ["Claim", "Proposal", "State", "read_claim"]

State = Literal["open", "committing", "aborted"]

_FORMAT = "tfio_store.claim"
_VERSION = 2
_STATES = ("open", "committing", "aborted")


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
    """What a claim object tells."""

    generation: str
    names: DatasetNames
    plain: bool = False
    """Whether it claims the plain names. (Its own name tells.)"""
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
    if document["state"] not in _STATES:
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
