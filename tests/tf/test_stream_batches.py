"""Batches of files without blocks: as TensorFlow puts them together, record by record."""

from __future__ import annotations

import gzip
import os
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.examples import entry, floats, int64s, wire_example
from tests.support.framed import framed

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.oracle import error_of, outcome  # noqa: E402
from tests.tf.test_parsed import elements  # noqa: E402
from tfio_store.tf.dataset import ops, streams  # noqa: E402

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(ops.bridge() != "native", reason="needs the native ops"),
]

COUNT = 3001
LARGE = [70_000, 1_500_000, 0, 3_000_000, 200_000]


def records() -> list[bytes]:
    return [b"%05d" % i * (i % 40) for i in range(COUNT)]


def write(folder: Path, parts: list[list[bytes]], codec: str = "GZIP") -> list[str]:
    squeeze = zlib.compress if codec == "ZLIB" else gzip.compress
    for i, part in enumerate(parts):
        (folder / f"{i:03d}").write_bytes(squeeze(framed(part)))
    return [str(folder / f"{i:03d}") for i in range(len(parts))]


def parts_of(name: str) -> list[list[bytes]]:
    all_records = records()
    if name == "one file":
        return [all_records]
    if name == "large records":
        return [[bytes([i]) * size for i, size in enumerate(LARGE * 8)], [b"x"] * 20]
    if name == "tiny files":  # several share a scan; some are empty
        bounds = sorted({0, COUNT, *range(0, COUNT, 21), *range(0, COUNT, 33)})
        return [all_records[a:b] for a, b in pairwise(bounds)] + [[], []]
    return [all_records[:1200], [], all_records[1200:1205], all_records[1205:]]


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SMALL", 0)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("size", [16, 1000, 3001])
@pytest.mark.parametrize("name", ["one file", "four files", "tiny files", "large records"])
def test_as_native(tmp_path: Path, name: str, size: int, drop: bool) -> None:
    codec = "ZLIB" if name == "four files" else "GZIP"
    files = write(tmp_path, parts_of(name), codec)
    native = tf.data.TFRecordDataset(files, codec).batch(size, drop)
    ours = tfs.TFRecordDataset(files, batch_size=size, drop_remainder=drop)
    assert ours.element_spec == native.element_spec
    assert outcome(lambda: ours) == outcome(lambda: native)
    assert outcome(lambda: ours.repeat(2)) == outcome(lambda: native.repeat(2))


def test_each_file_is_opened_once(tmp_path: Path, opened: list[str]) -> None:
    noise = np.random.default_rng(1)
    files = write(tmp_path, [[noise.bytes(10_000) for _ in range(300)] for _ in range(3)])
    found = outcome(lambda: tfs.TFRecordDataset(files, batch_size=64))
    assert [len(batch) for batch in found.elements] == [64] * 14 + [4]
    assert opened == ["000", "001", "002"]


