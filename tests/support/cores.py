"""The compiled core and its Python twin, for tests that hold both to the same results."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest


def _load(name: str) -> object:
    try:
        return pytest.param(importlib.import_module(f"tfio_store.{name}"), id=name)
    except ImportError as error:
        skip = pytest.mark.skip(reason=f"tfio_store.{name}: {error}")
        return pytest.param(ModuleType(name), id=name, marks=skip)


both_cores = pytest.mark.parametrize("core", [_load("_core"), _load("_pure")])


def framed(*records: bytes) -> bytes:
    """A stream of frames, written out by hand: independent of the code under test."""
    import google_crc32c

    def masked(data: bytes) -> bytes:
        crc = google_crc32c.value(data)
        return (((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32).to_bytes(4, "little")

    def frame(record: bytes) -> bytes:
        length = len(record).to_bytes(8, "little")
        return length + masked(length) + record + masked(record)

    return b"".join(map(frame, records))


def header(length: int) -> bytes:
    """A header that claims ``length`` bytes, with a CRC that holds."""
    import google_crc32c

    claim = length.to_bytes(8, "little")
    crc = google_crc32c.value(claim)
    return claim + (((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32).to_bytes(4, "little")
