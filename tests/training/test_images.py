"""Images that the doors of PyTorch and Grain decode."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

pytest.importorskip("simplejpeg", reason="simplejpeg is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("grain", reason="Grain is not installed")

from tests.image.test_decode import encoded  # noqa: E402
from tests.support.long import first  # noqa: E402
from tests.training.grain_loading import workers_of, xs  # noqa: E402
from tests.training.loading import loader, torch_data  # noqa: E402
from tfio_store import image  # noqa: E402
from tfio_store.grain import source, stream  # noqa: E402
from tfio_store.torch import TFRecordIterable, TFRecordMap  # noqa: E402

SCHEMA = {"image": "bytes", "x": "int64"}
IMAGES: Any = {"image": (8, 9)}
COUNT = 10


def written(path: Path, damaged: int = -1, num_shards: int = 1) -> str:
    url = f"{path}/train"
    with tfs.ShardedWriter(url, num_shards=num_shards, schema=SCHEMA) as writer:
        for x in range(COUNT):
            data = encoded("jpeg", size=(20 + x, 30))[: 99 if x == damaged else None]
            writer.write({"image": data, "x": x})
    return url


def expected(x: int) -> Any:
    return image.decode([encoded("jpeg", size=(20 + x, 30))], size=(8, 9))[0]


Made = Callable[..., Any]
BATCHES: dict[str, Made] = {
    "torch": lambda url, size, **how: TFRecordIterable(url, batch_size=size, **how),
    "stream": lambda url, size, **how: stream(url, **how).batch(size),
    "source": lambda url, size, **how: source(url, **how).batch(size).to_iter_dataset(),
}
ROWS: list[Made] = [TFRecordIterable, TFRecordMap, stream, source]


def state_of(made: Any, steps: Iterator[Any]) -> Any:
    return steps.get_state() if hasattr(steps, "get_state") else made.state_dict()


def resumed(made: Any, state: Any) -> Iterator[Any]:
    if hasattr(made, "load_state_dict"):
        made.load_state_dict(state)
        return iter(made)
    steps: Any = iter(made)
    steps.set_state(state)
    return iter(steps)


@pytest.mark.parametrize("door", BATCHES)
def test_batches_and_their_states(tmp_path: Path, door: str) -> None:
    url = written(tmp_path, num_shards=2)
    made = BATCHES[door](url, 4, images=IMAGES)
    steps = iter(made)
    batch = next(steps)
    assert (tuple(batch["image"].shape), batch["x"].shape) == ((4, 8, 9, 3), (4,))
    for x, pixels in zip(batch["x"], batch["image"], strict=True):
        assert np.array_equal(pixels, expected(int(x)))
    rest = resumed(BATCHES[door](url, 4, images=IMAGES), state_of(made, steps))
    assert sorted(xs([batch, *rest])) == list(range(COUNT))


@pytest.mark.parametrize("kind", ROWS)
def test_rows(tmp_path: Path, kind: Made) -> None:
    url = written(tmp_path)
    rows = list(kind(url, images=IMAGES))
    assert len(rows) == COUNT
    assert all(np.array_equal(row["image"], expected(int(row["x"]))) for row in rows)
    grey = next(iter(kind(url, images={"image": {"size": (4, 4), "mode": "L"}})))
    assert tuple(grey["image"].shape) == (4, 4, 1)


@pytest.mark.parametrize("kind", [TFRecordIterable, TFRecordMap])
def test_a_transform_gets_them(kind: Any, tmp_path: Path) -> None:
    dataset = kind(written(tmp_path), images=IMAGES, transform=lambda row: row["image"])
    assert {(tuple(row.shape), row.dtype) for row in dataset} == {((8, 9, 3), torch.uint8)}


@pytest.mark.parametrize("start", first(1, ["fork", "spawn"]))
def test_worker_processes_of_torch(tmp_path: Path, start: str) -> None:
    dataset = TFRecordIterable(written(tmp_path), batch_size=2, images=IMAGES)
    batches = list(loader(dataset, 2, start))
    assert all(batch["image"].shape[1:] == (8, 9, 3) for batch in batches)
    assert sorted(xs(batches)) == list(range(COUNT))
    rows = TFRecordMap(f"{tmp_path}/train", images={"image": {"size": (8, 9), "mode": "L"}})
    mapped = torch_data.DataLoader(rows, batch_size=5, num_workers=1, multiprocessing_context=start)
    assert [tuple(batch["image"].shape) for batch in mapped] == [(5, 8, 9, 1)] * 2


def test_worker_processes_of_grain(tmp_path: Path) -> None:
    dataset = BATCHES["source"](written(tmp_path), 5, images=IMAGES)
    assert [batch["image"].shape for batch in workers_of(dataset, 2)] == [(5, 8, 9, 3)] * 2


@pytest.mark.parametrize("door", ["torch", "stream"])
def test_a_damaged_image_is_met_again(tmp_path: Path, door: str) -> None:
    url = written(tmp_path, damaged=5)
    made = BATCHES[door](url, 2, images=IMAGES)
    steps = iter(made)
    given = xs([next(steps), next(steps)])
    for _ in range(2):
        with pytest.raises(tfs.CorruptRecordError, match="'image', record 1 of the batch"):
            next(steps)
    rest = resumed(BATCHES[door](url, 2), state_of(made, steps))
    assert given + xs(rest) == list(range(COUNT))
    rows = iter((TFRecordIterable if door == "torch" else stream)(url, images=IMAGES))
    with pytest.raises(tfs.CorruptRecordError):
        list(rows)
    with pytest.raises(tfs.CorruptRecordError):
        next(rows)


def test_a_damaged_image_of_a_source_is_named_and_others_are_given(tmp_path: Path) -> None:
    rows = source(written(tmp_path, damaged=5), images=IMAGES)
    with pytest.raises(tfs.CorruptRecordError, match="'image', record 5: the image"):
        rows[5]
    assert len([rows[i] for i in range(COUNT) if i != 5]) == 9
    with pytest.raises(tfs.CorruptRecordError, match="record 5:"):
        list(rows.batch(3).to_iter_dataset())


@pytest.mark.parametrize("door", ["torch", "stream"])
def test_zeros_stand_for_a_damaged_image(tmp_path: Path, door: str) -> None:
    made = BATCHES[door](written(tmp_path, damaged=5), 5, images=IMAGES, on_corrupt="skip")
    with pytest.warns(tfs.errors.DataLossWarning, match="1 damaged image skipped"):
        found = list(made)
    assert xs(found) == list(range(COUNT))
    assert [bool(p.any()) for b in found for p in b["image"]] == [x != 5 for x in range(COUNT)]


def test_a_warning_that_is_an_error_is_raised_as_such(tmp_path: Path) -> None:
    url = written(tmp_path, damaged=5)
    batches = BATCHES["torch"](url, 5, images=IMAGES, on_corrupt="skip")
    with warnings.catch_warnings(), pytest.raises(tfs.errors.DataLossWarning):
        warnings.simplefilter("error", tfs.errors.DataLossWarning)
        list(batches)


def test_fewer_records_than_hosts(tmp_path: Path) -> None:
    url = written(tmp_path)
    parts = [source(url, images=IMAGES, shard=(i, 13)).batch(2) for i in range(13)]
    assert sorted(x for part in parts for x in xs(part)) == list(range(COUNT))
    none = f"{tmp_path}/none"
    tfs.write_table({"image": np.array([], object), "x": np.arange(0)}, none, schema=SCHEMA)
    assert len(source(none, images=IMAGES).batch(2)) == 0
    assert list(stream(none, images=IMAGES).batch(2)) == []


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"images": {"none": (2, 2)}}, KeyError, "images= names 'none'"),
        ({"images": ["image"]}, TypeError, "images= takes a dict"),
        ({"images": {"image": None}}, ValueError, "in which size is given"),
        ({"images": {"x": (2, 2)}}, ValueError, "must hold one byte string in each record"),
        ({"images": IMAGES, "schema": "bytes"}, ValueError, "pass schema="),
    ],
)
@pytest.mark.parametrize("door", ROWS)
def test_wrong_arguments(
    tmp_path: Path, door: Made, options: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        door(written(tmp_path), **options)


@pytest.mark.parametrize("door", [TFRecordIterable, TFRecordMap])
def test_a_transform_that_is_no_function(tmp_path: Path, door: Made) -> None:
    with pytest.raises(TypeError, match="transform= takes a function"):
        door(written(tmp_path), transform=3)