def test_no_record_passes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, parts_of("one file"))
    for other in ("read_stream", "read_blocks"):
        monkeypatch.delattr(ops, other)
    assert len(list(tfs.TFRecordDataset(files, batch_size=100))) == 31


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("damage", ["a flipped bit", "cut", "missing", "a bad record"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_damage_comes_where_it_is(tmp_path: Path, at: int, damage: str, skip: bool) -> None:
    noise = np.random.default_rng(1)
    parts = [[noise.bytes(900) for _ in range(500)] for _ in range(3)]
    files = write(tmp_path, parts)
    bad = Path(files[at])
    data = bytearray(bad.read_bytes())
    if damage == "a bad record":
        frames = bytearray(framed(parts[at]))
        frames[250 * 916 + 100] ^= 1
        data = bytearray(gzip.compress(frames))
    data[-200_000] ^= damage == "a flipped bit"
    bad.write_bytes(data[:-100_000] if damage == "cut" else data)
    if damage == "missing":
        bad.unlink()
    options: dict[str, Any] = {"on_corrupt": "skip"} if skip else {}

    def ours() -> Any:
        return tfs.TFRecordDataset(files, "GZIP", batch_size=64, **options)

    def single() -> Any:
        return tfs.TFRecordDataset(files, "GZIP", **options).batch(64)

    assert outcome(ours) == outcome(single)
    if outcome(ours).error is not None:
        assert str(bad) in error_of(ours)


@pytest.mark.parametrize("count", [2, 5])
def test_shares_are_files(tmp_path: Path, count: int) -> None:
    files = write(tmp_path, parts_of("four files"))
    for index in range(count):
        native = tf.data.TFRecordDataset(files[index::count], "GZIP").batch(32)
        for ours in (
            tfs.TFRecordDataset(files, batch_size=32, shard=(count, index)),
            tfs.TFRecordDataset(tf.constant(files), batch_size=32, shard=(count, index)),
        ):
            assert outcome(lambda found=ours: found) == outcome(lambda found=native: found)


def test_a_file_that_was_replaced_is_not_mixed(tmp_path: Path) -> None:
    noise = np.random.default_rng(1)
    (name,) = write(tmp_path, [[noise.bytes(10_000) for _ in range(3000)]])
    batches = iter(tfs.TFRecordDataset(name, batch_size=16))
    next(batches)
    (tmp_path / "other").write_bytes(gzip.compress(framed([b"new"] * 10_000)))
    os.replace(tmp_path / "other", name)
    found = outcome(lambda: batches)
    assert found.error in (None, tf.errors.FailedPreconditionError)
    assert b"new" not in {record for batch in found.elements for record in batch}


def test_small_files_are_not_worth_the_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    files = write(tmp_path, parts_of("four files"))
    monkeypatch.delattr(ops, "pack_stream")
    assert len(list(tfs.TFRecordDataset(files, batch_size=100))) == 31


# --- parsed -----------------------------------------------------------------------------

SPEC = {
    "x": tf.io.FixedLenFeature([], tf.int64),
    "f": tf.io.FixedLenFeature([2], tf.float32, [0.5, 1.5]),
    "tokens": tf.io.RaggedFeature(tf.int64),
    "some": tf.io.VarLenFeature(tf.int64),
}


def example(i: int) -> bytes:
    lists = [entry(b"x", int64s(i)), entry(b"tokens", int64s(*range(i % 5)))]
    more = [entry(b"f", floats(i, -i))] if i % 3 else [entry(b"some", int64s(7, i))]
    return wire_example(*lists, *more)


@pytest.mark.parametrize("op", [True, False], ids=["by the op", "by TensorFlow"])
@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("size", [16, 1500])
def test_parsed_as_native(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, drop: bool, op: bool
) -> None:
    if not op:
        monkeypatch.setattr(streams, "fused_columns", lambda spec: None)
    rows = [example(i) for i in range(COUNT)]
    files = write(tmp_path, [rows[:1000], rows[1000:1010], rows[1010:]])
    native = tf.data.TFRecordDataset(files, "GZIP").batch(size, drop)
    native = native.map(lambda batch: tf.io.parse_example(batch, SPEC))
    ours = tfs.TFRecordDataset(files, batch_size=size, drop_remainder=drop, schema=SPEC)
    assert ours.element_spec == native.element_spec
    assert elements(ours) == elements(native)


@pytest.mark.parametrize("at", [0, 19, 20, 999, 1000, 1003, 2990])
def test_an_error_names_file_and_record(tmp_path: Path, at: int) -> None:
    rows = [example(i) for i in range(COUNT)]
    rows[at] = wire_example(entry(b"x", floats(1)))
    files = write(tmp_path, [rows[:1000], rows[1000:]])
    dataset = tfs.TFRecordDataset(files, batch_size=30, schema=SPEC)
    found, error = elements(dataset)
    assert len(found) == at // 30
    assert error is tf.errors.InvalidArgumentError
    place, number = (files[0], at) if at < 1000 else (files[1], at - 1000)
    text = f"{place}: record {number} (the first is 0): feature 'x' holds float values"
    assert text in error_of(lambda: dataset)


# --- packs that no op has made ----------------------------------------------------------


def pack(frames: bytes, count: int, first: int = 0, name: bytes = b"f") -> np.ndarray[Any, Any]:
    head = np.array([len(frames), count, first, len(name)], "<u8").tobytes()
    return np.frombuffer(head + name + frames, np.uint8)


GOOD = pack(framed([b"a", b"bc", b"def"]), 3)
NONE = np.zeros(0, np.uint8)
BAD = {
    "cut": GOOD[:-1],
    "cut in the head": GOOD[:20],
    "more records than frames": pack(framed([b"x" * 100]), 3),
    "more than fit": pack(framed([b"a"]), 1 << 60),
    "a long name": np.concatenate([GOOD[:24], np.full(8, 255, np.uint8), GOOD[32:]]),
    "a long record": pack(b"\xff" * 8 + bytes(8), 1),
    "noise": np.arange(100, dtype=np.uint8),
}


def cut_pack(left: Any, found: Any, size: int, least: int = 1) -> Any:
    return tf.function(ops.cut_pack)(
        tf.constant(left), tf.constant(found), tf.constant([size, least], tf.int64)
    )


def read_pack(left: Any, found: Any, cut: list[int]) -> list[bytes]:
    given = tf.constant(left), tf.constant(found), tf.constant(cut, tf.int64)
    result: list[bytes] = tf.function(ops.read_pack)(*given)[0].numpy().tolist()
    return result


@pytest.mark.parametrize("found", BAD.values(), ids=BAD)
def test_a_pack_that_makes_no_sense_is_refused(found: Any) -> None:
    for left, other in ((found, GOOD), (NONE, found)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="pack"):
            later, cuts = cut_pack(left, other, 3)
            for cut in cuts.numpy().tolist():
                read_pack(left, other, cut)
            _, cuts = cut_pack(later, NONE, 3)
            read_pack(later, NONE, cuts[0].numpy().tolist())


def test_a_record_may_be_cut_off_anywhere() -> None:
    later, cuts = cut_pack(NONE, GOOD, 2)
    assert cuts.numpy().tolist() == [[0, 0, 0, 2]]
    assert read_pack(NONE, GOOD, [0, 0, 0, 2]) == [b"a", b"bc"]
    assert read_pack(later, NONE, [1, 0, 0, 0]) == [b"def"]
    again, cuts = cut_pack(later, GOOD, 5)
    assert cuts.shape == (0, 4)
    assert read_pack(again, GOOD, [1, 0, 0, 1]) == [b"def", b"a", b"bc", b"def", b"a"]
    last, cuts = cut_pack(again, NONE, 5, least=4)
    assert (last.shape, cuts.numpy().tolist()) == ((0,), [[1, 0, 0, 0]])
    with pytest.raises(tf.errors.OutOfRangeError):
        cut_pack(last, NONE, 5)


@pytest.mark.parametrize(
    "cut", [[0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 4], [0, -1, 0, 1], [0, 0, 1 << 62, 1], [0, 0, 0]]
)
def test_a_cut_that_is_none_is_refused(cut: list[int]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"no such batch|has 3 numbers"):
        read_pack(NONE, GOOD, cut)
