"""Records read from a file, each into memory of its own; and lists framed a part at a time."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import google_crc32c
import pytest

from tests.support.cores import both_cores, framed

pytestmark = both_cores
RECORDS = [b"first", b"", b"x" * 300_000, b"4"]
STARTS = [0, 21, 37, 300_053]


@pytest.fixture
def descriptor(tmp_path: Path):
    (tmp_path / "x").write_bytes(framed(*RECORDS))
    opened = os.open(tmp_path / "x", os.O_RDONLY)
    yield opened
    os.close(opened)


@pytest.fixture
def size(descriptor):
    return os.fstat(descriptor).st_size


def summed(records):
    """By google-crc32c: over the masked CRC of each record."""
    value = 0
    for record in records:
        crc = google_crc32c.value(record)
        masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
        value = google_crc32c.extend(value, struct.pack("<I", masked))
    return value


def test_from_any_frame_until_enough(core, descriptor, size):
    whole = core.read_records(descriptor, 0, size, enough=1 << 40)
    assert whole == (RECORDS, size, summed(RECORDS))
    first = summed(RECORDS[:1])
    rest = core.read_records(descriptor, STARTS[1], size, enough=1 << 40, summed=first)
    assert rest == (RECORDS[1:], size, summed(RECORDS))
    for i, start in enumerate(STARTS):
        assert core.read_records(descriptor, start, size)[0] == RECORDS[i : i + 1]
    for enough, count in ((1, 1), (4096, 1), (4097, 2), (8192, 2), (8193, 3)):  # a page at least
        found = core.read_records(descriptor, 0, size, enough=enough)
        assert found == (RECORDS[:count], STARTS[count], summed(RECORDS[:count]))
    assert core.read_records(descriptor, size, size) == ([], size, 0)


@pytest.mark.parametrize("cut", [0, 1, 11, 12, 20, 21, 30, 36, 40, 200_000, 300_052, 300_060])
def test_ends_before_what_is_not_whole(core, descriptor, size, cut):
    whole = sum(start <= cut for start in [*STARTS[1:], size])
    expected = RECORDS[:whole], STARTS[whole], summed(RECORDS[:whole])
    assert core.read_records(descriptor, 0, cut, enough=1 << 40) == expected
    os.truncate(descriptor_path(descriptor), cut)
    assert core.read_records(descriptor, 0, size, enough=1 << 40) == expected


def descriptor_path(descriptor):
    return os.readlink(f"/proc/self/fd/{descriptor}")


@pytest.mark.parametrize("at", [40, 150_000, 300_050])
def test_ends_before_damage(core, descriptor, size, at):
    path = descriptor_path(descriptor)
    data = bytearray(Path(path).read_bytes())
    data[at] ^= 1
    Path(path).write_bytes(data)
    found = core.read_records(descriptor, 0, size, enough=1 << 40)
    assert found == (RECORDS[:2], STARTS[2], summed(RECORDS[:2]))
    found, end, _ = core.read_records(descriptor, 0, size, enough=1 << 40, verify=False)
    assert (len(found), end) == ((2, STARTS[2]) if at == 40 else (4, size))


def test_ends_before_what_is_too_large(core, descriptor, size):
    found = core.read_records(descriptor, 0, size, max_record_bytes=299_999, enough=1 << 40)
    assert found == (RECORDS[:2], STARTS[2], summed(RECORDS[:2]))


def test_a_file_that_is_not_open(core):
    with pytest.raises(OSError, match="descriptor"):
        core.read_records(-1, 0, 100)


def test_a_list_is_framed_in_parts(core):
    records = [b"x" * i for i in range(500)]
    writer, start, taken = core.FrameWriter(), 0, b""
    while start < len(records):
        start = writer.write_some(records, start, 10_000)
        assert writer.nbytes >= 10_000 or start == len(records)
        taken += bytes(writer.take())
    assert taken == framed(*records)
    assert core.FrameWriter().write_some([], 0, 10) == 0


def test_what_holds_no_bytes_leaves_the_writer_as_it_was(core):
    writer = core.FrameWriter()
    writer.write(b"kept")
    for wrong in ("text", {"a": 1}, None):
        with pytest.raises(TypeError, match="bytes-like"):
            writer.write_some([b"1", bytearray(b"2"), wrong], 0, 1 << 20)
    assert bytes(writer.take()) == framed(b"kept")


@pytest.mark.parametrize("start", [-1, 3])
def test_a_start_outside_the_list(core, start):
    with pytest.raises(ValueError, match="start"):
        core.FrameWriter().write_some([b"1", b"2"], start, 10)
