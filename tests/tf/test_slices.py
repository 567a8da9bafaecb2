"""`slice` and `partitions` as sources of `TFRecordDataset`: the records of Python's own slice."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfio_store as tfs
from tests.support.framed import framed
from tests.tf.saved import restored


def items(count: int, most: int = 700) -> list[bytes]:
    rng = np.random.default_rng(1)
    return [b"%d:" % i + rng.bytes(int(n)) for i, n in enumerate(rng.integers(0, most, count))]


@pytest.fixture(scope="module", params=[(None, True), (None, False), ("GZIP", None)], ids=str)
def dataset(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[bytes]]:
    codec, positions = request.param
    url = f"{tmp_path_factory.mktemp('slices')}/train"
    with tfs.ShardedWriter(
        url, num_shards=3, block_bytes=4096, compression=codec, record_positions=positions
    ) as writer:
        writer.write_batch(items(500))
    return url, list(tfs.RecordReader(url))


WAYS: list[dict[str, Any]] = [{}, {"batch_size": 32}]


def records(found: Any) -> list[bytes]:
    values = [each.numpy() for each in found]
    return [r for v in values for r in ([v] if isinstance(v, bytes) else v.tolist())]


SPANS = [slice(17, 18), slice(100, 403), slice(50, 50)]


@pytest.mark.parametrize("span", SPANS, ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 7}, {"batch_size": 32}, {"num_parallel_reads": 1}, {"on_corrupt": "skip"}],
    ids=str,
)
def test_in_order(dataset: tuple[str, list[bytes]], span: slice, options: dict[str, Any]) -> None:
    url, whole = dataset
    found = tfs.TFRecordDataset(tfs.slice(url, span), **options)
    assert records(found) == whole[span]
    if not options:
        assert int(found.cardinality()) == len(whole[span])


@pytest.mark.parametrize("options", [{}, {"batch_size": 5}, {"batch_size": 32}], ids=str)
def test_shuffled_and_shared_out(dataset: tuple[str, list[bytes]], options: dict[str, Any]) -> None:
    url, whole = dataset
    part = tfs.slice(url, "33:471")
    found = tfs.TFRecordDataset(part, shuffle=True, seed=1, **options)
    orders = [records(found), records(found)]
    assert orders[0] != orders[1]
    for order in orders:
        assert sorted(order) == sorted(whole[33:471])
    shares = [records(tfs.TFRecordDataset(part, shard=(3, i), **options)) for i in range(3)]
    assert sorted(r for share in shares for r in share) == sorted(whole[33:471])


def test_with_other_names_and_partitions(dataset: tuple[str, list[bytes]]) -> None:
    url, whole = dataset
    names = [tfs.slice(url, ":10"), url, tfs.slice(url, "5:15")]
    assert records(tfs.TFRecordDataset(names)) == whole[:10] + whole + whole[5:15]
    parts = tfs.partitions(url, num_partitions=5)
    assert [r for part in parts for r in records(tfs.TFRecordDataset(part))] == whole
    assert records(tfs.TFRecordDataset(parts[1:3], batch_size=50)) == [
        r for part in parts[1:3] for r in part.reader()
    ]


def test_without_the_bridge(
    dataset: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfio_store.tf.dataset import ops

    monkeypatch.setattr(ops, "_NATIVE", False)
    url, whole = dataset
    for options in WAYS:
        found = tfs.TFRecordDataset(tfs.slice(url, "33:471"), **options)
        assert records(found) == whole[33:471]


def test_iterators_are_saved(dataset: tuple[str, list[bytes]], tmp_path: Path) -> None:
    url, whole = dataset
    one, other = (tfs.TFRecordDataset(tfs.slice(url, "33:471")) for _ in range(2))
    assert records(restored(one, 100, tmp_path, other)[1]) == whole[133:471]


def test_files_without_an_index_are_walked(tmp_path: Path) -> None:
    (tmp_path / "f.tfrecord").write_bytes(framed(items(100)))
    part = tfs.slice(f"{tmp_path}/f.tfrecord", "40:60")
    for options in WAYS:
        assert records(tfs.TFRecordDataset(part, **options)) == items(100)[40:60]


def test_columns(tmp_path: Path) -> None:
    url = f"{tmp_path}/t"
    tfs.write_table({"x": list(range(1000))}, url, num_shards=2, compression="GZIP")
    whole = [int(x) for x in tfs.read_table(url)["x"]]
    found = tfs.TFRecordDataset(
        tfs.slice(url, "10%:20%"), batch_size=30, schema=tfs.infer_schema(url)
    )
    assert [x for batch in found for x in batch["x"].numpy().tolist()] == whole[100:200]


def test_what_cannot_be_cut_or_found_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(framed(items(10))))
    (tmp_path / "b").write_bytes(framed(items(10)))
    names = [tfs.slice(f"{tmp_path}/b", ":5"), f"{tmp_path}/a.gz"]
    with pytest.raises(ValueError, match=r"a\.gz: is one GZIP stream"):
        tfs.TFRecordDataset(names)
    with pytest.raises(FileNotFoundError):
        tfs.TFRecordDataset(tfs.slice(f"{tmp_path}/none", ":5"))
    with pytest.raises(ValueError, match="is a part of a dataset"):
        tfs.TFRecordDataset([tfs.slice(f"{tmp_path}/b", ":5"), ""])


def test_damage_is_told(tmp_path: Path) -> None:
    whole = items(100)
    data = bytearray(framed(whole))
    data[data.index(whole[45]) + 2] ^= 0xFF
    (tmp_path / "f").write_bytes(data)
    for span, reads in ((":45", True), (":46", False), ("45:", False), ("46:", True)):
        found = tfs.TFRecordDataset(tfs.slice(f"{tmp_path}/f", span))
        if reads:
            assert len(records(found)) in (45, 54)
        else:
            with pytest.raises(tf.errors.DataLossError, match=f"{tmp_path}/f"):
                records(found)
