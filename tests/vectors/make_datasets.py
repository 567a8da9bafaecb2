"""Writes the golden datasets of this folder: ``python -m tests.vectors.make_datasets [name …]``.

They are committed, so that later versions are held to what this one writes: shards, indexes and
roots; and, in ``damage.json``, what is to be changed in them to damage them, and the errors that
are due then. Write them anew only if the format shall change.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import tfio_store as tfs
import tfio_store.dataset.pages as pages
import tfio_store.write.parts as parts
from tests.support.framed import framed
from tests.support.indexes import root_bytes, sealed, section

HERE = Path(__file__).parent / "datasets"
ROOT, INDEX = "_train.manifest.json", "_train.index"

WRITERS: dict[str, dict[str, Any]] = {
    "raw": {"record_positions": False},
    "raw-starts": {"record_positions": True},
    "gzip": {"compression": "GZIP"},
    "zlib": {"compression": "ZLIB"},
    "zstd": {"compression": "ZSTD"},
}
"""Options of the writer, by the dataset's name."""

BY_RECORDS_ALONE = ("raw", "raw-starts")
"""Those whose bytes nothing but the records decides: neither a compressor nor random names."""


def records() -> list[bytes]:
    """The records of each dataset, in the order of its shards."""
    rng = random.Random("datasets")
    return [b"%d " % i + rng.randbytes(rng.choice((0, 1, 90, 1500))) for i in range(60)]


def written(folder: Path, these: list[bytes], **options: Any) -> None:
    """Half of the records in each of two shards, several blocks in each."""
    with tfs.ShardedWriter(
        str(folder / "train"),
        num_shards=2,
        block_bytes=4096,
        shard_for=lambda record: int(int(record.split()[0]) >= 30),
        **options,
    ) as writer:
        writer.write_batch(these)


def appended(folder: Path) -> None:
    """Ten records in each of six shards, of which three commits wrote two each."""
    for first in range(0, 60, 20):
        with tfs.ShardedWriter(
            str(folder / "train"), num_shards=2, if_exists="append" if first else "error",
            shard_for=lambda record: int(int(record.split()[0]) % 20 >= 10), keep_replaced=0,
        ) as writer:  # fmt: skip
            writer.write_batch(records()[first : first + 20])


def overwritten(folder: Path) -> None:
    written(folder, [b"0 of before"])
    written(folder, records(), if_exists="overwrite", keep_replaced=0)


def paged(folder: Path) -> None:
    """Pages of two shards, one of them in an object of its own, as of a long dataset."""
    with mock.patch.object(pages, "WHOLE_BYTES", -1), mock.patch.object(parts, "PAGE_SHARDS", 2):
        appended(folder)


def streams(folder: Path) -> None:
    """Two files that another program compressed, as streams, with indexes of their own."""
    for i in range(2):
        data = gzip.compress(framed(records()[30 * i : 30 * i + 30]), mtime=0)
        (folder / f"part-{i}.gz").write_bytes(data)
    tfs.build_index(str(folder / "part-*.gz"), str(folder / "train"))


def episodes(folder: Path) -> None:
    """A folder as TensorFlow Datasets lays it out, whose steps have an index; without a root."""
    features = {"steps": {"x": "int64"}}
    with tfs.EpisodeWriter(folder / "arm" / "1.0.0", features, num_shards=2) as writer:
        for length in LENGTHS:
            writer.write({"steps": [{"x": x} for x in range(length)]})


LENGTHS = (3, 1, 4, 1, 5)

DATASETS: dict[str, Callable[[Path], None]] = {
    "appended": appended,
    "overwritten": overwritten,
    "paged": paged,
    "streams": streams,
    "episodes": episodes,
}


def write(name: str, folder: Path) -> None:
    """Write a golden dataset ``train``."""
    if name in WRITERS:
        written(folder, records(), **WRITERS[name])
    else:
        DATASETS[name](folder)


# Damage


class Damage(NamedTuple):
    """Bytes ``start:stop`` of a file become others; of ``stop`` None all that follow. Without
    ``data`` the file goes. The ``error`` that is due, and what it ``says``."""

    kind: str
    of: str
    changes: Sequence[tuple[str, int, int | None, str | None]]
    error: str
    says: str


def damages() -> Iterator[Damage]:
    """Every kind of damage to the datasets that are there."""
    for name in ("raw", "raw-starts", "gzip", "zlib", "zstd", "paged"):
        yield from _of_roots(name)
        yield from _of_indexes(name)
        yield from _of_shards(name)


def _of(name: str, file: str) -> bytes:
    return (HERE / name / file).read_bytes()


def _root(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_of(name, ROOT))
    return found


def _lying_root(kind: str, name: str, document: dict[str, Any], says: str) -> Damage:
    data = root_bytes(document).hex()
    return Damage(f"root: {kind}", name, [(ROOT, 0, None, data)], "ManifestError", says)


