"""CRC32C against the vectors of RFC 3720 and against google-crc32c."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given, strategies as st

from tests.support.cores import both_cores

pytestmark = both_cores

RFC_3720_B4 = {
    b"\x00" * 32: 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
    bytes.fromhex(
        "01c00000000000000000000000000000140000000000040000000014000000182800000000000000"
        "0200000000000000"
    ): 0xD9963A56,
}


@pytest.mark.parametrize(("data", "expected"), RFC_3720_B4.items(), ids=range(5))
def test_rfc_3720(core, data, expected):
    assert core.crc32c(data) == expected


def test_known_values(core):
    assert core.crc32c(b"") == 0
    assert core.crc32c(b"123456789") == 0xE3069283
    # mask() is inverted by tf.io's own reader; the value is leveldb's documented one.
    assert core.masked_crc32c(b"foo") == (
        (google_crc32c.value(b"foo") >> 15 | google_crc32c.value(b"foo") << 17) + 0xA282EAD8
    ) % (1 << 32)


@given(data=st.binary(max_size=5000), value=st.integers(0, 2**32 - 1))
def test_is_google_crc32c(core, data, value):
    assert core.crc32c(data, value) == google_crc32c.extend(value, data)


@pytest.mark.parametrize("base", [0, 1, 7, 64])
def test_every_length_and_alignment(core, base):
    data = bytes(i * 131 % 251 for i in range(base + 1200))
    for size in [*range(300), *range(300, 1200, 37)]:
        chunk = data[base : base + size]
        assert core.crc32c(memoryview(data)[base : base + size]) == google_crc32c.value(chunk), size


@pytest.mark.parametrize("size", [32767, 32768, 32769, 1 << 20, (1 << 20) + 5])
def test_large(core, size):
    data = bytes(range(256)) * (size // 256 + 1)
    assert core.crc32c(data[:size]) == google_crc32c.value(data[:size])


@given(first=st.binary(max_size=300), second=st.binary(max_size=300))
def test_combine(core, first, second):
    joined = core.crc32c_combine(core.crc32c(first), core.crc32c(second), len(second))
    assert joined == google_crc32c.value(first + second)


def test_combine_over_huge_lengths(core):
    # Appending 2^40 zeros in one step is appending 2^39 zeros twice.
    zeros = 0
    for _ in range(3):
        zeros = core.crc32c_combine(zeros, core.crc32c(b"\0" * 1024), 1024)
    assert zeros == google_crc32c.value(b"\0" * 3072)
    crc, half = google_crc32c.value(b"x"), 2**39
    twice = core.crc32c_combine(core.crc32c_combine(crc, 0, half), 0, half)
    assert core.crc32c_combine(crc, 0, 2 * half) == twice


def test_any_buffer(core):
    expected = google_crc32c.value(b"\1\0\2\0")
    for data in (bytearray(b"\1\0\2\0"), memoryview(b"\1\0\2\0").cast("H")):
        assert core.crc32c(data) == expected


def test_wrong_arguments(core):
    with pytest.raises(TypeError, match="data must be bytes-like, not str"):
        core.crc32c("text")
    with pytest.raises(ValueError, match="data must be one contiguous run of bytes"):
        core.crc32c(memoryview(b"abcd")[::2])
    for value in (-1, 2**32):
        with pytest.raises(ValueError, match="value must be a CRC"):
            core.crc32c(b"", value)
        with pytest.raises(ValueError, match="second must be a CRC"):
            core.crc32c_combine(0, value, 1)
    with pytest.raises(ValueError, match="second_length"):
        core.crc32c_combine(0, 0, -1)
