"""A runner may split a task at any moment, at any fraction: each record is read once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tfio_store as tfs
from tests.support.framed import framed

pytest.importorskip("apache_beam", reason="Beam is not installed")

from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker

from tfio_store.beam.reading import Give, ReadBlocks, _Blocks

NEVER = (10**9, 0.0)
RECORDS = [b"%d" % i * 99 for i in range(600)]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Of GZIP blocks, of shards of which some are empty, of a stream, and of no records."""
    folder = tmp_path_factory.mktemp("splits")
    for name, codec in (("gzip", "GZIP"), ("raw", None)):
        with tfs.ShardedWriter(
            str(folder / name), num_shards=3, compression=codec, block_bytes=4096
        ) as writer:
            for record in RECORDS:
                writer.write(record, key=b"one")  # to one of the shards
    (folder / "foreign").write_bytes(framed(RECORDS))
    (folder / "empty").write_bytes(b"")
    names = ("gzip", "raw", "foreign", "empty")
    return [part for name in names for part in tfs.partitions(str(folder / name))]


def read(part: Any, splits: list[tuple[int, float]]) -> list[bytes]:
    """As a runner does: behind so many more records, so much of what is left becomes another
    task's, which is split in its turn."""
    blocks = _Blocks()
    found: list[bytes] = []
    restrictions = [blocks.initial_restriction(part)]
    while restrictions:
        restriction = restrictions.pop()
        assert blocks.restriction_size(part, restriction) > 0
        tracker = ThreadsafeRestrictionTracker(blocks.create_tracker(restriction))
        wait, fraction = splits.pop() if splits else NEVER
        for record in ReadBlocks(Give()).process(part, RestrictionTrackerView(tracker)):
            found.append(record)
            assert 0 <= tracker.current_progress().fraction_completed <= 1
            wait -= 1
            if wait < 0:
                split = tracker.try_split(fraction)
                restrictions += [] if split is None else [split[1]]
                wait, fraction = splits.pop() if splits else NEVER
        tracker.check_done()
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 300), st.floats(0, 1)), max_size=8))
def test_each_record_is_read_once_however_tasks_are_split(
    parts: list[Any], splits: list[tuple[int, float]]
) -> None:
    for part in parts:
        assert sorted(read(part, list(splits))) == sorted(RECORDS)


def test_each_block_may_be_a_task(parts: list[Any]) -> None:
    part = parts[0]
    whole = _Blocks().initial_restriction(part)
    assert whole.size() > 20
    found: list[bytes] = []
    for block in range(whole.start, whole.stop):
        tracker = ThreadsafeRestrictionTracker(
            _Blocks().create_tracker(OffsetRange(block, block + 1))
        )
        found += ReadBlocks(Give()).process(part, RestrictionTrackerView(tracker))
        tracker.check_done()
    assert found == RECORDS
