"""Golden datasets, with indexes of every version: they are read, and written again to the byte."""

from __future__ import annotations

import json
import struct
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import pytest

import tfio_store as tfs
from tests.vectors.make_datasets import DATASETS, HERE, LONG, RAW, records, write

Numbers = tuple[int, ...]

PLAIN, COMPRESSED, POSITIONED = 1, 2, 3

SUMMED = 4

VERSIONS = {
    "index-1": 1, "index-2": 2, "index-1-gzip": 1, "index-4": 4, "index-4-positions": 4,
    "index-4-gzip": 4,
}  # fmt: skip
KINDS = {
    "index-1": PLAIN, "index-2": POSITIONED, "index-3": POSITIONED, "index-4": PLAIN + SUMMED,
    "index-4-positions": POSITIONED + SUMMED, "index-4-gzip": COMPRESSED + SUMMED,
}  # fmt: skip


def test_each_is_tested() -> None:
    assert {*VERSIONS, *LONG} == set(DATASETS) == {folder.name for folder in HERE.iterdir()}


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
    for files in (written, golden):  # the generation is random
        body, _, crc = files["_train.manifest.json"].rpartition(b",")
        assert json.loads(b"{" + crc) == {"crc32c": f"{google_crc32c.value(body):08x}"}
        files["_train.manifest.json"] = body
    written["_train.manifest.json"] = written["_train.manifest.json"].replace(*generations)
    assert written == golden


class Table(NamedTuple):
    """One shard of an index. ``starts``, ``crcs`` and ``sums`` are empty if there are none."""

    nbytes: int
    crc: int
    kind: int
    raw_offsets: Numbers
    firsts: Numbers
    starts: Numbers
    crcs: Numbers = ()
    sums: Numbers = ()


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
            for i in range(3 if kind & ~SUMMED == COMPRESSED else 2)
        ]
        at += 8 * (blocks + 1) * len(columns)
        assert columns[-1][-1] == records_
        tables.append(Table(nbytes, crc, kind, columns[-2], columns[-1], ()))
    for i, table in enumerate(tables):
        positioned, summed = table.kind & ~SUMMED == POSITIONED, table.kind & SUMMED
        counts = {
            "starts": table.firsts[-1] if positioned else 0,
            "crcs": table.firsts[-1] if positioned and summed else 0,
            "sums": len(table.firsts) if summed else 0,
        }
        found: dict[str, Any] = {}
        for name, n in counts.items():
            found[name] = struct.unpack_from(f"<{n}I", data, at)
            at += 4 * n
        tables[i] = table._replace(**found)
    assert at == len(data) - 4
    return version, tables


def long_parsed(folder: Path) -> list[tuple[str, Table]]:
    """The names and tables of a dataset with a list of shards, by nothing but what docs/format.md
    tells."""
    root = json.loads((folder / "_train.manifest.json").read_bytes())
    assert (root["format"], root["version"], root["index"]) == ("tfio_store.dataset", 2, None)
    found = []
    for number, start, nbytes, *sums, crc in root["shards"]["pages"]:
        data = (folder / root["shards"]["objects"][number]).read_bytes()
        assert struct.unpack_from("<8sII", data) == (b"TFIOSLST", 1, 1)
        page = data[start : start + nbytes]
        assert crc == google_crc32c.value(page[:-4]) == struct.unpack("<I", page[-4:])[0]
        n, m, a, b = struct.unpack_from("<4I", page)
        assert 16 + 52 * n + 4 * m + a + b + 4 == nbytes
        wide = [struct.unpack_from(f"<{n}Q", page, 16 + 8 * n * i) for i in range(5)]
        narrow = [struct.unpack_from(f"<{n}I", page, 16 + 40 * n + 4 * n * i) for i in range(3)]
        index_stops = struct.unpack_from(f"<{m}I", page, 16 + 52 * n)
        assert sums == [n, *map(sum, (wide[1], wide[0], wide[2]))]
        names = cut(page[-4 - a - b : -4 - b], narrow[2])
        indexes = cut(page[-4 - b : -4], index_stops)
        for i, name in enumerate(names):
            place = folder / indexes[narrow[1][i]]
            table = table_at(place.read_bytes(), wide[3][i], wide[4][i])
            assert table[:2] == (wide[0][i], narrow[0][i])
            assert (table.firsts[-1], len(table.firsts) - 1) == (wide[1][i], wide[2][i])
            found.append((name, table))
    return found


