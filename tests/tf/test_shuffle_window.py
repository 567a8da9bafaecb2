"""Windows of a shuffle, given in blocks, records or bytes."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.framed import framed

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tfio_store.dataset.header_walk import index_raw_shards  # noqa: E402
from tfio_store.dataset.model import Limits  # noqa: E402
from tfio_store.dataset.source import open_dataset  # noqa: E402
from tfio_store.storage import Storage  # noqa: E402
from tfio_store.tf.dataset import ops  # noqa: E402
from tfio_store.tf.dataset.options import ShuffleWindow  # noqa: E402
from tfio_store.tf.dataset.spans import block_spans  # noqa: E402

pytestmark = pytest.mark.tensorflow

COUNT, SIZE = 8000, 1000  # 8 blocks
MASK = (1 << 64) - 1


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    name = tmp_path_factory.mktemp("window") / "f"
    name.write_bytes(framed([b"%06d" % i + bytes(SIZE - 6) for i in range(COUNT)]))
    return str(name)


@pytest.mark.parametrize(
    ("shuffle", "amount", "unit"),
    [
        (True, 16, "blocks"),
        (3, 3, "blocks"),
        ("10000 records", 10_000, "records"),
        ("10_000 records", 10_000, "records"),
        ("1record", 1, "records"),
        ("64 MiB", 64 << 20, "bytes"),
        ("1 GiB", 1 << 30, "bytes"),
        ("512KiB", 512 << 10, "bytes"),
        ("7 B", 7, "bytes"),
    ],
)
def test_a_window_may_be_of_several_units(shuffle: Any, amount: int, unit: str) -> None:
    assert ShuffleWindow.of(shuffle) == ShuffleWindow(amount, unit)


@pytest.mark.parametrize(
    "shuffle",
    [0, -1, "", "10", "0 records", "-1 MiB", "MiB", "1.5 GiB", "64 MB", "3 blocks", "٣ B"],
)
def test_what_is_no_window_is_refused(path: str, shuffle: Any) -> None:
    with pytest.raises(ValueError, match=r"shuffle= takes .*'10000 records'.*'64 MiB'"):
        tfs.TFRecordDataset(path, shuffle=shuffle)


def test_units_become_blocks() -> None:
    of = ShuffleWindow.of
    assert of("1500 records").blocks(10, 10_000, 10 << 20) == Fraction(3, 2)
    assert of("3 MiB").blocks(10, 10_000, 10 << 20) == 3
    assert of(5).blocks(10, 10_000, 10 << 20) == 5
    assert of("1 records").blocks(10, 10_000, 10 << 20) == 1
    assert of("1 B").blocks(0, 0, 0) == 1


def numbers(dataset: Any) -> list[int]:
    return [int(record[:6]) for batch in dataset for record in batch.numpy().tolist()]


def test_elements_are_mixed_among_so_many_records(path: str) -> None:
    dataset = tfs.TFRecordDataset(path, shuffle="2000 records", seed=5).batch(100)
    found = numbers(dataset)
    assert sorted(found) == list(range(COUNT))
    runs = (found[at : at + 1000] for at in range(0, COUNT, 1000))
    near = [len({number // 1000 for number in run}) for run in runs]
    assert max(near) <= 6  # of 9
    assert found != sorted(found)


def test_streams_take_a_number_of_records(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(gzip.compress(framed([b"%06d" % i for i in range(3000)])))
    dataset = tfs.TFRecordDataset(str(tmp_path / "f"), shuffle="50 records", seed=5)
    found = [int(record) for record in dataset.as_numpy_iterator()]
    assert sorted(found) == list(range(3000))
    assert all(number <= place + 50 for place, number in enumerate(found))
    assert found != sorted(found)


# --- the order, as docs/tfdata.md tells it ----------------------------------------------


def mixed(records: list[int], state: int) -> list[int]:
    for left in range(len(records), 1, -1):
        state = state + 0x9E3779B97F4A7C15 & MASK
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        other = ((z ^ z >> 31) >> 32) * left >> 32
        records[left - 1], records[other] = records[other], records[left - 1]
    return records


def blocks_of(path: str) -> list[list[int]]:
    dataset = index_raw_shards(
        open_dataset([path], Storage()), Limits(1 << 30, 1 << 30), instead=""
    )
    ends = np.cumsum(block_spans(dataset).records).tolist()
    return [list(range(a, b)) for a, b in zip([0, *ends], ends, strict=False)]


def documented(path: str, batch: int, blocks: Fraction, seed: int) -> list[list[int]]:
    """Two epochs."""
    found = blocks_of(path)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(found))
    records = [record for number in order for record in found[number]]
    size = max(1, len(records) * blocks // len(found) // batch) * batch
    whole = len(records) // batch * batch
    windows = [records[at : min(at + size, whole)] for at in range(0, whole, size)]
    turns = tf.data.Dataset.range(len(windows)).shuffle(len(windows), seed).repeat(2)
    turns = np.reshape(list(turns.as_numpy_iterator()), (2, -1)).tolist()
    rest = [records[whole:]] if records[whole:] else []
    epochs, seeds = [], tf.data.Dataset.random(seed, rerandomize_each_iteration=True)
    for turn in turns:
        order_of_windows = [windows[number] for number in turn] + rest
        states = seeds.take(len(order_of_windows)).as_numpy_iterator()
        mixed_windows = [
            mixed(list(w), int(s)) for w, s in zip(order_of_windows, states, strict=True)
        ]
        epochs.append([record for window in mixed_windows for record in window])
    return epochs


@pytest.mark.skipif(ops.bridge() != "native", reason="needs the native ops")
@pytest.mark.parametrize(
    ("shuffle", "blocks"),
    [(2, Fraction(2)), ("2500 records", None), (f"{3 << 20} B", None)],
)
@pytest.mark.parametrize("batch", [100, 300])
def test_the_order_of_batches_is_as_documented(
    path: str, batch: int, shuffle: Any, blocks: Fraction | None
) -> None:
    count = len(blocks_of(path))
    if blocks is None:
        whole = COUNT if "records" in shuffle else COUNT * (SIZE + 16) // count * count
        blocks = Fraction(int(shuffle.split()[0]) * count, whole)
    dataset = tfs.TFRecordDataset(path, batch_size=batch, shuffle=shuffle, seed=5)
    expected = documented(path, batch, blocks, 5)
    assert numbers(dataset) == expected[0]
    assert len(set(map(tuple, expected))) == 2


@pytest.mark.parametrize("epoch", [0, 1])
def test_the_order_of_a_reader_is_as_documented(path: str, epoch: int) -> None:
    def generator(*entropy: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))

    found = blocks_of(path)
    order = generator(5, epoch).permutation(len(found))
    records = [record for number in order for record in found[number]]
    expected = [records[i] for i in generator(5, epoch, 0, 0, 1).permutation(COUNT)]
    reader = tfs.RecordReader(path).shuffle(seed=5, epoch=epoch, window=64)
    assert [int(record[:6]) for record in reader] == expected
