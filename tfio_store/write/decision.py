"""The one request that commits a dataset, and its outcome."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tfio_store.dataset.names import DatasetNames
from tfio_store.storage.faults import may_arrive
from tfio_store.write.claim import Proposal

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder, FoundManifest

__all__ = ["UncertainCommitError", "decide", "uncertain"]


class UncertainCommitError(OSError):
    """The store did not say whether the manifest was written."""


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
