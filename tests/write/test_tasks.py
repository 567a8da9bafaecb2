"""Tasks of a `WriteJob` whose number nobody knows: retried, doubled, late, empty; one commit."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_file_writer import pending
from tfio_store.write.task import check_order, counted_results

KIB = 1 << 10


def job_at(place: Place, **options: Any) -> tfs.WriteJob:
    return tfs.WriteJob(place.url("ds/train"), storage_options=place.storage_options, **options)


def records_of(task: int) -> list[bytes]:
    return [b"%d:%d" % (task, i) for i in range(50)]


def run(job: tfs.WriteJob, task: int) -> tfs.results.TaskResult:
    return job.write(records_of(task), order=task)


def written(tasks: Any) -> list[bytes]:
    return [record for task in tasks for record in records_of(task)]


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_tasks_in_other_processes(place: Place, compression: str | None) -> None:
    if place.root.startswith("memory:"):
        pytest.skip("memory is one process's own")
    context = multiprocessing.get_context("spawn")
    with job_at(place, compression=compression) as job, ProcessPoolExecutor(2, context) as pool:
        manifest = job.commit(pool.map(partial(run, job), [2, 0, 1]))
    assert manifest.records == 150
    assert read(place, "ds/train") == written(range(3))
    assert len(place.names()) == 5
    assert not pending(place)


def test_a_task_writes_none_one_or_many_shards(place: Place) -> None:
    job = job_at(place)
    none = job.write([], order=1)
    one = job.write([b"x" * KIB] * 3, order=2)
    many = job.write([b"%04d" % i * KIB for i in range(10)], order=0, max_shard_bytes=9 * KIB)
    assert [len(result.shards) for result in (none, one, many)] == [0, 1, 5]
    assert (none.num_records, none.nbytes, none.order) == (0, 0, 1)
    assert (many.num_records, many.nbytes) == (10, 10 * (4 * KIB + 16))
    manifest = job.commit([none, one, many])
    assert [shard.records for shard in manifest.shards] == [2] * 5 + [3]
    assert read(place, "ds/train") == [b"%04d" % i * KIB for i in range(10)] + [b"x" * KIB] * 3
    assert len(place.names()) == 8


def test_a_task_pushes_its_records(local: Place) -> None:
    job = job_at(local, schema={"x": tfs.Feature("int64")})
    with job.open() as writer:
        writer.write({"x": 1})
        writer.write_batch([{"x": 2}, {"x": 3}])
        with pytest.raises(ValueError, match=r"close\(\) its writer first"):
            _ = writer.result
        assert "open" in repr(writer)
    assert writer.close() is writer.result
    writer.abort()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write({"x": 4})
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write_batch([{"x": 4}])
    assert job.commit([writer.result]).records == 3
    assert tfs.read_table(local.url("ds/train"))["x"].tolist() == [1, 2, 3]


@settings(max_examples=30)
@given(sizes=st.lists(st.integers(0, 300), max_size=60), limit=st.integers(1, 900))
def test_records_one_by_one_fall_into_the_same_shards(sizes: list[int], limit: int) -> None:
    job = tfs.WriteJob("memory://one-by-one/train", if_exists="overwrite")
    with job.open(max_shard_bytes=limit) as writer:
        for size in sizes:
            writer.write(bytearray(size) if size % 2 else bytes(size))
    batch = job.write(map(bytes, sizes), max_shard_bytes=limit)
    job.abort()
    shards = zip(writer.result.shards, batch.shards, strict=True)
    assert all((one.records, one.crc32c) == (two.records, two.crc32c) for one, two in shards)


def test_batches_of_framed_records(local: Place) -> None:
    with sharded(local, "other") as source:
        source.write_batch(records_of(0))
    job = job_at(local)
    with job.open(order=0, max_shard_bytes=100) as writer:
        for batch in tfs.RecordReader(local.url("other")).batches():
            writer.write_batch(batch)
    job.commit([writer.result])
    assert sorted(read(local, "ds/train")) == sorted(records_of(0))


def test_a_task_that_fails_leaves_nothing(place: Place) -> None:
    job = job_at(place)
    with pytest.raises(RuntimeError, match="in the task"), job.open(max_shard_bytes=KIB) as writer:
        writer.write_batch([bytes(KIB)] * 20)
        raise RuntimeError("in the task")
    aborted = job.open(max_shard_bytes=KIB)
    aborted.write_batch([bytes(KIB)] * 20)
    aborted.abort()
    aborted.abort()
    with pytest.raises(ValueError, match="the writer is closed"):
        aborted.close()
    with pytest.raises(TypeError):
        job.write([b"fine", 7], max_shard_bytes=KIB)  # type: ignore[list-item]
    assert len(place.names()) == 1  # the claim
    assert not pending(place)


def test_a_dropped_task_warns_and_leaves_nothing(local: Place) -> None:
    job = job_at(local)
    writer = job.open()
    writer.write(b"x")
    with pytest.warns(UserWarning, match="TaskWriter was dropped"):
        del writer
    assert len(local.names()) == 1


def test_the_first_of_two_attempts_counts(place: Place) -> None:
    job = job_at(place)
    first, second = job.write([b"first"], order=4), job.write([b"second"], order=4)
    unreported = job.write([b"nobody hears of it"] * 2, order=5, max_shard_bytes=1)
    assert len(unreported.shards) == 2
    job.commit([run(job, 7), first, second, first])
    assert read(place, "ds/train") == [b"first", *records_of(7)]
    assert len(place.names()) == 4


def test_without_an_order_results_count_as_they_come(local: Place) -> None:
    job = job_at(local)
    results = [job.write([b"%d" % i]) for i in (3, 1, 2)]
    job.commit([*results, results[1]])
    assert read(local, "ds/train") == [b"3", b"1", b"2"]


@pytest.mark.parametrize(
    "orders",
    [list(range(-3, 12)), list(product(range(3), (-1, 4, 10))), ["", "10", "2", "é", "日"]],
)
def test_any_order_of_results(local: Place, orders: list[Any]) -> None:
    job = job_at(local)
    results = [job.write([repr(order).encode()], order=order) for order in orders]
    random.Random(1).shuffle(results)
    messages = [json.dumps(result.to_json()) for result in results]
    job.commit(tfs.results.TaskResult.from_json(json.loads(message)) for message in messages)
    assert read(local, "ds/train") == [repr(order).encode() for order in orders]


def test_orders_of_several_kinds(local: Place) -> None:
    job = job_at(local)
    ordered, text, none = job.write([b"x"], 1), job.write([b"x"], "1"), job.write([b"x"])
    for results in ([ordered, text], [ordered, none], [none, text]):
        with pytest.raises(TypeError, match="order of one kind"):
            job.commit(results)
    with pytest.raises(TypeError, match="one is ShardInfo"):
        job.commit(ordered.shards)
    job.commit([ordered])


def test_a_result_of_another_job_is_refused(local: Place) -> None:
    job, other = job_at(local), job_at(local)
    for result in (other.write([b"x"]), other.write([])):
        with pytest.raises(ValueError, match="of another job"):
            job.commit([result])


def test_the_two_kinds_of_job_are_told_apart(local: Place) -> None:
    free, fixed = job_at(local), job_at(local, num_shards=1)
    with pytest.raises(ValueError, match="needs a job with num_shards"):
        free.write_shard(0, [])
    for wrong in (fixed.open, partial(fixed.write, [])):
        with pytest.raises(ValueError, match="without num_shards"):
            wrong()
    with pytest.raises(TypeError, match="one is TaskResult"):
        fixed.commit([free.write([b"x"])])
    assert repr(free) == f"<WriteJob of {local.url('ds/train')}, open>"


# Late, twice, elsewhere


@pytest.mark.parametrize("records", [[b"late"], []])
def test_a_task_that_ends_after_the_commit_leaves_nothing(place: Place, records: Any) -> None:
    job = job_at(place)
    late = pickle.loads(pickle.dumps(job)).open(order=1)
    late.write_batch(records)
    manifest = job.commit([run(job, 0)])
    before = place.names()
    with pytest.raises(OSError, match="too late"):
        late.close()
    with pytest.raises(OSError, match="too late"):
        job.write(records, order=2)
    assert place.names() == before
    assert job.commit([]).to_bytes() == manifest.to_bytes()
    assert read(place, "ds/train") == written([0])


def test_a_task_that_ends_during_the_commit_leaves_nothing(local: Place, on_put: Any) -> None:
    job = job_at(local)
    copy = pickle.loads(pickle.dumps(job))
    result = run(job, 0)

    def meanwhile(put: Any) -> Any:
        with pytest.raises(OSError, match="too late"):
            run(copy, 1)
        return put()

    on_put("_train.manifest.json", meanwhile)
    job.commit([result])
    assert len(local.names()) == 3


def test_a_second_commit_elsewhere_lands_the_same(place: Place) -> None:
    job = job_at(place)
    copy, late = (pickle.loads(pickle.dumps(job)) for _ in range(2))
    results = [run(job, task) for task in range(3)]
    manifest = job.commit(results)
    before = place.names()
    assert copy.commit(results[:1]).to_bytes() == manifest.to_bytes()
    copy.abort()
    late.abort()
    with late:
        pass
    assert place.names() == before
    assert read(place, "ds/train") == written(range(3))


def test_an_aborted_job_leaves_nothing_and_its_tasks_fail(place: Place) -> None:
    job = job_at(place)
    copy = pickle.loads(pickle.dumps(job))
    results = [run(job, task) for task in range(3)]
    open_one = job.open(order=3)
    open_one.write(b"x")
    copy.abort()
    with pytest.raises(OSError, match="too late"):
        open_one.close()
    for again in (job, copy):
        for told in (results, []):
            with pytest.raises(OSError, match="claim is gone"):
                again.commit(told)
    assert place.names() == []
    assert not pending(place)


# Empty


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
@pytest.mark.parametrize("results", ["none", "without records"])
def test_no_records_make_an_empty_dataset(
    place: Place, compression: str | None, results: str
) -> None:
    job = job_at(place, compression=compression)
    told = [] if results == "none" else [job.write([], order=order) for order in range(3)]
    manifest = job.commit(told)
    assert (manifest.records, len(manifest.shards)) == (0, 1)
    assert job.commit(told).to_bytes() == manifest.to_bytes()
    url, options = place.url("ds/train"), place.storage_options
    assert read(place, "ds/train") == []
    assert len(tfs.RecordSource(url, storage_options=options)) == 0
    assert tfs.verify(url, storage_options=options).ok
    assert tfs.count(url, storage_options=options) == 0
    assert len(place.names()) == 3


@pytest.mark.parametrize("if_exists", ["append", "overwrite"])
def test_no_records_in_the_place_of_some(local: Place, if_exists: Any) -> None:
    with sharded(local) as writer:
        writer.write_batch(records_of(0))
    job = job_at(local, if_exists=if_exists)
    manifest = job.commit([job.write([])])
    assert manifest.records == (50 if if_exists == "append" else 0)
    assert len(manifest.shards) == (4 if if_exists == "append" else 1)
    assert len(read(local, "ds/train")) == manifest.records


@pytest.mark.parametrize("if_exists", ["append", "overwrite"])
def test_tasks_append_and_overwrite(place: Place, if_exists: Any) -> None:
    with sharded(place, num_shards=1) as writer:
        writer.write_batch(records_of(0))
    job = job_at(place, if_exists=if_exists)
    job.commit([run(job, task) for task in (2, 1)])
    kept = [0] if if_exists == "append" else []
    assert read(place, "ds/train") == written([*kept, 1, 2])


# Results as messages

orders = st.one_of(
    st.none(), st.integers(), st.text(), st.lists(st.integers(), min_size=1).map(tuple)
)


@settings(max_examples=40)
@given(order=orders, shard_bytes=st.integers(1, 5000), sizes=st.lists(st.integers(0, 3000)))
def test_a_result_survives_messages(order: Any, shard_bytes: int, sizes: list[int]) -> None:
    job = tfs.WriteJob("memory://messages/train", if_exists="overwrite", block_bytes=4096)
    result = job.write(map(bytes, sizes), order, max_shard_bytes=shard_bytes)
    job.abort()
    for other in (
        pickle.loads(pickle.dumps(result)),
        tfs.results.TaskResult.from_json(json.loads(json.dumps(result.to_json()))),
    ):
        assert other == result
        assert other.num_records == len(sizes)


def test_a_result_is_small(local: Place) -> None:
    job = job_at(local, block_bytes=4096)
    result = job.write([random.Random(1).randbytes(200) for _ in range(256 * 40)])
    assert len(result.shards[0].blocks or []) > 250
    assert len(json.dumps(result.to_json())) < 4 * KIB
    assert len(pickle.dumps(result)) < 4 * KIB


def test_a_damaged_result_is_refused(local: Place) -> None:
    good = json.dumps(job_at(local).write([b"x"] * 5, order=(1, 2)).to_json())
    tables = json.loads(good)["tables"]
    damage = [
        ('"tfio_store.task"', '"other"'),
        ('"version": 1', '"version": 2'),
        ("[1, 2]", "[1, 2.5]"),
        ("[1, 2]", "{}"),
        ("_train-", "../train-"),
        (tables, tables[:-8]),
        (tables, "!"),
        (tables, ""),
        (", 5, ", ", 6, "),
        (", 5, ", ", -1, "),
        (", 5, ", ", true, "),
        ('"attempt"', '"attempts"'),
    ]
    for old, new in damage:
        assert old in good
        with pytest.raises(ValueError, match="no TaskResult"):
            tfs.results.TaskResult.from_json(json.loads(good.replace(old, new)))
    others: list[Any] = [[], None, 7]
    for other in others:
        with pytest.raises(ValueError, match="no TaskResult"):
            tfs.results.TaskResult.from_json(other)


@pytest.mark.filterwarnings("ignore:two attempts have the order")
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=12))
def test_ordering_is_that_of_a_plain_model(given_: list[tuple[int, int]]) -> None:
    """Sort by order; of equal ones the first."""
    results = [
        tfs.results.TaskResult("job", f"{i}", order, tuple(
            tfs.results.ShardInfo(f"{i}-{number}", 1, 1, 0) for number in range(shards)
        ))
        for i, (order, shards) in enumerate(given_)
    ]  # fmt: skip
    first = {order: i for i, (order, _) in reversed(list(enumerate(given_)))}
    expected = [f"{first[o]}-{n}" for o in sorted(first) for n in range(given_[first[o]][1])]
    counted = counted_results(results, "job")
    assert [shard.name for result in counted for shard in result.shards] == expected


def test_kinds_of_order() -> None:
    for order in (None, 0, -5, "", "a", (1,), (1, -2)):
        assert check_order(order) == order


def test_a_result_is_small_however_many_records_it_tells_of(tmp_path: Path) -> None:
    records = [bytes(1100)] * 20_000
    result = tfs.WriteJob(str(tmp_path / "train")).write(records, 0)
    assert len(pickle.dumps(result)) < 1000
    job = tfs.WriteJob(str(tmp_path / "wanted"), record_positions=True)
    with_positions = job.write(records, 0)
    blocks = with_positions.shards[0].blocks
    assert blocks is not None and blocks.starts is not None  # noqa: PT018
    assert len(blocks.starts) == 20_000
