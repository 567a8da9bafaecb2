"""Indexing a `RecordSource`: numpy's meanings, Python's errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.framed import framed

RECORDS = [b"%d" % i for i in range(10)]
ARRAY = np.array(RECORDS)


@pytest.fixture
def source(tmp_path: Path) -> tfs.RecordSource:
    (tmp_path / "x").write_bytes(framed(RECORDS))
    return tfs.RecordSource(tmp_path / "x")


MASK = [True, False, True, False, False, False, False, False, False, True]


@pytest.mark.parametrize(
    "index",
    [
        MASK,
        np.array(MASK),
        tuple(np.array(MASK)),
        [],
        np.array([], np.int64),
        [3, 1, -1],
        np.array([3, 1, -1], np.int8),
        np.array([3, 1, 9], np.uint64),
        range(2, 5),
        [np.int32(4), 1],
        slice(None, None, -3),
    ],
    ids=repr,
)
def test_as_numpy_means_it(source: tfs.RecordSource, index: Any) -> None:
    wanted = ARRAY[list(index)] if isinstance(index, tuple) else ARRAY[index]
    assert source[index] == wanted.tolist()


@pytest.mark.parametrize("index", [np.int8(3), np.array(3), np.array(-7)], ids=repr)
def test_one_number_in_numpys_clothes(source: tfs.RecordSource, index: Any) -> None:
    assert source[index] == RECORDS[3]


def test_torch_tensors(source: tfs.RecordSource) -> None:
    torch = pytest.importorskip("torch")
    assert source[torch.tensor(3)] == RECORDS[3]
    assert source[torch.tensor([3])] == [RECORDS[3]]
    assert source[torch.tensor(MASK)] == [RECORDS[0], RECORDS[2], RECORDS[9]]


@pytest.mark.parametrize(
    ("index", "error"),
    [
        ([True, False, True], IndexError),
        (np.array([True]), IndexError),
        (True, TypeError),
        (np.True_, TypeError),
        (np.array(True), TypeError),
        ([True, None], TypeError),
        (b"\x01\x02", TypeError),
        (bytearray(2), TypeError),
        ("12", TypeError),
        ({1: 2}, TypeError),
        (1.0, TypeError),
        ([1.0], TypeError),
        (np.array([1.0]), TypeError),
        (np.array(1.5), TypeError),
        (np.float32(1), TypeError),
        (None, TypeError),
        ([None], TypeError),
        (["1"], TypeError),
        (2**70, IndexError),
        (-(2**70), IndexError),
        ([2**70], IndexError),
        ([1, 2**63], IndexError),
        (np.array([2**63], np.uint64), IndexError),
        (10, IndexError),
        ([-11], IndexError),
        (np.zeros((2, 2), int), IndexError),
        ([[1, 2]], IndexError),
    ],
    ids=repr,
)
def test_what_names_no_record(source: tfs.RecordSource, index: Any, error: type) -> None:
    with pytest.raises(error):
        source[index]
