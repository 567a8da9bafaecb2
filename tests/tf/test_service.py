"""tf.data service: workers in processes of their own read every record exactly once."""

from __future__ import annotations

import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.servers.place import Place
from tests.support.long import first

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tfio_store.records.framing import FrameWriter  # noqa: E402
from tfio_store.tf.dataset import streams  # noqa: E402

pytestmark = pytest.mark.tensorflow

RECORDS = 1000
SIZE = 10_000


def seen(dataset: Any) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for element in dataset:
        value = element.numpy()
        found.update([value[:6]] if isinstance(value, bytes) else [v[:6] for v in value.tolist()])
    return found


@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    ("policy", "options"),
    [
        pytest.param("DYNAMIC", {}, id="blocks"),
        pytest.param("DYNAMIC", {"shuffle": 2}, id="shuffled"),
        pytest.param("DYNAMIC", {"batch_size": 64}, id="batches"),
        pytest.param("DYNAMIC", {"num_parallel_reads": 2}, id="parallel reads"),
        pytest.param("OFF", {}, id="without sharding"),
    ],
)
def test_every_record_exactly_once(
    service: str, s3: Place, policy: str, options: dict[str, Any]
) -> None:
    records = [f"{i:06d}".encode().ljust(SIZE, b".") for i in range(RECORDS)]
    where: dict[str, Any] = {"storage_options": s3.storage_options}
    with tfs.ShardedWriter(s3.url("set"), num_shards=4, compression="GZIP", **where) as writer:
        writer.write_batch(records)
    dataset = tfs.TFRecordDataset(s3.url("set"), **where, **options)
    policies = tf.data.experimental.service.ShardingPolicy
    shared = dataset.apply(
        tf.data.experimental.service.distribute(
            policies[policy], service, max_outstanding_requests=4
        )
    )
    copies = 1 if policy == "DYNAMIC" else 2  # without sharding each worker reads everything
    assert seen(shared) == {record[:6]: copies for record in records}


STREAMED = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "shuffled batches": {"shuffle": 2, "seed": 3, "batch_size": 16},
    "batches": {"batch_size": 16},
    "parallel reads": {"num_parallel_reads": 2},
    "shuffled parallel reads": {"num_parallel_reads": 2, "shuffle": True},
}


@pytest.mark.timeout(280)
@pytest.mark.parametrize("files", ["abcdef", "a"])
@pytest.mark.parametrize("options", STREAMED.values(), ids=STREAMED)
def test_files_are_shared_out_too(
    service: str,
    s3: Place,
    monkeypatch: pytest.MonkeyPatch,
    files: str,
    options: dict[str, Any],
) -> None:
    """The streaming path: foreign files, split by file."""
    monkeypatch.setattr(streams, "SMALL", 0)
    urls = []
    for tag in files:
        writer = FrameWriter()
        writer.write_many([f"{tag}{i:05d}".encode() for i in range(100)])
        urls.append(s3.put(f"{tag}.tfrecord", zlib.compress(bytes(writer.take()))))
    dataset = tfs.TFRecordDataset(urls, storage_options=s3.storage_options, **options)
    policies = tf.data.experimental.service.ShardingPolicy
    shared = dataset.apply(tf.data.experimental.service.distribute(policies.DYNAMIC, service))
    assert seen(shared) == {f"{tag}{i:05d}".encode(): 1 for tag in files for i in range(100)}


@pytest.mark.timeout(280)
@pytest.mark.parametrize("options", [{}, {"batch_size": 64}], ids=["blocks", "batches"])
def test_workers_read_the_version_that_the_dataset_was_made_of(
    service: str, s3: Place, options: dict[str, Any]
) -> None:
    where: dict[str, Any] = {"storage_options": s3.storage_options}
    with tfs.ShardedWriter(s3.url("set"), num_shards=1, compression="GZIP", **where) as writer:
        writer.write_batch([b"old" * 1_000] * 1_000)
    dataset = tfs.TFRecordDataset(s3.url("set"), **where, **options)
    (shard,) = writer.manifest.shards
    s3.put(shard.name, s3.get(shard.name))
    dynamic = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    shared = tf.data.experimental.service.distribute(dynamic, service)
    assert sum(seen(dataset.apply(shared)).values()) == 1_000  # the same ETag: it is a digest
    s3.put(shard.name, s3.get(shard.name)[::-1])
    with pytest.raises(tf.errors.FailedPreconditionError, match="was replaced"):
        seen(dataset.apply(shared))


