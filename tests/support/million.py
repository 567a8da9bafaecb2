"""A dataset of up to a million shards and a billion blocks, which takes next to no room.

All pages of its list are copies of one, and have the same tables, which are copies of one. All
shards are one file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.support.framed import framed
from tfio_store.dataset.block_tables import BlockTable, ShardInfo, encode_table
from tfio_store.dataset.container import HEADER_BYTES, container, section_crc
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.pages import Pages
from tfio_store.dataset.shard_page import (
    PAGE_SHARDS,
    IndexObject,
    Listed,
    PageRef,
    decode_page,
    encode_page,
)
from tfio_store.records.framing import crc32c

__all__ = ["BLOCKS", "LIST", "NAME", "many", "record", "write_many"]

BLOCKS = 1000
"""Blocks of each shard, of one record each."""

NAME = "_train-{:05d}-of-1000000.tfrecord.0123456789ab-01234567"
LIST = "_train.index.0123456789ab-00000000"
TABLES = "_train.index.0123456789ab-00000001"


def record(number: int) -> bytes:
    """A record of any shard, by its number there."""
    return b"%04d" % number


class Many(NamedTuple):
    """A dataset of equal shards and equal pages, encoded."""

    table: bytes
    page: bytes
    listed: list[Listed]
    """The rows of the page."""
    manifest: DatasetManifest


def many(shard: ShardInfo, name: str, pages: int) -> Many:
    """The dataset ``train`` of so many full pages, all of whose shards are like this one."""
    table = encode_table(shard)
    size = len(table)
    listed = [
        Listed(ShardInfo(name.format(i), shard.nbytes, BLOCKS, shard.crc32c), BLOCKS, i * size,
               size)
        for i in range(PAGE_SHARDS)
    ]  # fmt: skip
    page = encode_page(listed)
    totals, crc = decode_page(page).totals, section_crc(page)
    index = IndexObject(LIST, HEADER_BYTES + pages * len(page))
    tables = IndexObject(TABLES, HEADER_BYTES + totals.table_nbytes)
    refs = [
        PageRef(index, HEADER_BYTES + i * len(page), len(page), crc, tables, HEADER_BYTES, totals)
        for i in range(pages)
    ]
    shards = Pages(refs, None, raw=True)
    return Many(table, page, listed, DatasetManifest(shards, None, generation="0123456789ab"))


def write_many(folder: Path, pages: int) -> str:
    """Write the dataset ``train`` of so many full pages. Returns its path."""
    frames = [framed([record(i)]) for i in range(BLOCKS)]
    offsets = np.append(0, np.cumsum([len(each) for each in frames], dtype=np.int64))
    data = b"".join(frames)
    blocks = BlockTable(offsets, offsets, np.arange(BLOCKS + 1, dtype=np.int64))
    shard = ShardInfo("any", len(data), BLOCKS, crc32c(data), blocks)
    table, page, listed, manifest = many(shard, NAME, pages)
    (folder / TABLES).write_bytes(container([table] * PAGE_SHARDS))
    with (folder / LIST).open("wb") as file:
        file.write(container([]))
        for _ in range(pages):
            file.write(page)
    (folder / "_train.manifest.json").write_bytes(manifest.to_bytes())
    (folder / "any").write_bytes(data)
    for each in listed:
        (folder / each.shard.name).symlink_to("any")
    return str(folder / "train")
