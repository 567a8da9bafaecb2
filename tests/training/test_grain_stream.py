"""`tfio_store.grain.stream`: blocks shared among hosts and workers, and gone on from anywhere."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import flipped, framed
from tests.support.long import first
from tests.training.grain_loading import COUNT, grain, workers_of, write, xs
from tfio_store.grain import stream

ROOT = Path(__file__).parents[2]
ALL = list(range(COUNT))


@pytest.fixture
def url(tmp_path: Path) -> str:
    write(f"{tmp_path}/train", compression="GZIP")
    return f"{tmp_path}/train"


def saved(iterator: Any) -> Any:
    return json.loads(json.dumps(iterator.get_state()))


# Rows and batches


@pytest.mark.parametrize("shuffle", [False, True])
def test_rows_and_batches(url: str, shuffle: bool) -> None:
    rows = xs(stream(url, shuffle=shuffle))
    assert sorted(rows) == ALL
    assert (rows == ALL) == (not shuffle)
    assert xs(stream(url, shuffle=shuffle).batch(32)) == rows
    assert xs(stream(url, shuffle=shuffle).map(lambda row: row).batch(32)) == rows
    sizes = [len(batch["x"]) for batch in stream(url, shuffle=shuffle).batch(50)]
    assert sizes == [50] * (COUNT // 50) + [COUNT % 50]
    whole = stream(url, shuffle=shuffle).batch(50, drop_remainder=True)
    assert {len(batch["x"]) for batch in whole} == {50}


def test_columns_of_strings_and_of_varying_lengths(tmp_path: Path) -> None:
    table: dict[str, Any] = {"b": [b"a\0", b"", b"\0"], "ids": [[1], [], [2, 3]], "n": [1, None, 2]}
    tfs.write_table(table, f"{tmp_path}/train")
    (batch,) = stream(f"{tmp_path}/train").batch(3)
    assert {name: column.tolist() for name, column in batch.items()} == table
    rows = list(stream(f"{tmp_path}/train"))
    assert [row["b"].item() for row in rows] == table["b"]
    assert [row["n"] for row in rows] == table["n"]


def test_epochs(url: str) -> None:
    two = xs(stream(url, shuffle=True, num_epochs=2))
    assert sorted(two[:COUNT]) == sorted(two[COUNT:]) == ALL
    assert two[:COUNT] != two[COUNT:]
    endless = stream(url, num_epochs=None).batch(100)
    assert len(xs(itertools.islice(endless, 20))) > 3 * COUNT
    with pytest.raises(ValueError, match="num_epochs="):
        stream(url, num_epochs=0)


@pytest.mark.parametrize("records", [[], [b"a"]])
def test_few_records(tmp_path: Path, records: list[bytes]) -> None:
    (tmp_path / "x").write_bytes(framed(records))
    assert list(stream(f"{tmp_path}/x")) == records
    assert [each.tolist() for each in stream(f"{tmp_path}/x").batch(2)] == [records] * len(records)
    endless = list(itertools.islice(stream(f"{tmp_path}/x", num_epochs=None), 3))
    assert endless == records * 3
    assert list(workers_of(stream(f"{tmp_path}/x"), 3)) == records


def test_compressed_files_of_others(tmp_path: Path) -> None:
    parts = [[tfs.encode_example({"x": i}) for i in range(n, 503, 3)] for n in range(3)]
    (tmp_path / "a.gz").write_bytes(gzip.compress(framed(parts[0])))
    (tmp_path / "b.gz").write_bytes(gzip.compress(framed(parts[1])))
    (tmp_path / "c.zz").write_bytes(zlib.compress(framed(parts[2])))
    how: dict[str, Any] = {"schema": {"x": "int64"}}
    assert sorted(xs(stream(f"{tmp_path}/*z", **how).batch(20))) == ALL
    assert sorted(xs(stream(f"{tmp_path}/*z", shuffle=True, **how))) == ALL
    assert sorted(xs(workers_of(stream(f"{tmp_path}/*z", **how).batch(20), 2))) == ALL
    iterator = iter(stream(f"{tmp_path}/*z", **how).batch(20))
    given = xs(itertools.islice(iterator, 11))
    again = iter(stream(f"{tmp_path}/*z", **how).batch(20))
    again.set_state(saved(iterator))
    assert sorted(given + xs(again)) == ALL


def test_mixtures(url: str, tmp_path: Path) -> None:
    write(f"{tmp_path}/other", first=1000)

    def made(**options: Any) -> Any:
        mixed = tfs.mix({url: 1, f"{tmp_path}/other": 1}, seed=1)
        return stream(mixed, **options).batch(10)

    whole = xs(made())
    assert {*ALL} & {*whole}
    assert {*whole} - {*ALL}
    iterator = iter(made())
    given = xs(itertools.islice(iterator, 9))
    again = iter(made())
    again.set_state(saved(iterator))
    assert given + xs(again) == whole
    with pytest.raises(ValueError, match="verify= is not for a mixture"):
        made(verify=False)


def test_damage_that_a_worker_meets(tmp_path: Path) -> None:
    records = [tfs.encode_example({"x": i}) for i in range(20)]
    offset = len(framed(records[:13]))
    (tmp_path / "x").write_bytes(flipped(framed(records), offset + 14))
    with pytest.raises(tfs.DataLossError) as error:
        list(workers_of(stream(f"{tmp_path}/x", schema={"x": "int64"}), 2))
    assert (error.value.path, error.value.offset) == (f"{tmp_path}/x", offset)


# Hosts and workers


@pytest.mark.parametrize(
    ("workers", "shuffle"),
    first(2, [(2, True), (5, False), (1, True), (1, False), (2, False), (5, True)]),
)
def test_workers_share_the_blocks(url: str, workers: int, shuffle: bool) -> None:
    """Also more workers than there are files."""
    dataset = stream(url, shuffle=shuffle).batch(20)
    assert sorted(xs(workers_of(dataset, workers))) == ALL


def test_workers_and_rows(url: str) -> None:
    assert sorted(xs(workers_of(stream(url).map(lambda row: {"x": row["x"]}), 2))) == ALL


def test_threads(url: str) -> None:
    prefetch = grain.experimental.ThreadPrefetchIterDataset
    iterator = iter(prefetch(stream(url, shuffle=True).batch(20), prefetch_buffer_size=4))
    given = xs(itertools.islice(iterator, 7))
    again = iter(prefetch(stream(url, shuffle=True).batch(20), prefetch_buffer_size=4))
    again.set_state(saved(iterator))
    assert sorted(given + xs(again)) == ALL
    many = grain.experimental.multithread_prefetch(stream(url).batch(20), 3, 2)
    assert sorted(xs(many)) == ALL


def test_s3(s3: Place) -> None:
    write(s3.url("train"), storage_options=s3.storage_options)
    rows = stream(s3.url("train"), storage_options=s3.storage_options)
    assert next(iter(rows))
    assert sorted(xs(workers_of(rows.batch(20), 2))) == ALL


@pytest.mark.parametrize("count", first(1, [2, 5]))
def test_hosts(url: str, count: int) -> None:
    parts = [xs(stream(url, shard=(i, count), shuffle=True)) for i in range(count)]
    assert sorted(itertools.chain(*parts)) == ALL
    even = [
        xs(stream(url, shard=grain.sharding.ShardOptions(i, count, drop_remainder=True)))
        for i in range(count)
    ]
    assert {len(part) for part in even} == {COUNT // count}
    assert max(Counter(itertools.chain(*even)).values()) == 1
    halves = [xs(workers_of(stream(url, shard=(i, count)), 2)) for i in range(count)]
    assert sorted(itertools.chain(*halves)) == ALL


# States


@pytest.mark.parametrize("size", first(1, [20, None]))
@pytest.mark.parametrize("workers", first(2, [0, 3, 1]))
@pytest.mark.parametrize("epochs", first(1, [2, 1]))
def test_each_state_is_gone_on_from(url: str, size: int | None, workers: int, epochs: int) -> None:
    def made() -> Any:
        dataset: Any = stream(url, shuffle=True, num_epochs=epochs)
        dataset = dataset if size is None else dataset.batch(size)
        return iter(workers_of(dataset, workers) if workers else dataset)

    iterator, whole, states = made(), [], [saved(made())]
    for each in iterator:
        whole.append(xs([each]))
        states.append(saved(iterator))
    assert Counter(itertools.chain(*whole)) == dict.fromkeys(ALL, epochs)
    steps = {0, 1, len(whole) // 2, len(whole) - 1, len(whole)}
    for step in sorted(steps if not workers else {1, len(whole) // 2}):
        again = made()
        again.set_state(states[step])
        assert [xs([each]) for each in again] == whole[step:], step


def test_a_state_of_another_source_order_or_share(url: str, tmp_path: Path) -> None:
    iterator = iter(stream(url, shuffle=True).batch(10))
    next(iterator)
    state = saved(iterator)
    write(f"{tmp_path}/other", first=1 << 20)
    with pytest.raises(ValueError, match=r"the state is of source .* and the stream reads"):
        iter(stream(f"{tmp_path}/other", shuffle=True)).set_state(state)
    with pytest.raises(ValueError, match="the state is of source"):
        stream(f"{tmp_path}/other", resume=[state])
    with pytest.raises(ValueError, match="order"):
        iter(stream(url, shuffle=True, seed=1)).set_state(state)
    with pytest.raises(ValueError, match=r"share 0 of 1, and this is share 1 of 2.*resume="):
        iter(stream(url, shuffle=True, shard=(1, 2))).set_state(state)
    for wrong in ({"next_index": 3}, 3, {**state, "share": "?"}):
        with pytest.raises(ValueError, match=r"the state is none of tfio_store.grain.stream"):
            iter(stream(url)).set_state(wrong)
    with pytest.raises(ValueError, match="resume= holds no state"):
        stream(url, resume=[])


def layout(url: str, hosts: int, workers: int, **options: Any) -> list[Any]:
    """An iterator for each host, of batches."""
    datasets = [
        stream(url, shuffle=True, shard=(host, hosts), **options).batch(10) for host in range(hosts)
    ]
    return [iter(workers_of(one, workers) if workers else one) for one in datasets]


IN_ONE_PROCESS = [((2, 0), (1, 0)), ((1, 0), (3, 0))]
WITH_WORKERS = [((1, 2), (1, 3)), ((2, 2), (1, 3)), ((1, 5), (2, 0))]


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [
        *((*layouts, steps) for layouts in IN_ONE_PROCESS for steps in (0, 1, 9)),
        *first(1, [(*layouts, steps) for layouts in WITH_WORKERS for steps in (9, 1, 0)]),
    ],
)
def test_other_hosts_and_workers_go_on(
    url: str, old: tuple[int, int], new: tuple[int, int], steps: int
) -> None:
    hosts = layout(url, *old)
    given = [xs(itertools.islice(host, steps)) for host in hosts]
    states = [saved(host) for host in hosts]
    first = layout(url, *new, resume=states)
    more = [xs(itertools.islice(host, 2)) for host in first]
    again = [saved(host) for host in first]
    rest = [xs(host) for host in layout(url, *old, resume=again)]  # and back, in the same epoch
    assert sorted(itertools.chain(*given, *more, *rest)) == ALL


def test_shares_in_different_epochs_go_on(url: str) -> None:
    """One host is two epochs ahead."""
    hosts = layout(url, 2, 0, num_epochs=4)
    given = [xs(itertools.islice(host, n)) for host, n in zip(hosts, (3, 60), strict=True)]
    states = [saved(host) for host in hosts]
    assert [state["epoch"] for state in states] == [0, 2]
    three = layout(url, 3, 0, num_epochs=4, resume=states)
    more = [xs(itertools.islice(host, n)) for host, n in zip(three, (2, 0, 30), strict=True)]
    states = [saved(host) for host in three]
    rest = [xs(host) for host in layout(url, 1, 2, num_epochs=4, resume=states)]
    assert Counter(itertools.chain(*given, *more, *rest)) == dict.fromkeys(ALL, 4)


def test_a_host_that_is_missing(url: str) -> None:
    hosts = layout(url, 2, 0)
    for host in hosts:
        next(host)
    states = [saved(host) for host in hosts]
    for wrong in (states[:1], [states[0], states[0]], [*states, states[1]]):
        with pytest.raises(ValueError, match="pass one state of each host"):
            stream(url, shuffle=True, resume=wrong)
    lone = iter(stream(url, shuffle=True))
    next(lone)
    with pytest.raises(ValueError, match="different numbers of shares"):
        stream(url, shuffle=True, resume=[states[0], saved(lone)])


def test_one_thread_at_a_time(url: str) -> None:
    rows = iter(stream(url))
    read = [next(rows)]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(rows._turn.__enter__).result()
        with pytest.raises(RuntimeError, match="in use by another thread"):
            next(rows)
        pool.submit(rows._turn.__exit__).result()
    assert xs([*read, *rows]) == ALL


def test_what_has_ended_stays_ended(url: str) -> None:
    iterator = iter(stream(url, shuffle=True).batch(10))
    assert sorted(xs(iterator)) == ALL
    assert xs(stream(url, shuffle=True, resume=[saved(iterator)], shard=(0, 2))) == []
    again = iter(stream(url, shuffle=True).batch(10))
    again.set_state(saved(iterator))
    assert list(again) == []


# A program that is killed

PROGRAM = """
import json, os, signal, sys
from absl import flags
import grain
from tfio_store.grain import stream

