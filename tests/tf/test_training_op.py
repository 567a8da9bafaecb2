"""Shuffled and parsed batches by one op: beside TensorFlow's own, saved, shared out, damaged."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.long import first

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.oracle import error_of  # noqa: E402
from tests.tf.programs.resume import SPEC  # noqa: E402
from tests.tf.run_program import run  # noqa: E402
from tfio_store.dataset.source import open_dataset  # noqa: E402
from tfio_store.storage import Storage  # noqa: E402
from tfio_store.tf.dataset import ops  # noqa: E402
from tfio_store.tf.dataset.batches import window_spans  # noqa: E402
from tfio_store.tf.dataset.options import Settings  # noqa: E402
from tfio_store.tf.dataset.spans import (  # noqa: E402
    Blocks,
    Spans,
    block_spans,
)

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(ops.bridge() != "native", reason="needs the native ops"),
]

OLD = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 17)
"""There later epochs come in another order after a restore; the docs say so."""

COUNT = 3001
SIZE = 2000  # about 500 to a block


def example(i: int) -> bytes:
    lists = {
        "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
        "tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=range(i % 5))),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"%05d" % i * (SIZE // 5)])),
    }
    return tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString()


RECORDS = [example(i) for i in range(COUNT)]
ID_OF = {record: i for i, record in enumerate(RECORDS)}

KINDS = ["raw", "GZIP", "ZSTD", "files"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("training")
    for codec in (None, "GZIP", "ZSTD"):
        name = codec or "raw"
        with tfs.ShardedWriter(f"{folder}/{name}", num_shards=3, compression=codec) as writer:
            for record in RECORDS:
                writer.write(record)
    with tf.io.TFRecordWriter(str(folder / "a")) as plain, tf.io.TFRecordWriter(str(folder / "b")):
        for record in RECORDS:
            plain.write(record)
    return {
        **{kind: str(folder / kind) for kind in KINDS[:3]},
        "files": [f"{folder}/{n}" for n in "ab"],
    }


def batches(dataset: Any) -> list[list[int]]:
    """The ids of each batch; what else is in a batch must go with them."""
    found = []
    for batch in dataset:
        if not isinstance(batch, dict):
            found.append([ID_OF[record] for record in batch.numpy().tolist()])
            continue
        ids = batch["id"].numpy().tolist()
        assert batch["tokens"].to_list() == [list(range(i % 5)) for i in ids]
        assert batch["text"].numpy().tolist() == [b"%05d" % i * (SIZE // 5) for i in ids]
        found.append(ids)
    return found


def flat(found: list[list[int]]) -> list[int]:
    return [i for batch in found for i in batch]


# --- contents ---------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [None, SPEC], ids=["records", "parsed"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [16, 100, 499, 3000, 3001, 5000])
@pytest.mark.parametrize("drop", [False, True])
def test_every_record_once(
    sources: dict[str, Any], kind: str, size: int, drop: bool, schema: Any
) -> None:
    dataset = tfs.TFRecordDataset(
        sources[kind], batch_size=size, drop_remainder=drop, schema=schema, shuffle=2, seed=1
    )
    found = batches(dataset)
    whole, rest = divmod(COUNT, size)
    assert [len(batch) for batch in found] == [size] * whole + [rest] * (rest > 0 and not drop)
    assert len(set(flat(found))) == len(flat(found))
    assert dataset.cardinality() == len(found)
    if len(found) > 1:
        assert flat(found) != sorted(flat(found))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [16, 700, 5000])
@pytest.mark.parametrize("drop", [False, True])
def test_parsed_in_order(sources: dict[str, Any], kind: str, size: int, drop: bool) -> None:
    options: dict[str, Any] = {"batch_size": size, "drop_remainder": drop}
    records = batches(tfs.TFRecordDataset(sources[kind], **options))
    dataset = tfs.TFRecordDataset(sources[kind], schema=SPEC, **options)
    assert batches(dataset) == records
    assert dataset.cardinality() == len(records)


@pytest.mark.parametrize("drop", [False, True])
def test_elements_are_those_of_tensorflow(sources: dict[str, Any], drop: bool) -> None:
    spec = {
        **SPEC,
        "sparse": tf.io.VarLenFeature(tf.string),
        "padded": tf.io.FixedLenSequenceFeature([2], tf.float32, True),
        "matrix": tf.io.FixedLenFeature([2, 3], tf.float32, [[1.0] * 3] * 2),
        "wide": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
        "pairs": tf.io.RaggedFeature(tf.int64, "x", [tf.io.RaggedFeature.UniformRowLength(2)]),
    }
    native = tf.data.TFRecordDataset(sources["files"]).batch(50, drop)
    parsed = native.map(lambda batch: tf.io.parse_example(batch, spec))
    for shuffle in (False, True):
        options: dict[str, Any] = {"batch_size": 50, "drop_remainder": drop, "shuffle": shuffle}
        ours = tfs.TFRecordDataset(sources["files"], **options)
        assert ours.element_spec == native.element_spec
        ours = tfs.TFRecordDataset(sources["files"], schema=spec, **options)
        assert ours.element_spec == parsed.element_spec
        assert next(iter(ours))["matrix"].shape == (50, 2, 3)


@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("drop", [False, True])
def test_few_records(tmp_path: Path, count: int, drop: bool) -> None:
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=2, compression="GZIP") as writer:
        for record in RECORDS[:count]:
            writer.write(record)
    dataset = tfs.TFRecordDataset(
        str(tmp_path / "set"), batch_size=40, drop_remainder=drop, schema=SPEC, shuffle=True
    )
    expected = 0 if drop and count < 40 else count
    for _ in range(2):
        assert sorted(flat(batches(dataset))) == list(range(expected))


def test_it_is_the_op_that_reads(sources: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = ops.read_examples
    monkeypatch.setattr(ops, "read_examples", lambda *a: calls.append(a) or real(*a))
    ways: list[dict[str, Any]] = [{"shuffle": True}, {"schema": SPEC}]
    for options in (*ways, {"shuffle": True, "schema": SPEC}):
        batches(tfs.TFRecordDataset(sources["ZSTD"], batch_size=100, **options))
        assert calls
        calls.clear()
    ways = [{"on_corrupt": "skip"}, {"num_parallel_reads": 2}]
    for options in ways:
        given: dict[str, Any] = {"batch_size": 100, "shuffle": 2, "schema": SPEC, **options}
        found = batches(tfs.TFRecordDataset(sources["files"], **given))
        assert sorted(flat(found)) == list(range(COUNT))
        assert not calls


# --- order ------------------------------------------------------------------------------


def test_epochs(sources: dict[str, Any]) -> None:
    def epochs(**options: Any) -> list[list[int]]:
        dataset = tfs.TFRecordDataset(
            sources["GZIP"], batch_size=100, schema=SPEC, shuffle=2, **options
        )
        return [flat(batches(dataset)) for _ in range(2)]

    first, second = epochs(seed=7)
    assert first != second
    assert epochs(seed=7) == [first, second]
    assert epochs(seed=8)[0] != first
    same = epochs(seed=7, reshuffle_each_iteration=False)
    assert same[0] == same[1]
    one, other = epochs()
    assert one != other


def test_epochs_have_the_same_windows_in_other_orders(sources: dict[str, Any]) -> None:
    """Windows of one batch each, so that a batch is a window."""
    size = COUNT // 4
    dataset = tfs.TFRecordDataset(sources["raw"], batch_size=size, shuffle=1, seed=5)
    epochs = [batches(dataset) for _ in range(3)]
    windows = [{frozenset(batch) for batch in epoch} for epoch in epochs]
    assert windows[0] == windows[1] == windows[2]
    assert len(windows[0]) == 5
    assert epochs[0] != epochs[1]
    for epoch in epochs:
        follow = [b == a + 1 for batch in epoch for a, b in pairwise(batch)]
        assert sum(follow) < len(follow) / 10


def test_windows() -> None:
    table = np.zeros((7, 6), np.int64)
    table[:, 5] = [10, 0, 20, 5, 30, 0, 12]
    spans = Spans(table, np.zeros((0, 3), np.int64), np.zeros(1, np.int64), 1)
    cut, windows = window_spans(spans, 8, 2, seed=3)
    assert (windows.batches, windows.per_window, windows.rest) == (9, 2, 5)
    assert (windows.count, windows.in_last) == (5, 1)
    taken = [cut.spans[a:b, 2].sum() for a, b in pairwise(cut.groups)]
    assert taken == [16, 16, 16, 16, 8, 5]
    assert sorted(cut.records) == sorted(spans.records)
    assert cut.spans[:, 2].sum() == 77


@pytest.mark.parametrize("deterministic", [None, True, False])
@pytest.mark.parametrize("option", [None, False])
def test_no_order_loses_records(
    sources: dict[str, Any], deterministic: bool | None, option: bool | None
) -> None:
    options = tf.data.Options()
    if option is not None:
        options.deterministic = option
    dataset = tfs.TFRecordDataset(
        sources["GZIP"], batch_size=16, schema=SPEC, shuffle=1, deterministic=deterministic
    )
    for _ in range(3):
        assert sorted(flat(batches(dataset.with_options(options)))) == list(range(COUNT))


@pytest.mark.parametrize("by", ["option", "method"])
@pytest.mark.parametrize("drop", [False, True])
def test_shards(sources: dict[str, Any], by: str, drop: bool) -> None:
    options: dict[str, Any] = {
        "batch_size": 64,
        "schema": SPEC,
        "shuffle": 2,
        "seed": 1,
        "drop_remainder": drop,
    }
    found = []
    for i in range(3):
        if by == "option":
            shard = tfs.TFRecordDataset(sources["ZSTD"], shard=(3, i), **options)
        else:
            shard = tfs.TFRecordDataset(sources["ZSTD"], **options).shard(3, i)
        found.append(flat(batches(shard)))
        if by == "option":
            assert shard.cardinality() == -(-len(found[-1]) // 64)
    assert len(set(flat(found))) == len(flat(found))
    assert COUNT - len(flat(found)) <= (3 * 63 if drop else 0)
    assert all(found)


def test_repeat_take_and_skip(sources: dict[str, Any]) -> None:
    dataset = tfs.TFRecordDataset(sources["raw"], batch_size=50, schema=SPEC, shuffle=2, seed=3)
    assert Counter(flat(batches(dataset.repeat(3)))) == dict.fromkeys(range(COUNT), 3)
    first = batches(tfs.TFRecordDataset(sources["raw"], batch_size=50, shuffle=2, seed=3))
    again = tfs.TFRecordDataset(sources["raw"], batch_size=50, shuffle=2, seed=3)
    assert batches(again.take(5)) == first[:5]
    again = tfs.TFRecordDataset(sources["raw"], batch_size=50, shuffle=2, seed=3)
    assert batches(again.skip(5)) == first[5:]


# --- saved ------------------------------------------------------------------------------


def resumed(job: dict[str, Any]) -> str:
    code = "from tests.tf.programs import resume; resume.main(ARGS['job'])"
    return run(code, timeout=280, ends=-9 if "save" in job else 0, job=job)


@pytest.mark.parametrize(("count", "symbolic"), first(1, [(6, False), (20, False), (20, True)]))
def test_killed_and_restored_in_many_places(
    sources: dict[str, Any], tmp_path: Path, count: int, symbolic: bool
) -> None:
    """Each goes on as the one that was never killed; in its first epoch, on TensorFlow 2.16."""
    epochs = 1 if OLD else 2
    total = epochs * 47  # 46 whole batches of 64, and one of 57
    places = sorted(random.Random(symbolic).sample(range(total), count))
    job = {
        "source": sources["GZIP"],
        "options": {"batch_size": 64, "shuffle": 2, "seed": 11},
        "epochs": epochs,
        "symbolic": symbolic,
        "folder": str(tmp_path),
    }
    seen = resumed({**job, "save": places}).splitlines()
    ends = resumed({**job, "restore": places}).split("\n\n")
    for place, text in zip(places, ends, strict=False):
        whole = seen[:place] + text.splitlines()
        assert whole[: len(seen)] == seen, place
        ids = Counter(int(i) for line in whole for i in line.split())
        assert ids == dict.fromkeys(range(COUNT), epochs), place


# --- shared out -------------------------------------------------------------------------


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="shuffled"),
        pytest.param({"drop_remainder": True}, id="the last dropped"),
        pytest.param({"deterministic": False}, id="in any order"),
        pytest.param({"shuffle": False}, id="in order"),
    ],
)
def test_two_workers_read_every_record_once(
    service: str, sources: dict[str, Any], options: dict[str, Any]
) -> None:
    given = {"batch_size": 64, "shuffle": 1, "schema": SPEC, **options}
    dataset = tfs.TFRecordDataset(sources["GZIP"], **given)
    policy = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    shared = dataset.apply(
        tf.data.experimental.service.distribute(policy, service, max_outstanding_requests=4)
    )
    found = flat(batches(shared))
    assert len(set(found)) == len(found)
    assert len(found) == (COUNT // 64 * 64 if "drop_remainder" in options else COUNT)


# --- damage -----------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [None, SPEC], ids=["records", "parsed"])
@pytest.mark.parametrize("at", [3, 9, 5000, 1_000_000, 3_500_000])
def test_damage(sources: dict[str, Any], tmp_path: Path, at: int, schema: Any) -> None:
    """Batches before it arrive; the error names file and offset, as that of the unshuffled path."""
    path = tmp_path / "f"
    data = bytearray(Path(sources["files"][0]).read_bytes())
    path.write_bytes(data)
    options: dict[str, Any] = {"batch_size": 64, "schema": schema}
    ordered = tfs.TFRecordDataset(str(path), **options)
    shuffled = tfs.TFRecordDataset(str(path), shuffle=2, seed=1, **options)
    written = path.stat().st_mtime_ns
    data[at] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(written, written))  # as a disk does it
    text = re.search(r"/f: .* \(offset \d+\)", error_of(lambda: ordered))
    assert text is not None
    found: list[Any] = []
    with pytest.raises(tf.errors.DataLossError) as caught:
        for batch in shuffled:
            found.extend(batches([batch]))
    assert text.group() in caught.value.message
    assert len(set(flat(found))) == len(flat(found)) == 64 * len(found)


def test_a_file_that_was_replaced(sources: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "f"
    data = Path(sources["files"][0]).read_bytes()
    path.write_bytes(data)
    dataset = tfs.TFRecordDataset(str(path), batch_size=64, shuffle=2, schema=SPEC)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(tf.errors.FailedPreconditionError, match="f: was replaced"):
        batches(dataset)
    path.unlink()  # it may have got another name, which nobody knows of
    with pytest.raises(tf.errors.FailedPreconditionError, match="f: was replaced"):
        batches(dataset)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ([7, 0, 1], "there is no group 7"),
        ([0, 900, 1], "has no batch 900"),
        ([0, -1, 1], "has no batch -1"),
        ([0, 2**62, 1], "has no batch"),
        ([0, 1], "wanted is not"),
    ],
)
def test_numbers_that_make_no_sense(sources: dict[str, Any], wanted: list[int], text: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        read(sources, wanted)


@pytest.mark.parametrize(
    "columns",
    [b"x", b"\x04\0\0\0\0\0\0\0", b"\x03\0\0\0\xff\xff\xff\xff", b"\x03\x01\0\0\0\0\0\0",
     b"\x03\0\x11\0\0\0\0\0", b"\x03\0\x01\0\0\0\0\0" + b"\xff" * 8],
)  # fmt: skip
def test_columns_that_make_no_sense(sources: dict[str, Any], columns: bytes) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="makes no sense"):
        read(sources, [0, 0, 1], columns=columns, Tout=[tf.int64])


def test_outputs_that_do_not_fit_the_columns(sources: dict[str, Any]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Tout has 2 types"):
        read(sources, [0, 0, 1], columns=b"", Tout=[tf.string, tf.string])


def read(sources: dict[str, Any], wanted: list[int], **columns: Any) -> Any:
    source = open_dataset([sources["GZIP"]], Storage())
    spans = block_spans(source)
    blocks = Blocks(
        tf.constant([shard.address for shard in source.shards]),
        tf.constant([shard.compression for shard in source.shards]),
        tf.constant([shard.version.etag or "" for shard in source.shards]),
        *map(tf.constant, (spans.held, spans.placed, spans.groups)),
        mark=tf.constant([], tf.int64),
    )
    call = tf.function(lambda number: ops.read_examples(blocks, number, Settings(), 16, columns))
    return call(tf.constant(wanted, tf.int64))