@pytest.mark.timeout(280)
def test_small_batches_bring_every_record_once(service: str, tmp_path: Path) -> None:
    """They are cut from blocks, which the workers share out."""
    records = [b"%06d" % i + bytes(100) for i in range(30_000)]
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=4) as writer:
        writer.write_batch(records)
    dynamic = tf.data.experimental.service.distribute(
        tf.data.experimental.service.ShardingPolicy.DYNAMIC, service
    )
    dataset = tfs.TFRecordDataset(str(tmp_path / "set"), batch_size=32)
    assert seen(dataset.apply(dynamic)) == Counter(record[:6] for record in records)


BATCH = 64
SHARDED = {
    "blocks": {},
    "shuffled": {"shuffle": 2, "seed": 3},
    "batches": {"batch_size": BATCH},
    "shuffled batches": {"batch_size": BATCH, "shuffle": 2},
    "batches, the last dropped": {"batch_size": BATCH, "drop_remainder": True},
    "shuffled batches, the last dropped": {
        "batch_size": BATCH,
        "shuffle": 2,
        "drop_remainder": True,
    },
    "parallel reads": {"num_parallel_reads": 2},
}


@pytest.mark.timeout(280)
@pytest.mark.parametrize("by", ["option", "method"])
@pytest.mark.parametrize("options", first(4, [pytest.param(SHARDED[n], id=n) for n in SHARDED]))
def test_shards_are_read_exactly_once_too(
    service: str, tmp_path: Path, options: dict[str, Any], by: str
) -> None:
    records = [f"{i:06d}".encode().ljust(SIZE, b".") for i in range(RECORDS)]
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=4, compression="GZIP") as writer:
        writer.write_batch(records)
    dynamic = tf.data.experimental.service.distribute(
        tf.data.experimental.service.ShardingPolicy.DYNAMIC, service
    )
    shards: list[Counter[bytes]] = []
    for i in range(2):
        if by == "option":
            shard = tfs.TFRecordDataset(str(tmp_path / "set"), shard=(2, i), **options)
        else:
            shard = tfs.TFRecordDataset(str(tmp_path / "set"), **options).shard(2, i)
        shards.append(seen(shard.apply(dynamic)))
        if "drop_remainder" not in options:
            assert shards[i] == seen(shard)
    found = shards[0] + shards[1]
    assert max(found.values()) == 1
    # where workers put batches together from their blocks, each has a remainder of its own
    workers = 2 if "shuffle" in options else 1
    dropped = workers * len(shards) * (BATCH - 1) if "drop_remainder" in options else 0
    assert RECORDS - dropped <= found.total() <= RECORDS
    if "drop_remainder" in options:
        assert found.total() % BATCH == 0


@pytest.mark.timeout(280)
@pytest.mark.parametrize("mapped", [False, True])
def test_consumers_in_rounds_read_batches_that_repeat(
    service: str, tmp_path: Path, mapped: bool
) -> None:
    """As those of TensorFlow's reader, of which it does not know that they end."""
    records = [f"{i:06d}".encode().ljust(SIZE, b".") for i in range(RECORDS)]
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=4) as writer:
        writer.write_batch(records)
    dataset = tfs.TFRecordDataset(str(tmp_path / "set"), batch_size=16).repeat(2)
    if mapped:
        dataset = dataset.map(tf.identity).prefetch(2)
    assert int(dataset.cardinality()) == 2 * -(-RECORDS // 16)

    def consume(index: int) -> int:
        shared = tf.data.experimental.service.distribute(
            tf.data.experimental.service.ShardingPolicy.OFF,
            service,
            job_name=f"rounds-{mapped}",
            consumer_index=index,
            num_consumers=2,
        )
        return sum(len(batch) for batch in dataset.apply(shared).take(20))

    with ThreadPoolExecutor() as consumers:
        assert list(consumers.map(consume, range(2))) == [320, 320]
