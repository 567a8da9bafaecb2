"""Which versions of its files a state was taken of, as text.

A manifest tells a shard's CRC32C, which a copy of the dataset has too. Of another file the store
tells an etag. That says something only while the file lies where it lay: of a file with another
URL, or reached another way, nobody knows whether it is a copy.
"""

from __future__ import annotations

import zlib

from tfio_store.dataset.model import Dataset, Shard

__all__ = ["MOST_NAMED", "differing", "versions_text"]

MOST_NAMED = 64
"""The versions of so many files are told one by one. Of more, all are told by one number."""

_UNKNOWN = "?"


def versions_text(dataset: Dataset) -> str:
    """What `differing` compares: a digest of where the files lie, and a mark of each. Nothing of a
    long dataset, the list of which has CRCs of its own."""
    if dataset.paged is not None:
        return ""
    place = zlib.crc32(dataset.storage.backend.encode())
    for shard in dataset.shards:
        place = zlib.crc32(f"{shard.url}\0".encode(), place)
    marks = [_mark(shard) for shard in dataset.shards]
    if len(marks) > MOST_NAMED:
        kinds = {mark[0] for mark in marks}
        crc = zlib.crc32(" ".join(marks).encode())
        marks = [_UNKNOWN if len(kinds) > 1 else f"{kinds.pop()}{crc:08x}"]
    return " ".join([f"{place:08x}", *marks])


def _mark(shard: Shard) -> str:
    if shard.crc32c is not None:
        return f"c{shard.crc32c:08x}"
    etag = shard.version.etag
    if etag is None:
        return _UNKNOWN
    if "://" not in shard.url:  # without the inode, which other mounts of a filesystem number anew
        etag = etag.partition("-")[2]
    return f"e{zlib.crc32(etag.encode()):08x}"


def differing(theirs: str, ours: str) -> int | None:
    """The number of the first file of which two texts tell different versions, or None."""
    there, *others = theirs.split(" ")
    here, *marks = ours.split(" ")
    kinds = "ce" if there == here else "c"
    for number, (one, other) in enumerate(zip(others, marks, strict=False)):
        if one != other and one[:1] == other[:1] and one[:1] in kinds:
            return number
    return None
