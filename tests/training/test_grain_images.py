"""Images that `tfio_store.grain` decodes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

pytest.importorskip("simplejpeg", reason="simplejpeg is not installed")

from tests.image.test_decode import encoded
from tests.training.grain_loading import workers_of, xs
from tfio_store import image
from tfio_store.grain import source, stream

SCHEMA = {"image": "bytes", "x": "int64"}
IMAGES = {"image": (8, 9)}
COUNT = 10


def written(path: Path, damaged: int = -1) -> str:
    url = f"{path}/train"
    with tfs.ShardedWriter(url, num_shards=2, schema=SCHEMA) as writer:
        for x in range(COUNT):
            data = encoded("jpeg", size=(20 + x, 30))[: 99 if x == damaged else None]
            writer.write({"image": data, "x": x})
    return url


def expected(x: int) -> Any:
    return image.decode([encoded("jpeg", size=(20 + x, 30))], size=(8, 9))[0]


def test_rows_and_batches(tmp_path: Path) -> None:
    rows = source(written(tmp_path), images=IMAGES)
    by_number = {int(row["x"]): row["image"] for row in rows}
    assert all(np.array_equal(by_number[x], expected(x)) for x in range(COUNT))
    for batch in (rows.shuffle(seed=1).batch(4)[0], next(iter(rows.batch(4).to_iter_dataset()))):
        assert (batch["image"].shape, batch["image"].dtype) == ((4, 8, 9, 3), np.uint8)
        for x, pixels in zip(batch["x"], batch["image"], strict=True):
            assert np.array_equal(pixels, expected(int(x)))
    grey = source(f"{tmp_path}/train", images={"image": {"size": (4, 4), "mode": "L"}})
    assert grey[0]["image"].shape == (4, 4, 1)


def test_streams_and_their_states(tmp_path: Path) -> None:
    url = written(tmp_path)
    iterator = iter(stream(url, images=IMAGES).batch(4))
    first = next(iterator)
    assert first["image"].shape == (4, 8, 9, 3)
    again = iter(stream(url, images=IMAGES).batch(4))
    again.set_state(iterator.get_state())
    assert sorted(xs(again) + first["x"].tolist()) == list(range(COUNT))
    for row in stream(url, images=IMAGES):
        assert np.array_equal(row["image"], expected(int(row["x"])))


def test_worker_processes(tmp_path: Path) -> None:
    dataset = source(written(tmp_path), images=IMAGES).batch(5).to_iter_dataset()
    assert [batch["image"].shape for batch in workers_of(dataset, 2)] == [(5, 8, 9, 3)] * 2


def test_a_damaged_image_is_named_and_others_are_given(tmp_path: Path) -> None:
    url = written(tmp_path, damaged=5)
    rows = source(url, images=IMAGES)
    (number,) = [i for i, row in enumerate(source(url)) if row["x"] == 5]
    with pytest.raises(tfs.CorruptRecordError, match=f"'image', record {number}: the image"):
        rows[number]
    given = [i for i in range(COUNT) if i != number]
    assert len([rows[i] for i in given]) == 9
    with pytest.raises(tfs.CorruptRecordError, match=f"record {number}:"):
        list(rows.batch(3).to_iter_dataset())
    with pytest.raises(tfs.CorruptRecordError):
        list(stream(url, images=IMAGES))
    with pytest.warns(tfs.errors.DataLossWarning, match="1 damaged image skipped"):
        found = list(stream(url, images=IMAGES, on_corrupt="skip").batch(5))
    dark = {int(x): not p.any() for b in found for x, p in zip(b["x"], b["image"], strict=True)}
    assert dark == {x: x == 5 for x in range(COUNT)}


def test_a_damaged_image_of_a_stream_is_met_again(tmp_path: Path) -> None:
    iterator = iter(stream(written(tmp_path, damaged=5), images=IMAGES).batch(2))
    given = xs(itertools.islice(iterator, 0))
    for _ in range(COUNT):
        try:
            given += next(iterator)["x"].tolist()
        except tfs.CorruptRecordError:
            break
    with pytest.raises(tfs.CorruptRecordError):
        next(iterator)
    rest = iter(stream(f"{tmp_path}/train").batch(2))
    rest.set_state(iterator.get_state())
    assert sorted(given + xs(rest)) == list(range(COUNT))


def test_fewer_records_than_hosts(tmp_path: Path) -> None:
    url = written(tmp_path)
    parts = [source(url, images=IMAGES, shard=(i, 13)).batch(2) for i in range(13)]
    assert sorted(x for part in parts for x in xs(part)) == list(range(COUNT))
    tfs.write_table(
        {"image": np.array([], object), "x": np.arange(0)}, f"{tmp_path}/none", schema=SCHEMA
    )
    assert len(source(f"{tmp_path}/none", images=IMAGES).batch(2)) == 0
    assert list(stream(f"{tmp_path}/none", images=IMAGES).batch(2)) == []


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"images": {"none": (2, 2)}}, KeyError, "images= names 'none'"),
        ({"images": ["image"]}, TypeError, "images= takes a dict"),
        ({"images": {"x": (2, 2)}}, ValueError, "must hold one byte string in each record"),
        ({"images": {"image": (2, 2)}, "schema": "bytes"}, ValueError, "pass schema="),
    ],
)
def test_wrong_arguments(tmp_path: Path, options: Any, kind: type[Exception], text: str) -> None:
    url = written(tmp_path)
    for made in (source, stream):
        with pytest.raises(kind, match=text):
            made(url, **options)
