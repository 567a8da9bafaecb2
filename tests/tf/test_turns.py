"""Files in turns (``num_parallel_reads``) where blocks are known: the order of TensorFlow's own
interleave, by groups of lanes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfio_store as tfs
from tests.tf.saved import restored
from tfio_store.tf.dataset.spans import Spans, turn_spans


def table_of(counts: list[list[int]]) -> Spans:
    """Blocks of so many records, by file."""
    rows = [[f, 0, 0, 0, 0, n, 0, 0, -1, -1] for f, file in enumerate(counts) for n in file]
    table = np.array(rows, np.int64).reshape(-1, 10)
    return Spans(table, np.zeros((0, 3), np.int64), np.zeros(1, np.int64), len(counts))


def in_turns(line: list[list[Any]]) -> Iterator[Any]:
    """A record of each lane in turn, where None is a turn without one."""
    for turn in range(max(map(len, line), default=0)):
        for lane in line:
            if turn < len(lane) and lane[turn] is not None:
                yield lane[turn]


def records_of(found: Spans) -> list[list[tuple[int, int]]]:
    """(block, record of it) of each group, as the op reads it."""
    groups = []
    for bounds in found.groups:
        lanes: list[list[Any]] = []
        for first, last in pairwise(bounds):
            lanes.append([])
            for block, skip, take in found.spans[first:last].tolist():
                lanes[-1] += [(block, skip + i) for i in range(take)] if take else [None] * skip
        groups.append(list(in_turns(lanes)))
    return groups


def native_order(counts: list[int], lanes: int) -> list[tuple[int, int]]:
    files = tf.data.Dataset.from_tensor_slices(np.array(counts, np.int64)).enumerate()
    found = files.interleave(
        lambda file, n: tf.data.Dataset.range(n).map(lambda i: (file, i)),
        cycle_length=lanes,
        num_parallel_calls=lanes,
        deterministic=True,
    )
    return [(int(file), int(i)) for file, i in found]


@pytest.mark.parametrize("seed", range(12))
def test_turns_are_those_of_tensorflows_interleave(seed: int) -> None:
    dice = np.random.default_rng(seed)
    files = [dice.choice([1, 2, 3, 7], dice.integers(0, 4)).tolist() for _ in range(seed % 7 + 1)]
    size, lanes = int(dice.choice([1, 2, 5, 50])), int(dice.integers(1, 9))
    numbers = dict[tuple[int, int], tuple[int, int]]()
    block = 0
    for f, file in enumerate(files):
        before = 0
        for n in file:
            numbers |= {(block, i): (f, before + i) for i in range(n)}
            before, block = before + n, block + 1
    groups = records_of(turn_spans(table_of(files), range(len(files)), lanes, size))
    assert [numbers[x] for group in groups for x in group] == native_order(
        [sum(file) for file in files], lanes
    )
    assert all(len(group) == size for group in groups[:-1])


COUNTS = (40, 0, 3, 0, 0, 91, 17)


@pytest.fixture(params=["raw", "gzip"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Files of several blocks, with an index beside them."""
    codec = None if request.param == "raw" else "GZIP"
    for f, n in enumerate(COUNTS):
        target = f"{tmp_path}/f{f}"
        with tfs.ShardedWriter(target, num_shards=1, compression=codec, block_bytes=4096) as writer:
            writer.write_batch([f"{f}:{i}".encode() + bytes(i % 9 * 100) for i in range(n)])
    return sorted(str(path) for path in tmp_path.glob("f*"))


def native(files: list[str], reads: int) -> tf.data.Dataset:
    with open(files[0], "rb") as file:
        codec = "GZIP" if file.read(2) == b"\x1f\x8b" else ""
    return tf.data.TFRecordDataset(files, codec, num_parallel_reads=reads)


def listed(dataset: tf.data.Dataset) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