def main(url, folder, workers, steps):
    states = [json.load(open(f"{folder}/state"))] if os.path.exists(f"{folder}/state") else None
    dataset = stream(url, shuffle=True, resume=states).batch(10)
    options = grain.multiprocessing.MultiprocessingOptions(num_workers=workers)
    iterator = iter(dataset.mp_prefetch(options))
    given = []
    for step, batch in enumerate(iterator, 1):
        given += batch["x"].tolist()
        if step == steps:
            with open(f"{folder}/given", "w") as file:
                json.dump(given, file)
            with open(f"{folder}/state", "w") as file:
                json.dump(iterator.get_state(), file)
        if step == steps + 2:  # what comes behind the state is lost with the process
            os.kill(os.getpid(), signal.SIGKILL)
    print(json.dumps(given))

if __name__ == "__main__":
    flags.FLAGS.mark_as_parsed()
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""


def test_a_killed_program_goes_on_with_more_workers(url: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")

    def run(workers: int, steps: int) -> int:
        where = [str(tmp_path / "program.py"), url, str(tmp_path), str(workers), str(steps)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        with (tmp_path / "printed").open("w") as printed:
            started = subprocess.Popen(
                [sys.executable, *where], stdout=printed, env=environment, start_new_session=True
            )
            try:
                return started.wait(180)
            finally:
                with contextlib.suppress(ProcessLookupError):  # Grain's workers outlive a kill
                    os.killpg(started.pid, signal.SIGKILL)

    assert run(2, 11) == -signal.SIGKILL
    given = json.loads((tmp_path / "given").read_text())
    assert run(3, 10_000) == 0
    assert sorted(given + json.loads((tmp_path / "printed").read_text())) == ALL
