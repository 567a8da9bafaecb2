"""Bytes of a file, read and scanned without the GIL."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.cores import both_cores, framed

pytestmark = both_cores
RECORDS = [b"first", b"", b"x" * 300_000, b"4", *[b"%d" % i * (i % 700) for i in range(3000)]]
STARTS = [0]
for record in RECORDS:
    STARTS.append(STARTS[-1] + len(record) + 16)


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "x").write_bytes(framed(*RECORDS))
    return str(tmp_path / "x")


@pytest.mark.parametrize("bounds", [(0, len(RECORDS)), (0, 2), (1, 3), (2, 3), (3, 4), (5, 2000)])
@pytest.mark.parametrize("cached", [False, True])
def test_whole_records(core, path, bounds, cached):
    first, last = bounds
    before = core.scan(framed(*RECORDS[:first])).summed
    expected = core.scan(framed(*RECORDS[first:last]), summed=before)
    start, stop = STARTS[first], STARTS[last]
    Path(path).read_bytes()
    asked = core.FileScan(path, start, stop, records=last - first, cached=cached, summed=before)
    found, mark, took = asked.result()
    assert found.batch.tolist() == RECORDS[first:last]
    assert found[1:] == expected[1:]
    status = os.stat(path)
    assert min(took) >= 0
    assert mark == (status.st_ino, status.st_mtime_ns, status.st_size)
    assert core.FileScan(path, start, stop).result()[0].batch == found.batch


@pytest.mark.parametrize("fewer", [0, 1, 100])
def test_no_more_than_one_beyond_what_is_expected(core, path, fewer):
    found, *_ = core.FileScan(path, 0, STARTS[-1], records=fewer).result()
    assert found.batch.tolist() == RECORDS[: fewer + 1]
    assert (found.end, found.fault) == (STARTS[fewer + 1], None)


def test_fewer_than_are_expected(core, path):
    found, *_ = core.FileScan(path, 0, STARTS[4], records=7).result()
    assert (len(found.batch), found.end) == (4, STARTS[4])


@pytest.mark.parametrize(("more", "whole"), [(0, 4), (1, 4), (12, 4), (15, 4), (16, 5)])
def test_a_frame_that_is_cut(core, path, more, whole):
    found, *_ = core.FileScan(path, 0, STARTS[4] + more).result()
    assert (len(found.batch), found.end, found.fault) == (whole, STARTS[whole], None)


@pytest.mark.parametrize("start", [1, 7, 12, 20, 21, 30, STARTS[3] + 1, STARTS[100] + 3])
def test_the_first_good_frame_is_found(core, path, start):
    first = next(i for i, each in enumerate(STARTS) if each >= start)
    found, *_ = core.FileScan(path, start, STARTS[-1], find=True).result()
    assert found.batch.tolist() == RECORDS[first:]
    assert int(found.batch.offsets[0]) - core.HEADER_BYTES == STARTS[first] - start


def test_no_frame_near_the_beginning(core, path):
    found, *_ = core.FileScan(path, STARTS[2] + 1, STARTS[-1], find=True).result()
    assert len(found.batch) == 0
    assert len(found.batch.buffer) == STARTS[-1] - STARTS[2] - 1


def test_a_fault(core, path):
    with open(path, "r+b") as file:
        file.seek(STARTS[50] + 13)
        file.write(b"!?")
    found, *_ = core.FileScan(path, 0, STARTS[-1]).result()
    assert (len(found.batch), found.end, found.fault) == (50, STARTS[50], "data_crc")
    assert len(core.FileScan(path, 0, STARTS[-1], verify=False).result()[0].batch) == len(RECORDS)
    found, *_ = core.FileScan(path, 0, STARTS[-1], max_record_bytes=1000).result()
    assert (len(found.batch), found.fault) == (2, "too_large")


def test_what_cannot_be_read(core, path, tmp_path):
    assert core.FileScan(path, 0, STARTS[-1] + 1).result() is None
    assert core.FileScan(path + "?", 0, 1).result() is None
    assert core.FileScan(str(tmp_path), 0, 1).result() is None
    os.mkfifo(tmp_path / "fifo")
    assert core.FileScan(str(tmp_path / "fifo"), 0, 1).result() is None
    assert len(core.FileScan(path, 5, 5).result()[0].batch) == 0


def test_no_descriptor_is_left(core, path):
    before = os.listdir("/dev/fd")
    for records in (None, 0, 10, len(RECORDS)):
        core.FileScan(path, 0, STARTS[-1], records=records).result()
        core.FileScan(path, 0, STARTS[-1] + 1, records=records).result()
    assert len(os.listdir("/dev/fd")) == len(before)
