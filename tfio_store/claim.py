"""The claim: a small object that a writer leaves from its beginning to its end.

It says which names are the writer's own, so that no two writers write the same object; and from the
claims that dead writers leave behind, `clean` learns what to remove.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfio_store.sharding import DatasetNames

if TYPE_CHECKING:
    from tfio_store.folder import Folder

__all__ = ["Claim", "claim_names", "read_claim"]

_FORMAT = "tfio_store.claim"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim object tells."""

    generation: str
    names: DatasetNames
    replaces: tuple[str, ...] = ()
    """What the writer will delete once its manifest has landed."""
    started: float = 0.0
    """Unix time."""
    plain: bool = False
    """Whether it claims the plain names (told by its own name)."""

    def could_name(self, filename: str) -> bool:
        """Whether a plain claim is one to this shard's name."""
        return self.plain and self.names.is_own_shard(filename)

    def to_bytes(self) -> bytes:
        document = {
            "format": _FORMAT,
            "generation": self.generation,
            "started": time.time(),
            "template": self.names.template,
            "num_shards": self.names.num_shards,
            "replaces": self.replaces,
        }
        return json.dumps(document).encode()


def claim_names(folder: Folder, claim: Claim, *, plain: bool) -> str | None:
    """Put the claim. The tag to put into names; None when the plain names are the writer's.

    They are, if nobody else claims them and, which nobody can change then, there is neither a
    manifest nor a file with a plain shard's name.
    """
    names, data = claim.names, claim.to_bytes()
    if plain and _put(folder, names.claim(None), data):
        present = folder.names()
        if names.manifest not in present and not any(map(names.is_plain_shard, present)):
            return None
        folder.delete([names.claim(None)])
    folder.put(names.claim(claim.generation), data)
    return claim.generation


def _put(folder: Folder, name: str, data: bytes) -> bool:
    try:
        folder.put(name, data, if_absent=True)
    except FileExistsError:
        found = folder.read(name)
        return found is not None and found[0] == data  # ours after all: the answer was lost
    return True


def read_claim(data: bytes, name: str, *, plain: bool) -> Claim | None:
    """The claim of a writer of the dataset ``name``; None for what is none that can be read."""
    try:
        document = json.loads(data)
        if document["format"] != _FORMAT:
            return None
        count = document["num_shards"]
        return Claim(
            generation=str(document["generation"]),
            names=DatasetNames(
                name, None if count is None else int(count), str(document["template"])
            ),
            replaces=tuple(map(str, document["replaces"])),
            started=float(document["started"]),
            plain=plain,
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
