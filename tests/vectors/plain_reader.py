"""A reader of datasets in plain Python, written by docs/format.md alone: it imports nothing of this
library. ``python plain_reader.py FOLDER/NAME`` prints how many records there are, and their CRC."""

from __future__ import annotations

import json
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple


class DamageError(Exception):
    """Something is not as the format says."""


def check(holds: object, reason: str) -> None:
    if not holds:
        raise DamageError(reason)


TABLE = list(range(256))
for _ in range(8):
    TABLE = [n >> 1 ^ (0x82F63B78 if n & 1 else 0) for n in TABLE]


def crc32c(data: bytes, crc: int = 0) -> int:
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def checked_name(name: str) -> str:
    bad = re.search(r"[\x00-\x1f\x7f\\%]", name) or {"", ".", ".."} & set(name.split("/"))
    check(not bad, f"{name!r} leaves the folder")
    return name


def numbers(layout: str, data: bytes, at: int, count: int) -> tuple[int, ...]:
    size = count * struct.calcsize(layout)
    check(0 <= size <= len(data) - at, "it claims more than it has")
    return struct.unpack_from(f"<{count}{layout}", data, at)


def sums_up(totals: tuple[int, ...], first: int, last: int) -> bool:
    return totals[0] == first and totals[-1] == last and all(a <= b for a, b in pairwise(totals))


def root_of(folder: Path, name: str) -> dict[str, Any]:
    data = (folder / f"_{name}.manifest.json").read_bytes()
    found = re.search(rb',\s*"crc32c": "([0-9a-f]{8})"\s*\}\s*\Z', data)
    right = found and crc32c(data[: found.start()]) == int(found[1], 16)
    check(right, "the root's checksum does not hold")
    root: dict[str, Any] = json.loads(data)
    check((root["format"], root["version"]) == ("tfio_store.dataset", 1), "another format")
    for key, column in (("shards", 6), ("records", 7), ("nbytes", 8)):
        check(root[key] == sum(page[column] for page in root["pages"]), f"{key} is no sum")
    places = sorted((page[0], page[1], page[1] + page[2]) for page in root["pages"])
    check(all(a[0] < b[0] or a[2] <= b[1] for a, b in pairwise(places)), "two pages overlap")
    return root


