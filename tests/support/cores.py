"""The compiled core and its Python twin, for tests that hold both to the same results."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from tfio_store.records import _pure


def _compiled() -> object:
    """Only a machine that could not build the core goes without; one that fails to load is told."""
    name = "tfio_store.records._core"
    if importlib.util.find_spec(name) is None:
        skip = pytest.mark.skip(reason=f"{name} is not built")
        return pytest.param(None, id="_core", marks=skip)
    return pytest.param(importlib.import_module(name), id="_core")


both_cores = pytest.mark.parametrize("core", [_compiled(), pytest.param(_pure, id="_pure")])


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
