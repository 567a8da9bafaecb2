"""CRC32C for the pure-Python core, by google-crc32c."""

from __future__ import annotations

import operator

import google_crc32c
from typing_extensions import Buffer as BytesLike

__all__ = ["bytes_view", "crc32c", "crc32c_combine", "crc_backend", "masked_crc32c"]

_POLYNOMIAL = 0x82F63B78  # x^32 modulo the polynomial; bit 31 is x^0


def crc32c(data: BytesLike, value: int = 0) -> int:
    # google-crc32c takes bytes and nothing else.
    chunk = data if isinstance(data, bytes) else bytes(bytes_view(data, "data"))
    return int(google_crc32c.extend(_checked_crc(value, "value"), chunk))


def masked_crc32c(data: BytesLike) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c_combine(first: int, second: int, second_length: int) -> int:
    length = operator.index(second_length)
    if not 0 <= length < 2**64:
        raise ValueError(f"second_length must be from 0 to 2**64 - 1, got {length}")
    shift, square = 1 << 31, 1 << 23  # x^0, x^8
    while length:
        if length & 1:
            shift = _multiply(shift, square)
        square = _multiply(square, square)
        length >>= 1
    return _multiply(shift, _checked_crc(first, "first")) ^ _checked_crc(second, "second")


def crc_backend() -> str:
    return "google-crc32c"


def _checked_crc(value: int, name: str) -> int:
    number = operator.index(value)
    if not 0 <= number <= 0xFFFFFFFF:
        raise ValueError(f"{name} must be a CRC (0 to 2**32 - 1), got {number}")
    return number


def _multiply(a: int, b: int) -> int:
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def bytes_view(source: BytesLike, name: str) -> memoryview:
    """A flat view of bytes; the source stays exported while it lives."""
    try:
        view = memoryview(source)
    except TypeError:
        raise TypeError(f"{name} must be bytes-like, not {type(source).__name__}") from None
    if not view.c_contiguous:
        raise ValueError(f"{name} must be one contiguous run of bytes")
    return view.cast("B") if view.nbytes else memoryview(b"")