def _of_roots(name: str) -> Iterator[Damage]:
    data, root = _of(name, ROOT), _root(name)
    at = data.index(b'"records": ') + 11
    flipped = bytes([data[at] ^ 1]).hex()
    yield Damage("root: flipped", name, [(ROOT, at, at + 1, flipped)], "ManifestError", "CRC32C")
    yield Damage("root: cut", name, [(ROOT, 200, None, "")], "ManifestError", "not a manifest")
    yield Damage("root: empty", name, [(ROOT, 0, None, "")], "ManifestError", "not a manifest")
    yield _lying_root("version", name, root | {"version": 2}, "version 2")
    yield _lying_root("format", name, root | {"format": "other"}, "format")
    yield _lying_root("total", name, root | {"records": root["records"] + 1}, "records")
    outside = [["../" + root["objects"][0][0], root["objects"][0][1]], *root["objects"][1:]]
    yield _lying_root("outside", name, root | {"objects": outside}, "not a name inside")
    twice = {key: 2 * root[key] for key in ("shards", "records", "nbytes", "pages")}
    yield _lying_root("a page twice", name, root | twice, "overlap")


def _of_indexes(name: str) -> Iterator[Damage]:
    root = _root(name)
    row = root["pages"][0]
    page_of, table_of = root["objects"][row[0]][0], root["objects"][row[4]][0]
    page = _of(name, page_of)[row[1] : row[1] + row[2]]
    size = 16 + struct.unpack_from("<Q", _of(name, table_of), row[5] + 8)[0] + 4
    size += -size % 8
    table = _of(name, table_of)[row[5] : row[5] + size]

    def changed(kind: str, file: str, at: int, old: bytes, new: bytes, says: str) -> Damage:
        changes = [(file, at, at + len(old), new.hex())]
        return Damage(f"index: {kind}", name, changes, "ManifestError", says)

    def flipped(data: bytes, at: int) -> bytes:
        return data[:at] + bytes([data[at] ^ 8]) + data[at + 1 :]

    def lying(data: bytes, layout: str, at: int, value: int) -> bytes:
        body = bytearray(data[:-4])
        struct.pack_into(layout, body, at, value)
        return sealed(bytes(body))

    if name != "paged":  # of which the header is not read
        yield changed("header", page_of, 8, b"\1", b"\2", "version 2")
        yield changed("magic", page_of, 0, b"TFIO", b"xxxx", "does not begin")
    yield changed("page flipped", page_of, row[1], page, flipped(page, 30), "checksum")
    other = lying(page, "<Q", 16 + 8, 99)
    yield changed("another page", page_of, row[1], page, other, "page")
    yield changed("table flipped", table_of, row[5], table, flipped(table, 50), "checksum")
    wrong = section(b"page", table[16:-4])
    yield changed("another section", table_of, row[5], table, wrong[: len(table)], "kind|payload")
    yield changed("another table", table_of, row[5], table, lying(table, "<I", 40, 1), "another")
    down = lying(table, "<q", 48 + 8, 1 << 40)
    yield changed("totals go down", table_of, row[5], table, down, "go down|are not those")
    flags = lying(table, "<I", 44, 8)
    yield changed("unknown flags", table_of, row[5], table, flags, "unknown kind")
    cut = [(page_of, row[1] + 20, None, "")]
    yield Damage("index: cut", name, cut, "ManifestError", "page|index of")
    gone = [(page_of, 0, None, None)]
    yield Damage("index: missing", name, gone, "FileNotFoundError", page_of)
    sums = len(table) - 4 - (-(16 + struct.unpack_from("<Q", table, 8)[0] + 4) % 8) - 4
    crossed = [(table_of, row[5], row[5] + size, lying(table, "<I", sums, 1).hex())]
    yield Damage("index: a sum", name, crossed, "ReplacedError", "other records|replaced")


def _of_shards(name: str) -> Iterator[Damage]:
    first = sorted(path.name for path in (HERE / name).glob("*train-*00000*.tfrecord"))[0]
    data = _of(name, first)
    yield Damage("shard: missing", name, [(first, 0, None, None)], "FileNotFoundError", first)
    cut = [(first, len(data) // 2, None, "")]
    yield Damage("shard: cut", name, cut, "TruncatedRecordError", first)
    at = len(data) // 3
    flip = [(first, at, at + 1, bytes([data[at] ^ 4]).hex())]
    yield Damage("shard: flipped", name, flip, "CorruptRecordError", first)


def main() -> None:
    for name in sys.argv[1:] or (*WRITERS, *DATASETS):
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir(parents=True)
        write(name, HERE / name)
    lines = (json.dumps(damage._asdict()) for damage in damages())
    (HERE / "damage.json").write_text("[" + ",\n".join(lines) + "]\n")


if __name__ == "__main__":
    main()
