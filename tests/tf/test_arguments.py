"""Arguments that are no use: TensorFlow's own kinds of error."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.servers.moto import KEY, SECRET
from tests.support.framed import flipped, framed

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.oracle import Outcome, error_of, outcome  # noqa: E402

pytestmark = pytest.mark.tensorflow


def kind(make: Any) -> type[BaseException] | None:
    try:
        list(make())
    except Exception as error:
        return type(error)
    return None


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "f").write_bytes(framed([b"x"]))
    return str(tmp_path / "f")


@pytest.mark.parametrize(
    "size",
    [None, -1, 0, 7, True, "x", 1.5, b"3", tf.constant(4), tf.constant(4, tf.int64)],
    ids=str,
)
def test_buffer_size(path: str, size: Any) -> None:
    if size == -1 and tf.__version__.startswith("2.16."):
        pytest.skip("TensorFlow 2.16 refused what it takes since")
    ours = kind(lambda: tfs.TFRecordDataset(path, buffer_size=size))
    assert ours == kind(lambda: tf.data.TFRecordDataset(path, buffer_size=size))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda f: (name for name in [f]), id="generator"),
        pytest.param(lambda f: iter([f]), id="iterator"),
        pytest.param(lambda f: {f}, id="set"),
        pytest.param(lambda f: {"a": f}, id="dict"),
        pytest.param(lambda f: None, id="None"),
        pytest.param(lambda f: "", id="empty name"),
        pytest.param(lambda f: [f, ""], id="empty name among others"),
    ],
)
def test_filenames(path: str, make: Any) -> None:
    ours = kind(lambda: tfs.TFRecordDataset(make(path)))
    native = kind(lambda: tf.data.TFRecordDataset(make(path)))
    assert native is not None
    assert ours == native


def test_an_unreachable_store_is_unavailable() -> None:
    """Which TensorFlow's executor turns into an InternalError that says so, for all ops but its own
    of communication."""
    options = {"endpoint_url": "http://127.0.0.1:9", "key": KEY, "secret": SECRET}
    storage = tfs.Storage(options, retry=tfs.Retry(attempts=2, base_delay=0.01))
    text = error_of(lambda: tfs.TFRecordDataset("s3://b/f", storage=storage))
    assert "s3://b/f" in text
    assert "originally returned UnavailableError" in text


def test_a_split_of_a_tfds_folder(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"x-{name}.tfrecord-00000-of-00001").write_bytes(framed([name.encode()]))
    splits = [{"name": name, "shardLengths": [1]} for name in ("train", "test")]
    (tmp_path / "dataset_info.json").write_text(json.dumps({"name": "x", "splits": splits}))
    for name in ("train", "test"):
        assert [r.numpy() for r in tfs.TFRecordDataset(tmp_path, split=name)] == [name.encode()]
    with pytest.raises(ValueError, match="several splits"):
        tfs.TFRecordDataset(tmp_path)


def test_what_makes_streams_of_blocks_is_said(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(flipped(framed([b"x" * 100] * 10), 2 * 116))
    with pytest.warns(RuntimeWarning, match="read as streams"):
        dataset = tfs.TFRecordDataset(str(tmp_path / "f"), shard=(1, 0))
    assert outcome(lambda: dataset) == Outcome([b"x" * 100] * 2, tf.errors.DataLossError)


def test_the_limit_of_a_record_s_size_holds_for_finding_blocks(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(framed([b"x" * 1000] * 10))
    with pytest.warns(RuntimeWarning, match="max_record_bytes"):
        found = outcome(
            lambda: tfs.TFRecordDataset(str(tmp_path / "f"), shard=(1, 0), max_record_bytes=999)
        )
    assert found == Outcome([], tf.errors.ResourceExhaustedError)


@pytest.mark.parametrize("batch_size", [1, 64])
def test_a_raised_limit_of_a_record_s_size_holds_for_finding_blocks(
    tmp_path: Path, batch_size: int
) -> None:
    length = (3 << 29).to_bytes(8, "little")
    with (tmp_path / "f").open("wb") as file:
        file.write(length + tfs.masked_crc32c(length).to_bytes(4, "little"))
        file.truncate((3 << 29) + 16)
    name = str(tmp_path / "f")
    with pytest.warns(RuntimeWarning, match="read as streams"):
        tfs.TFRecordDataset(name, batch_size=batch_size)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = tfs.TFRecordDataset(name, batch_size=batch_size, max_record_bytes=2 << 30)
    assert dataset.cardinality() == 1


def test_a_file_without_any_record_is_an_error_though_damage_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40)
    found = outcome(lambda: tfs.TFRecordDataset(str(tmp_path / "f"), on_corrupt="skip"))
    assert found == Outcome([], tf.errors.DataLossError)