def cut(data: bytes, stops: Numbers) -> list[str]:
    return [data[a:b].decode() for a, b in pairwise((0, *stops))]


def table_at(index: bytes, start: int, nbytes: int) -> Table:
    assert struct.unpack_from("<8sII", index) == (b"TFIOSIDX", 3, 2)
    data = index[start : start + nbytes]
    assert struct.unpack("<I", data[-4:])[0] == google_crc32c.value(data[:-4])
    stored, count, blocks, crc, kind = struct.unpack_from("<QQQII", data)
    columns = [
        struct.unpack_from(f"<{blocks + 1}q", data, 32 + 8 * (blocks + 1) * i)
        for i in range(3 if kind == COMPRESSED else 2)
    ]
    at = 32 + 8 * (blocks + 1) * len(columns)
    starts = struct.unpack_from(f"<{count if kind == POSITIONED else 0}I", data, at)
    rest = data[at + 4 * len(starts) : -4]
    assert rest == bytes(len(rest))
    assert len(rest) < 8
    assert nbytes % 8 == 0
    return Table(stored, crc, kind, columns[-2], columns[-1], starts)


@pytest.mark.parametrize("name", VERSIONS)
def test_a_golden_index_tells_of_its_shards(name: str) -> None:
    version, tables = parsed((HERE / name / "_train.index").read_bytes())
    assert version == VERSIONS[name]
    check(name, [(f"train-0000{i}-of-00002.tfrecord", table) for i, table in enumerate(tables)])


@pytest.mark.parametrize("name", LONG)
def test_a_golden_list_tells_of_its_shards(name: str) -> None:
    check(name, long_parsed(HERE / name))


def check(name: str, tables: list[tuple[str, Table]]) -> None:
    kind = KINDS.get(name, COMPRESSED)
    assert len(tables) == 2
    for i, (shard_name, table) in enumerate(tables):
        shard = (HERE / name / shard_name).read_bytes()
        assert table[:3] == (len(shard), google_crc32c.value(shard), kind)
        assert len(table.firsts) > 2  # several blocks
        offsets = frame_offsets(records()[30 * i : 30 * i + 30])
        assert table.raw_offsets == tuple(offsets[first] for first in table.firsts)
        if kind & ~SUMMED == POSITIONED:
            blocks = [sum(first <= n for first in table.firsts) - 1 for n in range(30)]
            begins = [offsets[n] - table.raw_offsets[blocks[n]] for n in range(30)]
            assert list(table.starts) == begins
        if kind & SUMMED:
            assert table.sums == sums_of(records()[30 * i : 30 * i + 30], table.firsts)


def sums_of(found: list[bytes], firsts: Numbers) -> Numbers:
    """What runs on over the masked CRC of each record, where each block ends."""
    crc, sums = 0, []
    for n, record in enumerate(found):
        if n in firsts:
            sums.append(crc)
        plain = google_crc32c.value(record)
        masked = ((plain >> 15 | plain << 17) + 0xA282EAD8) & 0xFFFFFFFF
        crc = google_crc32c.extend(crc, struct.pack("<I", masked))
    return (*sums, crc)


def frame_offsets(found: list[bytes]) -> list[int]:
    """Where each record's frame begins, and where the last one ends."""
    return list(accumulate((len(record) + 16 for record in found), initial=0))
