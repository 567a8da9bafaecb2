"""Manifest and index: there and back, and every kind of hostile input."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from itertools import product
from typing import Any

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, strategies as st

from tfio_store.dataset.checks import check_name
from tfio_store.dataset.manifest import (
    BlockTable,
    DatasetManifest,
    Fingerprint,
    Replaced,
    ShardInfo,
)
from tfio_store.errors import ManifestError
from tfio_store.records.framing import crc32c


def table(*rows: list[int]) -> BlockTable:
    arrays = [np.array(row, np.int64) for row in rows]
    return BlockTable(arrays[0], arrays[-2], arrays[-1])


SHARDS = (
    ShardInfo("train-0", 100, 7, 0xDEADBEEF, table([0, 60, 100], [0, 600, 900], [0, 3, 7])),
    ShardInfo("train-1", 50, 1, 1),
    ShardInfo("train-2", 0, 0, 0, table([0], [0], [0])),
)
MANIFEST = DatasetManifest(
    SHARDS, "GZIP", schema={"x": "float"}, metadata={"by": "test"}, index="_train.index"
)


STARTS = np.array([0, 20, 0, 16, 32], np.uint32)
POSITIONED = DatasetManifest(
    (
        ShardInfo("train-0", 95, 5, 1, replace(table([0, 40, 95], [0, 2, 5]), starts=STARTS)),
        ShardInfo("train-1", 50, 1, 1),
        ShardInfo("train-2", 30, 1, 2, table([0, 30], [0, 1])),
    ),
    None,
    index="_train.index",
)


def without_blocks(manifest: DatasetManifest) -> DatasetManifest:
    return DatasetManifest.from_bytes(manifest.to_bytes())


def told(manifest: DatasetManifest) -> dict[str, Any]:
    """What it says, for those who change it."""
    document: dict[str, Any] = json.loads(manifest.to_bytes())
    del document["crc32c"]
    return document


def test_there_and_back() -> None:
    plain = without_blocks(MANIFEST)
    assert [shard.blocks for shard in plain.shards] == [None] * 3
    assert (plain.records, plain.nbytes, plain.schema) == (8, 150, {"x": "float"})
    assert plain.with_index(MANIFEST.index_bytes()) == MANIFEST


def test_positions_there_and_back() -> None:
    assert (MANIFEST.index_bytes()[8], POSITIONED.index_bytes()[8]) == (1, 2)
    assert without_blocks(POSITIONED).with_index(POSITIONED.index_bytes()) == POSITIONED
    forgotten = replace(
        POSITIONED,
        shards=tuple(
            replace(shard, blocks=shard.blocks and replace(shard.blocks, starts=None))
            for shard in POSITIONED.shards
        ),
    )
    assert forgotten != POSITIONED
    assert forgotten.index_bytes()[8] == 1


def test_an_uncompressed_table_keeps_one_array_for_both_offsets() -> None:
    offsets = np.array([0, 50, 90], np.int64)
    blocks = BlockTable(offsets, offsets, np.array([0, 1, 2], np.int64))
    manifest = DatasetManifest((ShardInfo("s", 90, 2, 3, blocks),), None)
    found = without_blocks(manifest).with_index(manifest.index_bytes()).shards[0].blocks
    assert found == blocks
    assert found is not None
    assert found.raw_offsets is found.offsets
    compressed = without_blocks(MANIFEST).with_index(MANIFEST.index_bytes()).shards[0].blocks
    assert compressed is not None
    assert compressed.raw_offsets is not compressed.offsets


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "s3://other/x", "file:x",
        "\udcff", "C:\\x", "a\\b", "a\0b", "a\nb", "~/x", "%2e%2e/x", "x?versionId=1", "x#y",
        "a::b",
    ],
)  # fmt: skip
def test_names_that_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"not a name|begins with"):
        check_name(name)
    for key in ("index", "shard"):
        document = told(MANIFEST)
        if key == "index":
            document["index"] = name
        else:
            document["shards"][1]["name"] = name
        with pytest.raises(ManifestError, match=r"s3://b/_m\.json"):
            DatasetManifest.from_bytes(json.dumps(document).encode(), path="s3://b/_m.json")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("format", "other", "format"),
        ("version", 3, "version 3"),
        ("version", 2, "shards"),
        ("version", None, "version"),
        ("compression", "LZMA", "compression"),
        ("shards", {}, "shards"),
        ("shards", [1], "not an object"),
        ("records", 9, "records"),
        ("nbytes", -1, "nbytes"),
        ("schema", [], "schema"),
    ],
)
def test_wrong_fields_are_named(key: str, value: Any, says: str) -> None:
    document = told(MANIFEST)
    document[key] = value
    with pytest.raises(ManifestError, match=says):
        DatasetManifest.from_bytes(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [("nbytes", 1.5), ("nbytes", True), ("records", -1), ("records", 1 << 63), ("crc32c", 5),
     ("crc32c", "xyz"), ("name", None), ("name", "train-0")],
)  # fmt: skip
def test_wrong_fields_of_a_shard_are_refused(key: str, value: Any) -> None:
    document = told(MANIFEST)
    document["shards"][1][key] = value
    with pytest.raises(ManifestError):
        DatasetManifest.from_bytes(json.dumps(document).encode())


def test_each_flipped_bit_is_found() -> None:
    gone = (Replaced(5e9, (Fingerprint("train-9", 5, 6),)),)
    whole = replace(MANIFEST, generation="ab", history=("cd",), replaced=gone)
    data = whole.to_bytes()
    assert without_blocks(whole) == DatasetManifest.from_bytes(data)
    body, _, crc = data.rpartition(b",")
    assert json.loads(b"{" + crc) == {"crc32c": f"{google_crc32c.value(body):08x}"}
    for at, bit in product(range(len(data)), range(8)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << bit
        with pytest.raises(ManifestError):
            DatasetManifest.from_bytes(flipped)


def test_an_edited_manifest_says_what_to_do() -> None:
    document = json.loads(MANIFEST.to_bytes()) | {"metadata": {"by": "hand"}}
    with pytest.raises(ManifestError, match='edited by hand, remove "crc32c"'):
        DatasetManifest.from_bytes(json.dumps(document).encode())
    del document["crc32c"]
    found = DatasetManifest.from_bytes(json.dumps(document).encode())
    assert found.metadata == {"by": "hand"}


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b"{"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestError):
        DatasetManifest.from_bytes(data)


@given(st.binary(max_size=300))
def test_random_bytes_are_no_index(data: bytes) -> None:
    with pytest.raises(ManifestError):
        MANIFEST.with_index(data)


@pytest.mark.parametrize("flip", range(0, 8 * 200, 13))
def test_a_flipped_bit_of_an_index_is_noticed(flip: int) -> None:
    data = bytearray(MANIFEST.index_bytes())
    data[flip // 8 % len(data)] ^= 1 << flip % 8
    with pytest.raises(ManifestError):
        MANIFEST.with_index(data)


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", crc32c(body))


@pytest.mark.parametrize(
    ("position", "layout", "value", "says"),
    [
        (8, "<I", 9, "version 9"),
        (12, "<I", 1 << 31, "shards"),
        (16 + 16, "<Q", 1 << 60, "blocks"),
        (16 + 16, "<Q", (1 << 64) - 1, "blocks"),
        (16 + 28, "<I", 8, "unknown kind"),
        (16, "<Q", 99, "another train-0"),
        (112, "<q", -5, "begin at 0|go down"),
        (112 + 8, "<q", 101, "go down"),
        (112 + 16, "<q", 101, "not those of the shard"),
        (112 + 24, "<q", 1, "begin at 0"),
    ],
)
def test_an_index_that_lies_under_a_valid_checksum(
    position: int, layout: str, value: int, says: str
) -> None:
    body = bytearray(MANIFEST.index_bytes()[:-4])
    struct.pack_into(layout, body, position, value)
    with pytest.raises(ManifestError, match=says):
        MANIFEST.with_index(sealed(bytes(body)))


STARTS_AT = 16 + 3 * 32 + 8 * (3 + 3 + 2 + 2)


@pytest.mark.parametrize(
    ("position", "layout", "value", "says"),
    [
        (8, "<I", 1, "version 1 does not know"),
        (8, "<I", 3, "version 3"),
        (16 + 28, "<I", 2, "claims|go down|begin at 0|not those|follow"),
        (16 + 2 * 32 + 28, "<I", 3, "more than have a start|starts, more than there are bytes"),
        (16 + 8, "<Q", 1 << 62, "another train-0"),
        (STARTS_AT, "<I", 1, "begin with the block"),
        (STARTS_AT + 8, "<I", 1, "begin with the block"),
        (STARTS_AT + 4, "<I", 15, "closer"),
        (STARTS_AT + 4, "<I", 25, "closer"),
        (STARTS_AT + 4, "<I", 0xFFFFFFFF, "closer"),
        (STARTS_AT + 12, "<I", 33, "closer"),
        (STARTS_AT + 16, "<I", 0, "closer"),
        (STARTS_AT + 16, "<I", 40, "closer"),
    ],
)
def test_positions_that_lie_under_a_valid_checksum(
    position: int, layout: str, value: int, says: str
) -> None:
    body = bytearray(POSITIONED.index_bytes()[:-4])
    struct.pack_into(layout, body, position, value)
    with pytest.raises(ManifestError, match=says):
        without_blocks(POSITIONED).with_index(sealed(bytes(body)))


def test_bytes_behind_the_tables_are_refused() -> None:
    with pytest.raises(ManifestError, match="8 bytes follow"):
        MANIFEST.with_index(sealed(MANIFEST.index_bytes()[:-4] + bytes(8)))


def test_the_index_of_another_generation_is_refused() -> None:
    other = DatasetManifest((*SHARDS[:1], ShardInfo("train-1", 51, 1, 1), SHARDS[2]), "GZIP")
    with pytest.raises(ManifestError, match="another train-1"):
        without_blocks(other).with_index(MANIFEST.index_bytes())


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999"])
@pytest.mark.parametrize("key", ["replaced", "metadata"])
def test_numbers_that_could_not_be_written_again_are_refused(key: str, number: str) -> None:
    """Who overwrites the dataset takes them along: it could never be overwritten."""
    document = told(MANIFEST)
    put = {"replaced": [{"until": 0.5, "objects": []}], "metadata": {"x": 0.5}}[key]
    data = json.dumps({**document, key: put}).replace("0.5", number)
    with pytest.raises(ManifestError, match=number):
        DatasetManifest.from_bytes(data.encode())
