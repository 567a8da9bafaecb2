"""`tfio_store.dali.source` in pipelines of DALI's own, on the CPU."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.dali import source

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

COUNT = 23


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"{tmp_path}/train"
    with tfs.ShardedWriter(found, num_shards=2, schema={"photo": "bytes", "x": "int64"}) as writer:
        for x in range(COUNT):
            file = io.BytesIO()
            Image.new("RGB", (20 + x, 10), (10 * x, 0, 0)).save(file, "jpeg")
            writer.write({"photo": file.getvalue(), "x": x})
    return found


def pipeline(made: Any, *, batch_size: int = 4, decode: bool = True, **options: Any) -> Any:
    how = {"num_threads": 2, "device_id": None, "exec_dynamic": False}
    kept = {name: options.pop(name) for name in list(options) if name in KEPT}

    @dali.pipeline_def(batch_size=batch_size, **how, **kept)
    def definition() -> Any:
        photos, numbers = dali.fn.external_source(made, num_outputs=2, **options)
        if decode:
            photos = dali.fn.resize(dali.fn.decoders.image(photos), size=(8, 8))
        return photos, numbers

    built = definition()
    built.build()
    return built


KEPT = ("py_num_workers", "py_start_method", "enable_checkpointing", "checkpoint")
BATCHES: dict[str, Any] = {"batch": True, "batch_info": True}


def epoch(built: Any) -> list[int]:
    found: list[int] = []
    while True:
        try:
            photos, numbers = built.run()
        except StopIteration:
            built.reset()
            return found
        found += [int(np.array(numbers[i])) for i in range(len(numbers))]
        for i in range(len(photos)):
            photo, x = np.array(photos[i]), found[i - len(photos)]
            assert photo.shape == (8, 8, 3)
            assert abs(int(photo[4, 4, 0]) - 10 * x) < 8


def test_batches_and_epochs(url: str) -> None:
    built = pipeline(source(url, batch_size=4, shuffle=True), **BATCHES)
    first, second = epoch(built), epoch(built)
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert first != second


def test_two_gpus(url: str) -> None:
    built = [
        pipeline(source(url, batch_size=4, shuffle=True, shard_id=i, num_shards=2), **BATCHES)
        for i in range(2)
    ]
    assert sorted(x for one in built for x in epoch(one)) == list(range(COUNT))


def test_samples(url: str) -> None:
    found = epoch(pipeline(source(url, batch_size=4, shuffle=True), batch=False))
    assert len(set(found)) == len(found) == 20


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_parallel(url: str, start: str) -> None:
    built = pipeline(
        source(url, batch_size=4, shuffle=True),
        **BATCHES,
        parallel=True,
        py_num_workers=2,
        py_start_method=start,
    )
    assert sorted(epoch(built)) == sorted(epoch(built)) == list(range(COUNT))


def test_checkpoints_of_dali(url: str) -> None:
    made = source(url, batch_size=4, shuffle=True)
    built = pipeline(made, **BATCHES, enable_checkpointing=True)
    whole = epoch(pipeline(made, **BATCHES))
    for _ in range(2):
        built.run()
    again = pipeline(made, **BATCHES, enable_checkpointing=True, checkpoint=built.checkpoint())
    assert epoch(again) == whole[8:]
    rest = pipeline(
        source(url, batch_size=3, shuffle=True, resume=made.state(2)), batch_size=3, **BATCHES
    )
    assert epoch(rest) == whole[8:]


def test_a_damaged_record_ends_the_pipeline(url: str, tmp_path: Path) -> None:
    (shard,) = sorted(tmp_path.glob("train-*0-of*"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    built = pipeline(source(url, batch_size=4), **BATCHES)
    with pytest.raises((tfs.DataLossError, RuntimeError)):
        epoch(built)
