"""How many values lists of numbers have, which writers count and manifests keep."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.results import TaskResult

LISTS = {
    "tokens": tfs.Feature("int64", (None,)),
    "labels": tfs.Feature("float32", (None,), nullable=True),
    "raw": tfs.Feature("uint16", (None,), raw=True),
}
SCHEMA: dict[str, Any] = {**LISTS, "x": "int64", "pair": tfs.Feature("int64", (2,)), "name": "str"}


def rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    drawn = random.Random(seed)
    found = []
    for _ in range(count):
        sizes = [drawn.choice((0, 1, drawn.randint(0, 300))) for _ in range(3)]
        found.append(
            {
                "tokens": [drawn.randrange(1 << 20) for _ in range(sizes[0])],
                "labels": None if drawn.random() < 0.3 else [0.5] * (1 + sizes[1]),
                "raw": np.arange(sizes[2], dtype=np.uint16),
                "x": 1,
                "pair": [1, 2],
                "name": "a",
            }
        )
    return found


def counted(*parts: list[dict[str, Any]]) -> dict[str, int]:
    every = [row for part in parts for row in part]
    return {
        name: sum(len(row.get(name) or () if name != "raw" else row["raw"]) for row in every)
        for name in LISTS
    }


def values(url: Any) -> dict[str, int]:
    return dict(tfs.info(url).values)


@pytest.mark.parametrize("how", [{}, {"compression": "GZIP"}, {"compression": "ZSTD"}])
def test_writers_count_what_they_write(tmp_path: Path, how: dict[str, Any]) -> None:
    if how.get("compression") == "ZSTD":
        pytest.importorskip("zstandard")
    data = rows(500)
    with tfs.ShardedWriter(
        tmp_path / "one", num_shards=3, schema=SCHEMA, block_bytes=4096, **how
    ) as writer:
        for row in data[:250]:
            writer.write(row)
        writer.write_batch(data[250:])
    assert writer.manifest.values == values(tmp_path / "one") == counted(data)
    records = list(tfs.RecordReader(str(tmp_path / "one")))
    with tfs.ShardedWriter(
        tmp_path / "bytes", max_shard_records=100, schema=SCHEMA, **how
    ) as writer:
        writer.write_batch(records)
    assert writer.manifest.values == counted(data)
    assert tfs.copy(tmp_path / "one", tmp_path / "copy").values == counted(data)
    assert values([tmp_path / "one", tmp_path / "copy"]) == counted(data, data)
    assert values(tfs.slice(tmp_path / "one", ":10")) == {}
    table = tfs.read_table(tmp_path / "one")
    assert tfs.write_table(table, tmp_path / "table", schema=SCHEMA).values == counted(data)


def test_jobs_add_up_the_attempts_that_count(tmp_path: Path) -> None:
    data = [rows(60, seed) for seed in range(3)]
    job = tfs.WriteJob(tmp_path / "job", schema=SCHEMA)
    results = [job.write(part, order=i) for i, part in enumerate(data)]
    twice = job.write(data[0], order=0)
    results = [TaskResult.from_json(json.loads(json.dumps(one.to_json()))) for one in results]
    assert job.commit([*results, twice]).values == values(tmp_path / "job") == counted(*data)
    job = tfs.WriteJob(tmp_path / "shards", num_shards=3, schema=SCHEMA)
    infos = [job.write_shard(i, part) for i, part in enumerate(data)]
    assert job.commit(infos).values == counted(*data)


def test_what_is_appended_is_added(tmp_path: Path) -> None:
    first, second = rows(50, 1), rows(70, 2)
    schema = {"tokens": SCHEMA["tokens"], "x": "int64"}
    with tfs.ShardedWriter(tmp_path / "train", num_shards=1, schema=schema) as writer:
        writer.write_batch([{"tokens": row["tokens"], "x": 1} for row in first])
    tokens = counted(first)["tokens"]
    with tfs.ShardedWriter(
        tmp_path / "train", num_shards=2, schema=SCHEMA, if_exists="append"
    ) as writer:
        writer.write_batch(second)
    after = counted(second)
    both = {**after, "tokens": tokens + after["tokens"]}  # the others are new
    assert values(tmp_path / "train") == both
    with tfs.ShardedWriter(tmp_path / "train", num_shards=1, if_exists="append") as writer:
        writer.write({**second[0], "tokens": [1, 2, 3], "labels": [1.0], "raw": b""})
    assert values(tmp_path / "train") == {
        **both,
        "tokens": both["tokens"] + 3,
        "labels": both["labels"] + 1,
    }
    with tfs.ShardedWriter(tmp_path / "train", num_shards=1, if_exists="append"):
        pass
    assert values(tmp_path / "train")["tokens"] == both["tokens"] + 3


def test_nothing_is_said_of_what_was_not_counted(tmp_path: Path) -> None:
    with tfs.ShardedWriter(tmp_path / "dicts", num_shards=1) as writer:  # it learns its schema
        writer.write_batch([{"x": [1]}, {"x": [1, 2]}])
    assert values(tmp_path / "dicts") == {}
    with tfs.ShardedWriter(
        tmp_path / "odd", num_shards=1, schema={"x": SCHEMA["tokens"]}
    ) as writer:
        writer.write(b"no Example")
    assert values(tmp_path / "odd") == {}
    with tfs.ShardedWriter(tmp_path / "none", num_shards=2, schema={"x": SCHEMA["tokens"]}):
        pass
    assert values(tmp_path / "none") == {"x": 0}
    root = json.loads((tmp_path / "_none.manifest.json").read_text())
    assert root["values"] == {"x": 0}


@pytest.mark.parametrize("wrong", [{"x": -1}, {"x": 1.5}, {"x": True}, [1], {"x": 1 << 63}])
def test_counts_are_counts(tmp_path: Path, wrong: Any) -> None:
    from tfio_store.dataset.manifest import DatasetManifest

    data = DatasetManifest((), None, values=wrong).to_bytes()
    with pytest.raises(tfs.errors.ManifestError, match="not a manifest that can be read"):
        DatasetManifest.from_bytes(data)
