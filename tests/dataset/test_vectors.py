"""Golden datasets, with indexes of both versions: they are read, and written again to the byte."""

from __future__ import annotations

import json
import struct
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import pytest

import tfio_store as tfs
from tests.vectors.make_datasets import DATASETS, HERE, RAW, records, write

Numbers = tuple[int, ...]

PLAIN, COMPRESSED, POSITIONED = 1, 2, 3

VERSIONS = {"index-1": 1, "index-2": 2, "index-1-gzip": 1}


def test_each_is_tested() -> None:
    assert set(VERSIONS) == set(DATASETS) == {folder.name for folder in HERE.iterdir()}


@pytest.mark.parametrize("name", DATASETS)
def test_a_golden_dataset_is_read(name: str) -> None:
    url = str(HERE / name / "train")
    assert list(tfs.RecordReader(url)) == records()
    source = tfs.RecordSource(url)
    assert [source[i] for i in range(len(source))] == records()
    assert source[[59, 0, 31, 31]] == [records()[i] for i in (59, 0, 31, 31)]
    assert tfs.verify(url).ok


@pytest.mark.parametrize("name", RAW)
def test_a_golden_dataset_is_written_again(name: str, tmp_path: Path) -> None:
    write(name, tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    golden = {path.name: path.read_bytes() for path in (HERE / name).iterdir()}
    generations = [
        json.loads(files["_train.manifest.json"])["generation"].encode()
        for files in (written, golden)
    ]
    manifest = written["_train.manifest.json"].replace(*generations)
    assert {**written, "_train.manifest.json": manifest} == golden


class Table(NamedTuple):
    """One shard of an index. ``starts`` is empty if there are none."""

    nbytes: int
    crc: int
    kind: int
    raw_offsets: Numbers
    firsts: Numbers
    starts: Numbers


def parsed(data: bytes) -> tuple[int, list[Table]]:
    """An index's version and tables, by nothing but the layout that the text of
    `tfio_store.dataset.block_tables` tells."""
    assert data[-4:] == struct.pack("<I", google_crc32c.value(data[:-4]))
    magic, version, count = struct.unpack_from("<8sII", data)
    assert magic == b"TFIOSIDX"
    heads = [struct.unpack_from("<QQQII", data, 16 + 32 * i) for i in range(count)]
    at, tables = 16 + 32 * count, []
    for nbytes, records_, blocks, crc, kind in heads:
        columns = [
            struct.unpack_from(f"<{blocks + 1}q", data, at + 8 * (blocks + 1) * i)
            for i in range(3 if kind == COMPRESSED else 2)
        ]
        at += 8 * (blocks + 1) * len(columns)
        assert columns[-1][-1] == records_
        tables.append(Table(nbytes, crc, kind, columns[-2], columns[-1], ()))
    for i, table in enumerate(tables):
        if table.kind == POSITIONED:
            tables[i] = table._replace(starts=struct.unpack_from(f"<{table.firsts[-1]}I", data, at))
            at += 4 * table.firsts[-1]
    assert at == len(data) - 4
    return version, tables


@pytest.mark.parametrize("name", DATASETS)
def test_a_golden_index_tells_of_its_shards(name: str) -> None:
    version, tables = parsed((HERE / name / "_train.index").read_bytes())
    kind = {"index-1": PLAIN, "index-2": POSITIONED, "index-1-gzip": COMPRESSED}[name]
    assert version == VERSIONS[name]
    for i, table in enumerate(tables):
        shard = (HERE / name / f"train-0000{i}-of-00002.tfrecord").read_bytes()
        assert table[:3] == (len(shard), google_crc32c.value(shard), kind)
        assert len(table.firsts) > 2  # several blocks
        offsets = frame_offsets(records()[30 * i : 30 * i + 30])
        assert table.raw_offsets == tuple(offsets[first] for first in table.firsts)
        if kind == POSITIONED:
            blocks = [sum(first <= n for first in table.firsts) - 1 for n in range(30)]
            begins = [offsets[n] - table.raw_offsets[blocks[n]] for n in range(30)]
            assert list(table.starts) == begins


def frame_offsets(found: list[bytes]) -> list[int]:
    """Where each record's frame begins, and where the last one ends."""
    return list(accumulate((len(record) + 16 for record in found), initial=0))
