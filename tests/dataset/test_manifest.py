"""The manifest: there and back, and every kind of hostile input."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest

import tfio_store as tfs
from tests.support.indexes import changed_root, put_dataset, root_bytes
from tfio_store.dataset.checks import check_name
from tfio_store.dataset.manifest import (
    BlockTable,
    DatasetManifest,
    Fingerprint,
    Growth,
    Replaced,
    ShardInfo,
    listing_of,
)
from tfio_store.errors import ManifestError


def table(*rows: list[int]) -> BlockTable:
    arrays = [np.array(row, np.int64) for row in rows]
    return BlockTable(arrays[0], arrays[-2], arrays[-1])


SHARDS = (
    ShardInfo("train-0", 100, 7, 0xDEADBEEF, table([0, 60, 100], [0, 600, 900], [0, 3, 7])),
    ShardInfo("train-1", 50, 1, 1),
    ShardInfo("train-2", 0, 0, 0, table([0], [0], [0])),
)
ROOT = put_dataset("memory://test_manifest/root", DatasetManifest(SHARDS, "GZIP")).to_bytes()


@pytest.fixture(scope="module")
def committed() -> DatasetManifest:
    """A dataset of these shards, whose index is in memory."""
    described = DatasetManifest(SHARDS, "GZIP", schema={"x": "float"}, metadata={"by": "test"})
    return put_dataset("memory://test_manifest/train", described)


def test_there_and_back(committed: DatasetManifest) -> None:
    listing = listing_of(committed)
    again = DatasetManifest.from_bytes(committed.to_bytes(), folder=listing.folder)
    assert again == committed
    assert (again.records, again.nbytes, again.schema) == (8, 150, {"x": "float"})
    assert again.names() == {"train-0", "train-1", "train-2", "_train.index"}
    assert tuple(again.shards) == SHARDS
    assert again.shards[-2] == SHARDS[1]
    assert json.loads(committed.to_bytes())["streams"] == 1  # of train-1


def test_what_no_index_lists_is_no_root() -> None:
    described = DatasetManifest(SHARDS, "GZIP")
    assert described.names() == {"train-0", "train-1", "train-2"}
    with pytest.raises(ValueError, match="no index has been put"):
        described.to_bytes()


def test_a_dataset_without_shards(tmp_path: Path) -> None:
    empty = put_dataset(tmp_path / "train", DatasetManifest((), None))
    assert (len(empty.shards), empty.records, empty.parts()) == (0, 0, set())
    assert list(tfs.RecordReader(tmp_path / "train")) == []


def test_a_root_says_where_its_index_lies(committed: DatasetManifest) -> None:
    document = json.loads(committed.to_bytes())
    (index,), (page,) = document["objects"], document["pages"]
    assert index[0] == "_train.index"
    assert page == [0, index[1] - page[2], page[2], page[3], 0, 16, 3, 8, 150, 2, page[1] - 16]
    alone = DatasetManifest.from_bytes(committed.to_bytes())
    with pytest.raises(ValueError, match=r"in _train\.index, apart from the manifest"):
        list(alone.shards)


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
    document = json.loads(ROOT)
    document["objects"][0][0] = name
    with pytest.raises(ManifestError, match=r"s3://b/_m\.json"):
        DatasetManifest.from_bytes(root_bytes(document), path="s3://b/_m.json")


GROWN = Growth("ab", 3, ("y",), ("x",)).to_json()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("format", "other", "format"),
        ("version", 2, "version 2"),
        ("version", None, "version"),
        ("compression", "LZMA", "compression"),
        ("shards", [], "shards"),
        ("shards", 4, "shards"),
        ("objects", {}, "objects"),
        ("objects", [], "object 0 of 0"),
        ("objects", [1], "a name and a size"),
        ("objects", [["_root.index", "x"]], "bytes"),
        ("objects", [["_root.index", 20]], "lie"),
        ("objects", [[1, 500]], "not a string"),
        ("objects", [["_root.index", 1000], ["_root.index", 1001]], "same name"),
        ("pages", None, "pages"),
        ("pages", [[1]], "11 counts"),
        ("records", 9, "records"),
        ("nbytes", -1, "nbytes"),
        ("schema", [], "schema"),
        ("history", ["a", 1], "history"),
        ("lost", [], "lost"),
        ("lost", {"records": None, "shards": "a"}, "shards"),
        ("growth", {}, "growth"),
        ("growth", [1], "growth"),
        ("growth", [{**GROWN, "generation": None}], "generation"),
        ("growth", [{**GROWN, "record": -1}], "record"),
        ("growth", [{**GROWN, "record": 1 << 62}], "behind the last record"),
        ("growth", [GROWN, {**GROWN, "record": 2}], "not in order"),
        ("growth", [{**GROWN, "added": [1]}], "added"),
        ("growth", [{**GROWN, "optional": "y"}], "optional"),
    ],
)
def test_wrong_fields_are_named(key: str, value: Any, says: str) -> None:
    with pytest.raises(ManifestError, match=says):
        DatasetManifest.from_bytes(changed_root(ROOT, **{key: value}))


@pytest.mark.parametrize("column", range(11))
@pytest.mark.parametrize("value", [1.5, True, -1, 1 << 63, None, "x"])
def test_wrong_fields_of_a_page_are_refused(column: int, value: Any) -> None:
    document = json.loads(ROOT)
    document["pages"][0][column] = value
    with pytest.raises(ManifestError, match="11 counts"):
        DatasetManifest.from_bytes(root_bytes(document))


def test_each_flipped_bit_is_found(committed: DatasetManifest) -> None:
    gone = (Replaced(5e9, (Fingerprint("train-9", 5, 6),)),)
    growth = (Growth("ab", 3, ("y",), ()),)
    whole = replace(committed, generation="ab", history=("cd",), replaced=gone, growth=growth)
    data = whole.to_bytes()
    assert DatasetManifest.from_bytes(data) == whole
    body, _, crc = data.rpartition(b",")
    assert json.loads(b"{" + crc) == {"crc32c": f"{google_crc32c.value(body):08x}"}
    for at, bit in product(range(len(data)), range(8)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << bit
        with pytest.raises(ManifestError):
            DatasetManifest.from_bytes(flipped)


def test_an_edited_manifest_is_refused() -> None:
    document = json.loads(ROOT) | {"metadata": {"by": "hand"}}
    for crc in ({}, {"crc32c": None}, {"crc32c": "00000000"}):
        with pytest.raises(ManifestError, match="CRC32C in its last key"):
            DatasetManifest.from_bytes(json.dumps(document | crc).encode())
    found = DatasetManifest.from_bytes(root_bytes(document))
    assert found.metadata == {"by": "hand"}


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b"{"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestError):
        DatasetManifest.from_bytes(data)


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999"])
@pytest.mark.parametrize("key", ["replaced", "metadata"])
def test_numbers_that_could_not_be_written_again_are_refused(key: str, number: str) -> None:
    """Who overwrites the dataset takes them along: it could never be overwritten."""
    put = {"replaced": [{"until": 0.5, "objects": []}], "metadata": {"x": 0.5}}[key]
    data = json.dumps({**json.loads(ROOT), key: put}).replace("0.5", number)
    with pytest.raises(ManifestError, match=number):
        DatasetManifest.from_bytes(data.encode())
