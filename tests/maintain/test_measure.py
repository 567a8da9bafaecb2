"""`measure`: it reads what is there, again and again, for as long as it was told."""

from __future__ import annotations

import gzip

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tfio_store.maintain.measure import backends_of

RECORDS = [bytes([i]) * 100 for i in range(50)]


def test_records_and_ranges(place: Place) -> None:
    url, options = place.put("f", framed(RECORDS)), place.storage_options
    found = tfs.measure(url, seconds=0.05, storage_options=options)
    assert (found.backend, found.compressed) == ("fsspec", False)
    assert found.records % 50 == 0  # the file is one batch
    assert found.records >= 50
    assert found.nbytes == found.records * 116
    assert found.ranges_nbytes % (50 * 116) == 0
    assert found.seconds >= 0.05
    assert found.ranges_seconds >= 0.05
    assert found.share == pytest.approx(found.nbytes_per_second / found.ranges_nbytes_per_second)


def test_compressed_files_have_no_share(tmp_path: object) -> None:
    place = Place(str(tmp_path))
    found = tfs.measure(place.put("f", gzip.compress(framed(RECORDS))), seconds=0.01)
    assert found.compressed
    assert found.share is None
    assert found.nbytes == found.records * 116


def test_nothing_to_read(tmp_path: object) -> None:
    place = Place(str(tmp_path))
    found = tfs.measure(place.put("f", b""), seconds=60)
    assert (found.records, found.nbytes, found.ranges_nbytes, found.share) == (0, 0, 0, None)


def test_damage_is_an_error(tmp_path: object) -> None:
    place, data = Place(str(tmp_path)), bytearray(framed(RECORDS))
    data[50] ^= 1
    with pytest.raises(tfs.CorruptRecordError):
        tfs.measure(place.put("f", bytes(data)), seconds=0.01)


def test_seconds_that_are_none() -> None:
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="seconds must be above 0"):
            tfs.measure("none", seconds=wrong)


def test_backends_of_a_source() -> None:
    pytest.importorskip("obstore")
    assert backends_of("s3://b/x") == backends_of(["gs://b/x"]) == ("fsspec", "obstore")
    assert backends_of("x") == backends_of("memory://x") == ("fsspec",)
