"""The threads that decode images, and what they share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.storage.cores import cores, workers

pytest.importorskip("simplejpeg", reason="simplejpeg is not installed")

from tests.image.test_decode import encoded
from tfio_store import image


def test_threads_of_the_pool_may_ask_for_others() -> None:
    """All of them at once: none waits for one that has not begun."""
    batch = [encoded("jpeg"), encoded("png")] * 8
    wanted = image.decode(batch, size=(20, 30), threads=1)

    def decode() -> Any:
        return image.decode(batch, size=(20, 30), threads=cores() + 1)

    futures = [workers().submit(decode) for _ in range(3 * cores())]
    assert all(np.array_equal(future.result(60), wanted) for future in futures)


def test_views_of_records_are_decoded_where_they_lie() -> None:
    photos = [encoded("jpeg"), encoded("png"), encoded("webp")]
    records = tfs.RecordBatch.from_records(photos)
    views: Any = [records.view(i) for i in range(3)]
    wanted = image.decode(photos, size=(8, 9))
    assert np.array_equal(image.decode(views, size=(8, 9)), wanted)
    copies: Any = [bytearray(photo) for photo in photos]
    assert np.array_equal(image.decode(copies, size=(8, 9)), wanted)
    strided: Any = [memoryview(bytes(2 * len(p)))[::2] for p in photos]
    with pytest.raises(tfs.CorruptRecordError, match="no image of a known encoding"):
        image.decode(strided, size=(8, 9))


def test_scans_are_counted() -> None:
    count_scans = pytest.importorskip(
        "tfio_store.example._resize", reason="the extensions are not built"
    ).count_scans
    for data in (
        b"",
        b"\xff",
        b"\xda",
        b"\xff\xda",
        b"\xff\xff\xda\xff",
        b"\xda\xff",
        b"\xff\xda" * 9,
    ):
        assert count_scans(data) == data.count(b"\xff\xda")
    random = np.random.default_rng(1).choice([0xFF, 0xDA, 7], 10_000).astype(np.uint8)
    assert count_scans(random) == random.tobytes().count(b"\xff\xda")


def test_a_jpeg_of_many_scans_is_refused() -> None:
    data: Any = encoded("jpeg") + b"\xff\xda" * 501
    some: Any = (data, memoryview(data))
    for one in some:
        with pytest.raises(tfs.CorruptRecordError, match="more than 500 scans"):
            image.decode([one], size=(8, 9))


def test_a_forked_child_decodes() -> None:
    batch = [encoded("jpeg")] * 9
    image.decode(batch, size=(8, 9), threads=3)
    child = os.fork()
    if not child:
        image.decode(batch, size=(8, 9), threads=3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