@pytest.mark.parametrize("reads", [1, 3, 20])
def test_elements_are_tensorflows(files: list[str], reads: int) -> None:
    ours = tfs.TFRecordDataset(files, num_parallel_reads=reads)
    assert listed(ours) == listed(native(files, reads))
    assert int(ours.cardinality()) == sum(COUNTS)
    for size, drop in ((64, False), (64, True), (7, False)):
        fused = tfs.TFRecordDataset(files, num_parallel_reads=reads).batch(size, drop)
        assert listed(fused) == listed(native(files, reads).batch(size, drop))
        made = tfs.TFRecordDataset(
            files, num_parallel_reads=reads, batch_size=size, drop_remainder=drop
        )
        assert listed(made) == listed(native(files, reads).batch(size, drop))


def test_batches_of_large_enough_records_are_fused(tmp_path: Path) -> None:
    with tfs.ShardedWriter(f"{tmp_path}/set", num_shards=3) as writer:
        writer.write_batch([bytes([i]) * 5000 for i in range(200)])
    files = sorted(map(str, tmp_path.glob("set*")))
    ours = tfs.TFRecordDataset(files, num_parallel_reads=2).batch(16)
    assert "fused: one call" in ours.explain()
    assert listed(ours) == listed(native(files, 2).batch(16))
    for path in tmp_path.glob("_*"):
        path.unlink()
    walked = tfs.TFRecordDataset(files, num_parallel_reads=2).batch(16)
    assert "fused: one call" in walked.explain()
    assert listed(walked) == listed(native(files, 2).batch(16))


def test_good_records_come_before_damage_in_their_turns(files: list[str]) -> None:
    if "f5" not in files[5]:
        raise AssertionError(files)
    with open(files[5], "r+b") as file:
        data = file.read()
        if data[:2] == b"\x1f\x8b":
            pytest.skip("a damaged member has no good records")
        at = data.index(b"5:60")
        file.seek(at)
        file.write(b"?")
    # what changed is damage: the version is that of the changed file
    ours, theirs = (iter(read) for read in (tfs.TFRecordDataset(files, num_parallel_reads=3),
                                            native(files, 3)))  # fmt: skip
    got: tuple[list[Any], list[Any]] = ([], [])
    for iterator, into in zip((ours, theirs), got, strict=True):
        with pytest.raises(tf.errors.DataLossError):
            while True:
                into.append(next(iterator).numpy())
    assert got[0] == got[1]


def test_an_iterator_goes_on_where_it_was_saved(files: list[str], tmp_path: Path) -> None:
    for symbolic in (False, True):
        options = tf.data.Options()
        options.experimental_symbolic_checkpoint = symbolic
        dataset = tfs.TFRecordDataset(files, num_parallel_reads=3).batch(16).with_options(options)
        before, rest = restored(dataset, 3, tmp_path)
        assert listed([*before, *rest]) == listed(native(files, 3).batch(16))


def test_lanes_that_make_no_sense_are_refused(files: list[str]) -> None:
    from tfio_store.tf.dataset import ops
    from tfio_store.tf.dataset.options import Settings
    from tfio_store.tf.dataset.spans import Blocks

    text = tf.constant([files[0]]), tf.constant([""]), tf.constant([""])
    table = tf.constant([[0, 0, 100, 0, 100, 2, 0, -1]], tf.int64)
    for spans, groups, wanted in (
        ([[0, 0, 1]], [[0, 2]], [0]),
        ([[0, 0, 1]], [[1, 0]], [0]),
        ([[0, 1 << 60, 0]], [[0, 1]], [0]),
        ([[0, 0, 1]], [[0, 1]], [1]),
        ([[0, 0, 1]], [[0, 1]], [0, 0]),
    ):
        rows = tf.constant(spans, tf.int64), tf.constant(groups, tf.int64)
        asked = Blocks(*text, table, *rows, tf.constant([], tf.int64))
        read = partial(ops.read_blocks, asked, tf.constant(wanted, tf.int64), Settings())
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.function(read)()
