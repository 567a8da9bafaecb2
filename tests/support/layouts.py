"""Datasets of any layout: so many records in each block of each shard, with or without an index."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from tests.support.framed import framed
from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.model import Dataset, Shard, Shards

__all__ = ["LAYOUTS", "Layout", "laid_out"]

Layout = Sequence[tuple[str, Sequence[int]]]
"""Of each shard, how it is kept, and how many records each of its blocks has."""

KINDS = ("raw", "gzip", "no index")

LAYOUTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.lists(st.sampled_from([0, 1, 1, 2, 3, 5, 8, 40]), min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=4,
)


@contextmanager
def laid_out(layout: Layout, nbytes: int = 0) -> Iterator[tuple[Dataset, list[bytes]]]:
    """A dataset of a layout, and its records in order, each of which takes so many bytes more. A
    shard "stream" is one GZIP stream without blocks."""
    records: list[bytes] = []
    shards = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (kind, counts) in enumerate(layout):
            blocks = []
            for count in counts:
                first = len(records)
                records += [b"%d:" % i + bytes(nbytes) for i in range(first, first + count)]
                blocks.append(framed(records[first:]))
            path = Path(folder) / f"s-{number}"
            shards.append(_shard(path, kind, blocks, counts))
        yield Dataset(Shards(shards)), records


def _shard(path: Path, kind: str, blocks: list[bytes], counts: Sequence[int]) -> Shard:
    if kind == "stream":
        path.write_bytes(gzip.compress(b"".join(blocks), 1))
        return Shard(str(path), path.stat().st_size, "GZIP")
    stored = [gzip.compress(block, 1) for block in blocks] if kind == "gzip" else blocks
    path.write_bytes(b"".join(stored))
    nbytes = path.stat().st_size
    if kind == "no index":
        return Shard(str(path), nbytes)
    offsets, raw, held = (
        np.append(0, np.cumsum(sizes, dtype=np.int64))
        for sizes in (list(map(len, stored)), list(map(len, blocks)), counts)
    )
    if kind == "raw":
        table = BlockTable(raw, raw, held)
        return Shard(str(path), nbytes, None, sum(counts), table)
    return Shard(str(path), nbytes, "GZIP", sum(counts), BlockTable(offsets, raw, held))
