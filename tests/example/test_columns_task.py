"""Threads of C decode columns, and leave nothing behind, whatever becomes of their owner."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.threads import in_threads
from tfio_store.example.codec import NumberForms

if tfs.backend().core == "pure":
    pytest.skip("the pure core has no threads of C", allow_module_level=True)
SCHEMA = tfs.Schema({"a": "int64", "b": ("float32", (2,)), "c": "uint8"})
FORMS = NumberForms(SCHEMA)
ROWS = 5000


def batches() -> list[tfs.RecordBatch]:
    rows = [{"a": i, "b": [float(i), -i / 2], "c": i % 256} for i in range(ROWS)]
    records = [tfs.encode_example(row) for row in rows]
    cuts = [0, 1, 257, 257, 2000, ROWS]
    pairs = pairwise(cuts)
    return [tfs.RecordBatch.from_records(records[at:end]) for at, end in pairs]


def check(found: Any) -> None:
    columns, seconds = found
    assert seconds >= 0
    assert columns["a"].tolist() == list(range(ROWS))
    assert columns["b"][:, 1].tolist() == [-i / 2 for i in range(ROWS)]
    assert columns["c"].dtype == np.uint8
    assert columns["c"].tolist() == [i % 256 for i in range(ROWS)]


def test_many_are_begun_at_once() -> None:
    parts = batches()
    begun = [FORMS.columns(parts) for _ in range(40)]
    assert all(each.begin(4, 2) for each in begun)
    for number, each in enumerate(begun):
        each.begins(0.01 * (number % 2))
        check(each.result())
        assert each.result() is None


def test_by_eight_threads() -> None:
    parts = batches()

    def work(_: int) -> None:
        for _ in range(20):
            numbers = FORMS.columns(parts)
            numbers.begin(4, 2)
            check(numbers.result())

    in_threads(work)


@pytest.mark.parametrize("at", [0, 256, ROWS - 1])
@pytest.mark.parametrize(
    "record",
    [b"\xff", tfs.encode_example({"a": 1, "c": 2}), tfs.encode_example({"a": 1.5, "c": 2})],
)
def test_an_unusual_record_is_left_to_who_tells_of_it(at: int, record: bytes) -> None:
    records = [one for part in batches() for one in part]
    records[at] = record
    numbers = FORMS.columns([tfs.RecordBatch.from_records(records)])
    numbers.begin(2, 2)
    assert numbers.result() is None


def test_what_is_dropped_lets_go_of_its_records() -> None:
    parts = batches()
    arrays = [np.frombuffer(part.buffer, np.uint8).copy() for part in parts]
    gone = [weakref.ref(array) for array in arrays]
    held = [
        tfs.RecordBatch(array, part.offsets, part.lengths)
        for array, part in zip(arrays, parts, strict=True)
    ]
    for _ in range(100):
        FORMS.columns(held).begin(4, 2)
    del held, arrays
    for _ in range(1000):
        check(FORMS.columns(parts).result())  # which ends what was dropped
        gc.collect()
        if all(one() is None for one in gone):
            return
    raise AssertionError("dropped tasks keep their records")


PROGRAM = """
import gc, os, sys
import tfio_store as tfs
from tfio_store.example.codec import NumberForms
schema = tfs.Schema({"a": "int64", "b": "float32"})
records = [tfs.encode_example({"a": i, "b": float(i)}) for i in range(50_000)]
parts = [tfs.RecordBatch.from_records(records)]
begun = [NumberForms(schema).columns(parts) for _ in range(30)]
for each in begun:
    each.begin(4, 2)
if sys.argv[1] == "fork":
    child = os.fork()
    found = [each.result() for each in begun]
    assert sum(each is not None for each in found) >= (26 if child == 0 else 30)
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
elif sys.argv[1] == "kept":
    sys.kept = begun
elif sys.argv[1] == "cycle":
    begun.append(begun)
    del begun, each, parts
    gc.collect()
print("good")
"""


@pytest.mark.parametrize("how", ["fork", "kept", "dropped", "cycle"])
def test_forks_and_exits_in_the_middle(how: str) -> None:
    for _ in range(5):
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, how],
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "good\n", "")
