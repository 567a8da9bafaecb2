"""Without the native ops: the same records, said once, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.run_program import run  # noqa: E402

pytestmark = pytest.mark.tensorflow

PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from tfio_store.tf.dataset import ops
    tfs.TFRecordDataset
folder = ARGS["folder"]
def records(dataset):
    found = []
    for element in dataset:
        value = element.numpy()
        found += [value] if isinstance(value, bytes) else value.tolist()
    return [record.hex() for record in found]
def message(source):
    try:
        records(tfs.TFRecordDataset(source))
    except tf.errors.OpError as error:
        return error.message
raw, packed, whole = f"{folder}/raw", f"{folder}/raw.gz", f"{folder}/set"
iterator = iter(tfs.TFRecordDataset(whole))
next(iterator)
checkpoint = tf.train.Checkpoint(iterator=iterator)
checkpoint.write(f"{folder}/checkpoint")
second = next(iterator).numpy()
checkpoint.read(f"{folder}/checkpoint")
print(json.dumps({
    "bridge": ops.bridge(),
    "warnings": [str(w.message) for w in caught if "tfio_store" in str(w.message)],
    "raw": records(tfs.TFRecordDataset(raw)),
    "packed": records(tfs.TFRecordDataset(packed)),
    "set": records(tfs.TFRecordDataset(whole)),
    "batches": records(tfs.TFRecordDataset(whole, batch_size=7)),
    "raw batches": records(tfs.TFRecordDataset(raw, batch_size=7)),
    "shuffled": records(tfs.TFRecordDataset(whole, shuffle=True, seed=1)),
    "skipped": records(tfs.TFRecordDataset(f"{folder}/damaged", on_corrupt="skip")),
    "damaged": message(f"{folder}/damaged"),
    "missing": message(f"{folder}/missing"),
    "restored": next(iterator).numpy() == second,
}))
"""


def test_the_same_in_tensorflow_s_own_ops(tmp_path: Path) -> None:
    records = [f"{i}".encode() * (i % 40) + b"\0" for i in range(100)]
    for name, codec in (("raw", None), ("raw.gz", "GZIP")):
        with tfs.TFRecordWriter(str(tmp_path / name), codec) as writer:
            for record in records:
                writer.write(record)
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=1, compression="GZIP") as sharded:
        sharded.write_batch(records)
    data = bytearray((tmp_path / "raw").read_bytes())
    data[14] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    off = {"TFIO_STORE_TF_BRIDGE": "off"}
    found = json.loads(run(PROGRAM, env=off, timeout=250, folder=str(tmp_path)))
    expected = [record.hex() for record in records]
    assert found["bridge"] == "tensorflow"
    assert len(found["warnings"]) == 1
    for name in ("raw", "packed", "set", "batches", "raw batches"):
        assert found[name] == expected, name
    shuffled = tfs.TFRecordDataset(str(tmp_path / "set"), shuffle=True, seed=1)
    assert found["shuffled"] == [record.numpy().hex() for record in shuffled]
    assert found["shuffled"] != expected
    assert sorted(found["shuffled"]) == sorted(expected)
    assert found["skipped"] == expected[1:]
    assert "offset 0" in found["damaged"]
    assert "missing" in found["missing"]
    assert found["restored"]


def test_the_native_ops_are_used() -> None:
    from tfio_store.tf.dataset import ops

    assert ops.bridge() == "native"
