"""The order in which a reader goes, what its workers share, and how it comes back."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tests.vectors.make_vectors import golden


def reader(place: Place) -> tfs.RecordReader:
    return tfs.RecordReader(place.url("s-*"), storage_options=place.storage_options)


def some_shards(place: Place, *, shards: int = 4, each: int = 3000) -> list[bytes]:
    """Raw, GZIP and ZLIB shards of about 3 MB; their records in order."""
    rng = np.random.default_rng(1)
    everything: list[bytes] = []
    for shard in range(shards):
        items = [
            b"%d.%d:" % (shard, i) + rng.bytes(int(n))
            for i, n in enumerate(rng.integers(0, 2000, each))
        ]
        everything += items
        pack = [bytes, gzip.compress, zlib.compress][shard % 3]
        place.put(f"s-{shard}", pack(framed(items)))  # type: ignore[operator]
    return everything


class TestOrder:
    def test_workers_differ_by_at_most_a_block(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(framed([bytes(1 << 20)] * 10))
        whole = tfs.RecordReader(tmp_path / "x")
        sizes = [len(list(whole.shard(i, 4))) for i in range(4)]
        assert sorted(sizes) == [2, 2, 3, 3]

    def test_each_iteration_is_an_epoch(self, tmp_path: Path) -> None:
        everything = some_shards(Place(str(tmp_path)))
        one = tfs.RecordReader(str(tmp_path / "s-*")).shuffle(7)
        epochs = [list(one) for _ in range(3)]
        assert epochs[0] != epochs[1] != epochs[2]
        assert all(sorted(epoch) == sorted(everything) for epoch in epochs)
        again = tfs.RecordReader(str(tmp_path / "s-*")).shuffle(7, epoch=2)
        assert list(again) == epochs[2]

    def test_bad_arguments(self) -> None:
        whole = tfs.RecordReader(golden("many"))
        for index, count in ((-1, 2), (2, 2), (0, 0)):
            with pytest.raises(ValueError, match=r"index=|count="):
                whole.shard(index, count)
        with pytest.raises(ValueError, match="window="):
            whole.shuffle(1, window=0)


class TestResume:
    def test_between_epochs(self, tmp_path: Path) -> None:
        some_shards(Place(str(tmp_path)))
        one = tfs.RecordReader(str(tmp_path / "s-*")).shuffle(7)
        list(one)
        state = one.state()
        second = list(one)
        other = tfs.RecordReader(str(tmp_path / "s-*")).shuffle(7)
        other.restore(state)
        assert list(other) == second

    def test_goes_on_where_a_loop_broke_off(self) -> None:
        found = tfs.RecordReader(golden("many"))
        for record in found:
            if record == b"record 41":
                break
        assert next(iter(found)) == b"record 42"
        assert next(found.batches())[0] == b"record 43"

    @pytest.mark.parametrize(
        "change",
        [{"format": 9}, {"records": -1}, {"position": "0"}, {"offset": 1.5}, {"epoch": None}],
    )
    def test_a_state_that_is_none(self, change: dict[str, object]) -> None:
        found = tfs.RecordReader(golden("many"))
        with pytest.raises(ValueError, match="state="):
            found.restore(found.state() | change)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_goes_on_in_a_forked_child(self, place: Place) -> None:
        some_shards(place)
        found = reader(place)
        whole = list(reader(place))
        each = iter(found)
        for _ in range(10):
            next(each)
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            rest = list(each)
            os.write(send, b"same" if rest == whole[10:] else b"other")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(receive, 5) == b"same"
        assert list(each) == whole[10:]


@pytest.mark.parametrize("size", [0, 1, 3000])
def test_windows_of_any_records(tmp_path: Path, size: int) -> None:
    """Also of many blocks of records without a byte, and of records longer than a window."""
    records = [b"%d" % i * size for i in range(3000)]
    with tfs.ShardedWriter(tmp_path / "d", num_shards=3, block_bytes=4096) as writer:
        writer.write_batch([*records, bytes(3 << 20)])
    reader = tfs.RecordReader(tmp_path / "d").shuffle(1, window=1)
    assert sorted(reader) == sorted([*records, bytes(3 << 20)])
