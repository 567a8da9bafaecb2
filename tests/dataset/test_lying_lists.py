"""Long datasets whose root, list of shards or index lies, with every checksum as it should be.

Whoever reads one gets a named error, or the records that were written; and never much memory.
"""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.indexes import root_bytes, sealed, section
from tests.support.sharded import root, sharded
from tfio_store.errors import DataLossError, ManifestError, ReplacedError

RECORDS = [b"%d " % i + bytes(2000) for i in range(14)]
LIES = (0, (1 << 32) - 1, 1, 1 << 31, 3)
MOST_MEMORY = 8 << 20


pytestmark = pytest.mark.usefixtures("pages_of_three")


@pytest.fixture(params=[None, "GZIP"])
def written(request: pytest.FixtureRequest, memory: Place) -> Place:
    with sharded(memory, compression=request.param, block_bytes=4096) as writer:
        writer.write_batch(RECORDS)
    return memory


def put_root(place: Place, document: dict[str, Any]) -> None:
    place.put("ds/_train.manifest.json", root_bytes(document))


def check(place: Place) -> None:
    """Read in every way, and compare."""
    url = place.url("ds/train")
    for read in (
        lambda: list(tfs.RecordReader(url, memory_budget=1 << 20)),
        lambda: [one for i in range(2) for one in tfs.RecordReader(url).shard(i, 2)],
        lambda: tfs.RecordSource(url)[:],
    ):
        says, found = "", RECORDS
        try:
            found = read()
        except (ManifestError, DataLossError, FileNotFoundError, ReplacedError) as error:
            says = str(error)
        assert "ds/" in says or not says
        assert sorted(found) == sorted(RECORDS)


def words(data: bytes) -> Iterator[tuple[int, bytes]]:
    """``data`` with one word that lies, and where that is. Each word lies in its own way."""
    lies = cycle(LIES)
    for at in range(0, len(data) - 4, 4):
        changed = bytearray(data)
        struct.pack_into("<I", changed, at, next(lies))
        yield at, bytes(changed)


def test_no_word_of_a_page_makes_wrong_records(written: Place) -> None:
    document = root(written)
    row = document["pages"][0]
    name = "ds/" + document["objects"][row[0]][0]
    whole, (start, nbytes) = written.get(name), row[1:3]
    for _, page in words(whole[start : start + nbytes]):
        page = sealed(page[:-4])
        written.put(name, whole[:start] + page + whole[start + nbytes :])
        row[3] = int.from_bytes(page[-4:], "little")  # whoever lies here, can lie there
        put_root(written, document)
        check(written)


def test_no_word_of_a_table_makes_wrong_records(written: Place) -> None:
    (name,) = [name for name in written.names() if "_train.index" in name]
    whole = written.get(name)
    _, length = struct.unpack_from("<8sQ", whole, 16)
    nbytes = (16 + length + 4 + 7) // 8 * 8
    for _, table in words(whole[16 : 16 + nbytes]):
        written.put(name, whole[:16] + sealed(table[:-4]) + whole[16 + nbytes :])
        check(written)


@pytest.mark.parametrize("lie", [0, 1, (1 << 32) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, -1, None])
def test_no_number_of_the_root_makes_wrong_records_or_takes_memory(memory: Place, lie: Any) -> None:
    with sharded(memory, block_bytes=4096) as writer:
        writer.write_batch(RECORDS)
    honest = json.dumps(root(memory))
    tracemalloc.start()
    try:
        for page in range(2):
            for column in range(11):
                document = json.loads(honest)
                document["pages"][page][column] = lie
                put_root(memory, document)
                check(memory)
        for key in ("shards", "records", "nbytes", "version", "objects", "pages", "streams"):
            put_root(memory, {**json.loads(honest), key: lie})
            check(memory)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY


