"""Streams and sources of Grain that are killed, and go on as other numbers of hosts and workers."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.training.grain_loading import COUNT, workers_of, write, xs
from tfio_store.grain import elastic, source, stream

ALL = dict.fromkeys(range(COUNT), 1)

PROGRAM = """
import json, sys
from tests.training.test_grain_kill import made
kind, url, index, count, log = sys.argv[1:]
with open(log, "w") as file:
    iterator = iter(made(kind, url, (int(index), int(count))))
    for batch in iterator:
        print(json.dumps([batch["x"].tolist(), iterator.get_state()]), file=file, flush=True)
"""


def made(kind: str, url: str, shard: tuple[int, int], **options: Any) -> Any:
    """Batches of one host, with two workers each of a stream."""
    if kind == "elastic":
        return elastic(source(url).shuffle(seed=1), 12, shard=shard)
    dataset = stream(url, shuffle=True, shard=shard, **options).batch(10)
    return workers_of(dataset, 2) if kind == "workers" else dataset


def noted(log: Path) -> list[Any]:
    """The whole lines."""
    return [
        json.loads(line) for line in log.read_text().splitlines(keepends=True) if line[-1:] == "\n"
    ]


def killed(
    kind: str, url: str, folder: Path, hosts: int, steps: int
) -> tuple[list[int], list[Any]]:
    """What hosts gave until they were killed behind the same step, and their states there."""
    logs = [folder / f"{index}.log" for index in range(hosts)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, kind, url, str(index), str(hosts), str(log)],
            cwd=Path(__file__).parents[2],
        )
        for index, log in enumerate(logs)
    ]
    ends = time.monotonic() + 120
    while not all(log.exists() and len(noted(log)) >= steps for log in logs):
        assert time.monotonic() < ends
        time.sleep(0.05)
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = [noted(log)[:steps] for log in logs]
    return [x for lines in kept for batch, _ in lines for x in batch], [
        lines[-1][1] for lines in kept
    ]


@pytest.mark.long
@pytest.mark.parametrize(("old", "new"), [(2, 1), (2, 3), (1, 2)])
@pytest.mark.parametrize("kind", ["stream", "elastic"])
def test_other_hosts_go_on(kind: str, old: int, new: int, tmp_path: Path) -> None:
    write(f"{tmp_path}/train", compression="GZIP")
    given, states = killed(kind, f"{tmp_path}/train", tmp_path, old, 6)
    if kind == "elastic":
        hosts = [iter(made(kind, f"{tmp_path}/train", (i, new))) for i in range(new)]
        for host in hosts:
            host.set_state(states[0])
    else:
        hosts = [made(kind, f"{tmp_path}/train", (i, new), resume=states) for i in range(new)]
    whole = Counter([*given, *itertools.chain(*map(xs, hosts))])
    if kind == "elastic":  # what makes no whole batch is left out
        assert set(whole.values()) == {1}
        assert len(whole) > COUNT - 12
    else:
        assert whole == ALL


@pytest.mark.long
def test_three_workers_go_on_behind_two(tmp_path: Path) -> None:
    write(f"{tmp_path}/train", compression="GZIP")
    given, states = killed("workers", f"{tmp_path}/train", tmp_path, 1, 6)
    rest = stream(f"{tmp_path}/train", shuffle=True, resume=states).batch(10)
    assert Counter([*given, *xs(workers_of(rest, 3))]) == ALL


@pytest.mark.long
def test_the_same_hosts_go_on_with_the_same_batches(tmp_path: Path) -> None:
    write(f"{tmp_path}/train", compression="GZIP")
    given, (state,) = killed("stream", f"{tmp_path}/train", tmp_path, 1, 6)
    again = iter(made("stream", f"{tmp_path}/train", (0, 1)))
    again.set_state(state)
    assert given + xs(again) == xs(made("stream", f"{tmp_path}/train", (0, 1)))
