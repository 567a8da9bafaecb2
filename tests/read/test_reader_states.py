"""A state is taken where it was given, or refused: never another record, never one twice."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.long import first as first_of, long_on_pure


def items(count: int, most: int, seed: int) -> list[bytes]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, most, count)
    return [b"%d.%d:" % (seed, i) + rng.bytes(int(n)) for i, n in enumerate(sizes)]


def mixed(folder: Path) -> list[str]:
    """A stream between files of several blocks each."""
    (folder / "a.raw").write_bytes(framed(items(60, 160_000, 1)))
    (folder / "b.gz").write_bytes(gzip.compress(framed(items(50, 160_000, 2)), 1))
    (folder / "c.raw").write_bytes(framed(items(40, 160_000, 3)))
    (folder / "d.zz").write_bytes(zlib.compress(framed(items(20, 1000, 4)), 1))
    return [str(folder / name) for name in ("a.raw", "b.gz", "c.raw", "d.zz")]


def taken(reader: tfs.RecordReader, count: int) -> dict[str, Any]:
    each = iter(reader)
    for _ in range(count):
        next(each)
    state: dict[str, Any] = json.loads(json.dumps(reader.state()))
    return state


@pytest.mark.parametrize("window", first_of(3, [None, 5, 1, 2, 16]))
@pytest.mark.parametrize("first", range(4))
def test_mixed_sources_resume_at_every_position(
    tmp_path: Path, window: int | None, first: int
) -> None:
    names = mixed(tmp_path)
    names = names[first:] + names[:first]

    def reader() -> tfs.RecordReader:
        found = tfs.RecordReader(names)
        return found if window is None else found.shuffle(first, window=window)

    whole = list(reader())
    assert len(set(whole)) == len(whole) == 170
    running = reader()
    each = iter(running)
    for at in range(len(whole)):
        if at % 7 == 0 or at < 3:
            other = reader()
            other.restore(running.state())
            assert list(other) == whole[at:], at
        next(each)


@pytest.mark.parametrize(
    "other",
    [
        lambda r: r,
        lambda r: r.shuffle(4),
        lambda r: r.shuffle(3, window=2),
        lambda r: r.shuffle(3).shard(0, 2),
        lambda r: r.shard(0, 2).shuffle(3),
        lambda r: r.shard(0, 1),
    ],
)
def test_the_state_of_another_order_is_refused(tmp_path: Path, other: Any) -> None:
    names = mixed(tmp_path)
    state = taken(tfs.RecordReader(names).shuffle(3), 20)
    with pytest.raises(ValueError, match=r"state= was taken of another order, shuffle\(seed=3"):
        other(tfs.RecordReader(names)).restore(state)


def test_the_state_of_another_index_is_refused(tmp_path: Path) -> None:
    with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=1, compression="GZIP") as writer:
        writer.write_batch(items(100, 100_000, 1))
    state = taken(tfs.RecordReader(tmp_path / "t"), 50)
    (tmp_path / "_t.manifest.json").unlink()
    with pytest.raises(ValueError, match=r"state= was taken of .* other blocks"):
        tfs.RecordReader(tmp_path / "t-00000-of-00001.tfrecord").restore(state)


def test_all_states_have_one_shape(tmp_path: Path) -> None:
    names = mixed(tmp_path)
    readers = [tfs.RecordReader(names), tfs.RecordReader(names).shuffle(1).shard(0, 2)]
    states = [taken(reader, count) for reader in readers for count in (0, 1, 40)]
    states.append(tfs.RecordReader(io.BytesIO(framed([b"x"]))).state())
    for state in states:
        shape = {name: type(value) for name, value in state.items()}
        assert shape == {name: type(value) for name, value in states[0].items()}


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("num_shards", [1, 3])
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_after_an_append_a_slice_of_the_old_records_goes_on(
    tmp_path: Path, shuffled: bool, num_shards: int, compression: str | None
) -> None:
    url = str(tmp_path / "train")

    def write(begin: int) -> None:
        with tfs.ShardedWriter(
            url, num_shards=num_shards, compression=compression, if_exists="append"
        ) as writer:
            writer.write_batch(items(500, 9000, begin))

    def reader(source: Any) -> tfs.RecordReader:
        found = tfs.RecordReader(source)
        return found.shuffle(1, window=1) if shuffled else found

    write(0)
    whole = list(reader(url))
    state = taken(reader(url), 210)
    write(1)
    with pytest.raises(ValueError, match="files or their sizes differ"):
        reader(url).restore(state)
    again = reader(tfs.slice(url, ":500"))
    again.restore(state)
    assert list(again) == whole[210:]


@pytest.mark.parametrize(
    "change",
    [
        {"position": 4},
        {"position": 1 << 40},
        {"position": 1, "records": 3, "offset": 7},
        {"position": 0, "records": 3, "offset": 1 << 40},
        {"epoch": True},
        {"offset": -2},
    ],
)
def test_positions_beyond_the_end_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    names = mixed(tmp_path)
    # two places have an offset that is none: compressed data, and a file too small for it
    reader = tfs.RecordReader(names[1] if "offset" in change else names, compression="auto")
    if change.get("position") == 1:
        reader = tfs.RecordReader(names, compression="GZIP")
    state = reader.state() | change
    with pytest.raises(ValueError, match="state= holds"):
        reader.restore(state)


@pytest.mark.parametrize("shuffled", [False, True])
def test_more_records_than_there_are_is_refused(tmp_path: Path, shuffled: bool) -> None:
    with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=2, compression="GZIP") as writer:
        writer.write_batch(items(100, 100_000, 1))
    reader = tfs.RecordReader(tmp_path / "t")
    reader = reader.shuffle(1) if shuffled else reader
    with pytest.raises(ValueError, match="records="):
        reader.restore(reader.state() | {"records": 101})


def test_more_records_than_a_stream_turns_out_to_have_is_an_error(tmp_path: Path) -> None:
    names = mixed(tmp_path)[1:3]
    reader = tfs.RecordReader(names)
    reader.restore(reader.state() | {"records": 51})
    with pytest.raises(ValueError, match="state= stands behind record 51"):
        list(reader)


def test_a_shuffled_state_stands_where_a_window_begins(tmp_path: Path) -> None:
    reader = tfs.RecordReader(mixed(tmp_path)[0]).shuffle(1, window=2)
    with pytest.raises(ValueError, match="state= holds position=1"):
        reader.restore(reader.state() | {"position": 1})


@long_on_pure
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_state_before_records_that_are_not_used_yet(tmp_path: Path, shuffled: bool) -> None:
    names = mixed(tmp_path)

    def reader() -> tfs.RecordReader:
        found = tfs.RecordReader(names)
        return found.shuffle(1, window=1) if shuffled else found

    whole, running, given = list(reader()), reader(), 0
    for batch in running.batches():
        given += len(batch)
        for unread in {0, 1, len(batch) // 2, len(batch)}:
            other = reader()
            other.restore(json.loads(json.dumps(running.state(unread=unread))))
            assert list(other) == whole[given - unread :]
        for wrong in (-1, len(batch) + 1):
            with pytest.raises(ValueError, match=f"unread={wrong}: the last batch has given"):
                running.state(unread=wrong)
    assert given == len(whole)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_object_goes_back_to_a_state(pack: Any) -> None:
    records = items(50, 100_000, 1)
    reader = tfs.RecordReader(io.BytesIO(pack(framed(records))))
    states = [reader.state()]
    for _ in zip(range(3), reader, strict=False):
        states.append(reader.state())
    for count in (2, 0, 3, 1):
        reader.restore(states[count])
        assert list(reader) == records[count:]


@pytest.mark.parametrize("taken", [0, 1, 3, 49, 50])
def test_a_closed_reader_still_tells_where_it_stood(tmp_path: Path, taken: int) -> None:
    """In the midst of a batch, too: what was not given out is not behind it."""
    path = str(tmp_path / "x")
    with tfs.TFRecordWriter(path) as writer:
        for i in range(50):
            writer.write(b"%d" % i)
    with tfs.RecordReader(path) as reader:
        records = iter(reader)
        given = [next(records) for _ in range(taken)]
    again = tfs.RecordReader(path)
    again.restore(reader.state())
    assert given + list(again) == [b"%d" % i for i in range(50)]
    assert given + list(pickle.loads(pickle.dumps(reader))) == [b"%d" % i for i in range(50)]