def _deny_first(place: Place, document: dict[str, Any], at: int) -> int:
    """The first shard's number at this byte of its row becomes 0, in a sealed page; what it was."""
    row = document["pages"][0]
    name = "ds/" + document["objects"][row[0]][0]
    whole, (start, nbytes) = place.get(name), row[1:3]
    page = bytearray(whole[start : start + nbytes])
    (first,) = struct.unpack_from("<Q", page, 16 + 8 + at)
    struct.pack_into("<Q", page, 16 + 8 + at, 0)
    lying = sealed(bytes(page[:-4]))
    place.put(name, whole[:start] + lying + whole[start + nbytes :])
    row[3] = int.from_bytes(lying[-4:], "little")
    return int(first)


@pytest.mark.parametrize("where", ["root", "page"])
@pytest.mark.parametrize(("none", "column", "at"), [("block", 9, 48), ("record", 7, 24)])
def test_records_without_a_block_and_blocks_without_a_record_are_refused(
    memory: Place, where: str, none: str, column: int, at: int
) -> None:
    """Who reads by blocks would pass the first by, and who looks for records the others."""
    with sharded(memory, block_bytes=4096) as writer:
        writer.write_batch(RECORDS)
    document, url = root(memory), memory.url("ds/train")
    row = document["pages"][0]
    denied = row[column] if where == "root" else _deny_first(memory, document, at)
    row[column] -= denied
    if none == "record":
        document["records"] -= denied
    put_root(memory, document)
    with pytest.raises(ManifestError, match=f"no {none}"):
        _ = list(tfs.RecordReader(url).shard(0, 1)) if none == "block" else tfs.RecordSource(url)[:]


def test_a_page_that_is_listed_twice_is_refused(memory: Place) -> None:
    with sharded(memory) as writer:
        writer.write_batch(RECORDS)
    document = root(memory)
    document["pages"] *= 2
    for total in ("shards", "records", "nbytes"):
        document[total] *= 2
    put_root(memory, document)
    with pytest.raises(ManifestError, match="two pages overlap in _train"):
        tfs.RecordSource(memory.url("ds/train"))


@pytest.mark.parametrize("quick", [False, True])
def test_verify_tells_of_a_shard_that_two_pages_name(memory: Place, quick: bool) -> None:
    with sharded(memory) as writer:
        writer.write_batch(RECORDS)
    document = root(memory)
    (name, nbytes) = document["objects"][0]
    memory.put("ds/_train.index.copy", memory.get("ds/" + name))
    rows = document["pages"]
    document["objects"] = [[name, nbytes], ["_train.index.copy", nbytes]]
    document["pages"] = [*rows, *([1, *row[1:]] for row in rows)]
    for total in ("shards", "records", "nbytes"):
        document[total] *= 2
    put_root(memory, document)
    report = tfs.verify(memory.url("ds/train"), quick=quick)
    assert not report.ok
    assert [problem.rpartition("/")[2] for problem in report.problems] == [
        f"{shard.name}: the list of shards names it more than once"
        for shard in writer.manifest.shards
    ]


@pytest.mark.parametrize("name", ["../train-0", "/etc/passwd", "a//b", "a%2fb", "s3://b/x", ".."])
def test_a_page_that_leaves_the_folder_is_refused(written: Place, name: str) -> None:
    document = root(written)
    row = document["pages"][1]  # of one shard
    path = "ds/" + document["objects"][row[0]][0]
    whole, (start, nbytes) = written.get(path), row[1:3]
    payload = whole[start + 16 : start + nbytes]
    assert struct.unpack_from("<I", payload) == (1,)
    numbers = struct.pack("<2I", 1, len(name)) + payload[8 : 8 + 24 + 8]
    lying = section(b"page", numbers + struct.pack("<I", len(name)) + name.encode())
    row[1], row[2], row[3] = len(whole), len(lying), int.from_bytes(lying[-4:], "little")
    document["objects"][row[0]][1] += len(lying)
    written.put(path, whole + lying)
    put_root(written, document)
    url = written.url("ds/train")
    with pytest.raises(ManifestError, match=r"_train\.index"):
        list(tfs.RecordReader(url).shard(0, 1))
    with pytest.raises(ManifestError, match=r"_train\.index"):
        tfs.RecordSource(url)[-1]