def section(folder: Path, place: list[Any], start: int, nbytes: int, kind: bytes) -> bytes:
    """The payload of one section, and behind it its CRC."""
    with open(folder / checked_name(place[0]), "rb") as file:
        check(file.read(16) == b"TFIOSIDX" + struct.pack("<II", 1, 0), "no index of version 1")
        file.seek(start)
        data = file.read(nbytes)
    check(len(data) == nbytes >= 24, "a section is cut off")
    check(struct.pack("<I", crc32c(data[:-4])) == data[-4:], "a section's checksum is wrong")
    found, length = struct.unpack_from("<8sQ", data)
    check(found.rstrip(b"\0") == kind, f"it is no {kind!r}")
    check((16 + length + 4 + 7) // 8 * 8 == nbytes, "a section has another length")
    return data[16 : 16 + length] + data[-4:]


class Shard(NamedTuple):
    name: str
    nbytes: int
    records: int
    blocks: int
    crc: int
    table: tuple[list[Any], int, int]  # its object, where it begins, and its bytes


def shards_of(folder: Path, root: dict[str, Any]) -> Iterator[Shard]:
    for obj, start, nbytes, crc, tables, at, *totals in root["pages"]:
        payload = section(folder, root["objects"][obj], start, nbytes, b"page")
        check(struct.unpack("<I", payload[-4:]) == (crc,), "the root means another page")
        n, name_bytes = struct.unpack_from("<II", payload)
        check(1 <= n <= 2048 and len(payload) == 12 + 36 * n + name_bytes, "a page is cut off")
        wide = [numbers("Q", payload, 8 + 8 * n * i, n) for i in range(3)]
        narrow = [numbers("I", payload, 8 + 24 * n + 4 * n * i, n) for i in range(3)]
        sums = [n, *map(sum, (wide[1], wide[0], wide[2], narrow[1]))]
        check(sums == totals, "the sums of a page are not those of the root")
        names = payload[8 + 36 * n : -4]
        for i, (begin, stop) in enumerate(pairwise((0, *narrow[2]))):
            name, (nbytes, records, blocks) = names[begin:stop].decode(), (c[i] for c in wide)
            table = root["objects"][tables], at, narrow[1][i]
            yield Shard(checked_name(name), nbytes, records, blocks, narrow[0][i], table)
            at += narrow[1][i]


class Blocks(NamedTuple):
    offsets: tuple[int, ...]
    raw_offsets: tuple[int, ...]
    records: tuple[int, ...]
    starts: tuple[int, ...] | None = None
    crcs: tuple[int, ...] | None = None
    sums: tuple[int, ...] | None = None


def table_of(folder: Path, shard: Shard, codec: str | None) -> Blocks | None:
    if not shard.table[2]:
        return None
    payload = section(folder, *shard.table, b"table")[:-4]
    *facts, flags = struct.unpack_from("<QQQII", payload)
    check(facts == list(shard[1:5]), "it is the table of another shard")
    columns, k, at = [], shard.blocks, 32
    for _ in range(3 if flags & 1 else 2):
        columns.append(numbers("q", payload, at, k + 1))
        at += 8 * (k + 1)
    first = columns[0][0] if not k else 2 if codec == "ZLIB" else 0
    check(sums_up(columns[0], first, shard.nbytes), "its offsets are wrong")
    check(sums_up(columns[-1], 0, shard.records), "its records are wrong")
    found = []
    n = shard.records
    for there, count in (flags & 2, n), (flags & 6 == 6, n), (flags & 4, k + 1):
        found.append(numbers("I", payload, at, count) if there else None)
        at += 4 * count if there else 0
    check(at == len(payload) and not (found[2] and found[2][0]), "its columns are wrong")
    return Blocks(columns[0], columns[-2], columns[-1], *found)


def inflated(data: bytes, codec: str | None) -> bytes:
    if codec == "GZIP":
        return zlib.decompress(data, 31)
    if codec == "ZLIB":  # a part of the stream
        return zlib.decompressobj(-15).decompress(data)
    if codec == "ZSTD":
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def frames(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Where each frame begins, its record, and the CRC behind it."""
    at = 0
    while at < len(data):
        length, crc = struct.unpack("<QI", data[at : at + 12])
        check(masked(crc32c(data[at : at + 8])) == crc, "a length's checksum does not hold")
        record, behind = data[at + 12 : at + 12 + length], data[at + 12 + length : at + 16 + length]
        crc = int.from_bytes(behind, "little")
        right = len(behind) == 4 and masked(crc32c(record)) == crc
        check(right, "a record's checksum does not hold")
        yield at, record, crc
        at += 16 + length


def records_of(folder: Path, shard: Shard, codec: str | None) -> Iterator[bytes]:
    data, table = (folder / shard.name).read_bytes(), table_of(folder, shard, codec)
    check((len(data), crc32c(data)) == (shard.nbytes, shard.crc), f"{shard.name} was replaced")
    if table is None:  # one stream that another program compressed
        yield from (record for _, record, _ in frames(zlib.decompress(data, 47)))
        return
    total = 0
    for b in range(len(table.offsets) - 1):
        raw = inflated(data[table.offsets[b] : table.offsets[b + 1]], codec)
        check(len(raw) == table.raw_offsets[b + 1] - table.raw_offsets[b], "a block's length")
        first, count = table.records[b], 0
        for begin, record, crc in frames(raw):
            check(table.starts is None or table.starts[first + count] == begin, "a start is wrong")
            check(table.crcs is None or table.crcs[first + count] == crc, "a CRC is wrong")
            total, count = crc32c(struct.pack("<I", crc), total), count + 1
            yield record
        check(first + count == table.records[b + 1], "a block has other records")
        check(table.sums is None or table.sums[b + 1] == total, "a block's sum is wrong")


def read(url: str | Path) -> Iterator[bytes]:
    """The records of the dataset ``FOLDER/NAME``."""
    folder, name = Path(url).parent, Path(url).name
    root = root_of(folder, name)
    for shard in shards_of(folder, root):
        yield from records_of(folder, shard, root["compression"])


if __name__ == "__main__":
    found = list(read(sys.argv[1]))
    print(f"{len(found)} records, {crc32c(b''.join(found)):08x}")
